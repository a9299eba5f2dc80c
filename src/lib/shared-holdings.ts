/** Number of client cells. Clients that share a cell share one limit, so that none ever exceeds it. */
const CELLS = 65_536
/** Bytes per unit of a cell, so that 32 bits count 32 GiB. */
const UNIT = 16
/** Cells per thread: the total and those of clients. */
const WIDTH = 1 + CELLS

/** Memory shared by threads for the budgets of the process. Plain data. */
export interface HoldingsMemory {
  readonly buffer: SharedArrayBuffer
  /** Seed of the clients' cells; secret, so that no client can choose another's. */
  readonly seed: number
}

/** Allocates memory for this number of threads. */
export function holdingsMemory(threads: number, seed: number): HoldingsMemory {
  return { buffer: new SharedArrayBuffer(threads * WIDTH * Int32Array.BYTES_PER_ELEMENT), seed }
}

/** Clears the holdings of a thread that has stopped. */
export function clearHoldings({ buffer }: HoldingsMemory, thread: number): void {
  const begin = thread * WIDTH
  // Cells are 32-bit integers, never partially written: clearing them atomically would block the loop for a millisecond.
  new Int32Array(buffer).fill(0, begin, begin + WIDTH)
}

/**
 * Holdings of one thread within a shared budget. A thread writes only its own numbers: it first publishes its new total, then sums up all
 * totals. Two concurrent requests may both be refused, but never both be admitted beyond the limit.
 */
export class SharedHoldings {
  /** Total bytes of this thread. */
  bytes = 0
  readonly #cells: Int32Array
  readonly #row: number
  readonly #seed: number
  readonly #threads: number
  /** Bytes of this thread by cell. */
  readonly #own = new Map<number, number>()

  constructor({ buffer, seed }: HoldingsMemory, thread: number) {
    this.#cells = new Int32Array(buffer)
    this.#row = thread * WIDTH
    this.#seed = seed
    this.#threads = this.#cells.length / WIDTH
  }

  /** Reserves `bytes` for a client; otherwise returns the exceeded limit and reserves nothing. */
  take(
    client: string,
    bytes: number,
    { total, perClient }: { readonly total: number; readonly perClient: number }
  ): 'total' | 'client' | undefined {
    const cell = this.#cellOf(client)
    this.#count(cell, bytes)
    const full = this.#sum(0) > total ? 'total' : this.#sum(cell) > perClient ? 'client' : undefined
    if (full !== undefined) this.#count(cell, -bytes)
    return full
  }

  /** Releases reserved bytes. */
  give(client: string, bytes: number): void {
    this.#count(this.#cellOf(client), -bytes)
  }

  #count(cell: number, bytes: number): void {
    this.bytes += bytes
    const held = (this.#own.get(cell) ?? 0) + bytes
    if (held > 0) this.#own.set(cell, held)
    else this.#own.delete(cell)
    Atomics.store(this.#cells, this.#row, Math.ceil(this.bytes / UNIT))
    Atomics.store(this.#cells, this.#row + cell, Math.ceil(held / UNIT))
  }

  /** Sums the bytes that all threads have published. This thread's own are exact. */
  #sum(cell: number): number {
    let units = 0
    for (let thread = 0; thread < this.#threads; thread++) {
      const row = thread * WIDTH
      if (row !== this.#row) units += Atomics.load(this.#cells, row + cell)
    }
    return units * UNIT + (cell === 0 ? this.bytes : (this.#own.get(cell) ?? 0))
  }

  /** Returns the cell of a client, from 1; 0 is the total. FNV-1a from the seed, with the final mix of MurmurHash3. */
  #cellOf(client: string): number {
    let hash = this.#seed
    for (let i = 0; i < client.length; i++) hash = Math.imul(hash ^ client.charCodeAt(i), 0x01000193)
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
    return 1 + (((hash ^ (hash >>> 16)) >>> 0) % CELLS)
  }
}
