/** Cells of clients. Two clients may have one cell, and are then held to the limit of one; so none ever has more. */
const CELLS = 65_536
/** Bytes of one unit of a cell, so that 32 bits count 32 GiB. */
const UNIT = 16
const WIDTH = 1 + CELLS

/** What threads hold of budgets that are one for the process. Plain data. */
export interface HoldingsMemory {
  readonly buffer: SharedArrayBuffer
  /** Says which cell a client has; secret, so that no client can choose another's. */
  readonly seed: number
}

/** Memory for so many threads. */
export function holdingsMemory(threads: number, seed: number): HoldingsMemory {
  return { buffer: new SharedArrayBuffer(threads * WIDTH * Int32Array.BYTES_PER_ELEMENT), seed }
}

/** The thread of this number is gone, and what it held with it. */
export function clearHoldings({ buffer }: HoldingsMemory, thread: number): void {
  const begin = thread * WIDTH
  // Cells are whole numbers of 32 bits, which are never seen half written: clearing them one by one would hold the loop for a millisecond.
  new Int32Array(buffer).fill(0, begin, begin + WIDTH)
}

/**
 * What one thread holds, beside what others do. A thread writes its own numbers alone: first it says what it would hold, then it adds up what all
 * say. So two that come at once may both be refused, and never both be let in beyond the limit.
 */
export class SharedHoldings {
  /** Bytes of all of this thread. */
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

  /** Takes `bytes` for a client, or answers which limit they would exceed; then nothing is taken. */
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

  /** Gives back what was taken. */
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

  /** Bytes that all threads say that they hold. What this one holds is known to the byte. */
  #sum(cell: number): number {
    let units = 0
    for (let thread = 0; thread < this.#threads; thread++) {
      const row = thread * WIDTH
      if (row !== this.#row) units += Atomics.load(this.#cells, row + cell)
    }
    return units * UNIT + (cell === 0 ? this.bytes : (this.#own.get(cell) ?? 0))
  }

  /** From 1 on; 0 is that of all. FNV-1a from the seed, mixed as MurmurHash3 ends. */
  #cellOf(client: string): number {
    let hash = this.#seed
    for (let i = 0; i < client.length; i++) hash = Math.imul(hash ^ client.charCodeAt(i), 0x01000193)
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
    return 1 + (((hash ^ (hash >>> 16)) >>> 0) % CELLS)
  }
}
