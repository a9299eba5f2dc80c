/** Records in a log: a power of two. */
const RECORDS = 2 ** 17
/** 32-bit words of a record. */
export const RECORD_WORDS = 4
/** Bytes of a record. */
const RECORD_BYTES = 4 * RECORD_WORDS
/** Words of the header: each number has its own cache line. */
const HEAD_WORDS = 48
/** Index of the number of written records, modulo 2³². */
const WRITTEN = 0
/** Index of the number of taken records, modulo 2³². */
const TAKEN = 16
/** Index of the number of lost records, modulo 2³². */
const LOST = 32

/** Bits for the cost in the third word of a record; the code of the window is above. */
export const COST_BITS = 18
/** A constant, because the power would be computed again for each record. */
const COSTS = 2 ** COST_BITS
/** Cost that is stored in an additional record after its admission. */
export const LARGE_COST = 2 ** COST_BITS - 1
/** Units of record times in one millisecond. */
export const TIME_PARTS = 256
/** Milliseconds after which the time of a waiting record is ambiguous. */
export const LONGEST_WAIT = 2 * 3_600_000
/** Cost in a record of a cleared bucket: admissions up to its time no longer count. */
export const EMPTIED = 0

/**
 * Admissions of one thread that no file has yet: a ring of fixed size in shared memory. The thread writes, and the thread that keeps the
 * counters takes.
 *
 * A record is four words: low and high half of the bucket's hash, window and cost, time in 256ths of a millisecond rounded up, modulo 2³².
 * A record exists once the number of written ones is raised, in one store after all others: a thread that ends in between leaves nothing.
 * If the ring is full, nothing waits and nothing is overwritten: the record counts as lost, and the keeper must write the table anew.
 */
export class AdmissionLog {
  private readonly words: Uint32Array
  private readonly numbers: Int32Array
  private written: number
  private room = 0

  /** @param shared true if another thread takes the records */
  constructor(
    readonly buffer: SharedArrayBuffer,
    private readonly shared: boolean
  ) {
    this.words = new Uint32Array(buffer)
    this.numbers = new Int32Array(buffer)
    this.written = Atomics.load(this.numbers, WRITTEN)
  }

  /** Allocates memory for a log, used on demand. */
  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer((HEAD_WORDS + RECORDS * RECORD_WORDS) * 4)
  }

  /** Writes one record, `time` in milliseconds; see `EMPTIED` for a cost of 0. Only for the log's own thread. */
  add(low: number, high: number, code: number, time: number, cost: number): void {
    const records = cost < LARGE_COST ? 1 : 2
    if (this.room < records && !this.look(records)) {
      Atomics.add(this.numbers, LOST, 1)
      return
    }
    const { words } = this
    const at = HEAD_WORDS + (this.written & (RECORDS - 1)) * RECORD_WORDS
    words[at] = low
    words[at + 1] = high
    words[at + 2] = code * COSTS + (records === 1 ? cost : LARGE_COST)
    words[at + 3] = Math.ceil(time * TIME_PARTS)
    if (records === 2) words[HEAD_WORDS + ((this.written + 1) & (RECORDS - 1)) * RECORD_WORDS] = cost
    this.written = (this.written + records) | 0
    this.room -= records
    if (this.shared) Atomics.store(this.numbers, WRITTEN, this.written)
    else this.numbers[WRITTEN] = this.written
  }

  /** Part of the ring that waits, from 0 to 1. */
  get fill(): number {
    return ((Atomics.load(this.numbers, WRITTEN) - Atomics.load(this.numbers, TAKEN)) | 0) / RECORDS
  }

  /** Returns the waiting records: views that are unchanged until `take`. */
  waiting(): { readonly records: number; readonly views: readonly Uint8Array[] } {
    const taken = Atomics.load(this.numbers, TAKEN)
    const records = (Atomics.load(this.numbers, WRITTEN) - taken) | 0
    const from = taken & (RECORDS - 1)
    const first = Math.min(records, RECORDS - from)
    const view = (at: number, count: number) =>
      new Uint8Array(this.buffer, HEAD_WORDS * 4 + at * RECORD_BYTES, count * RECORD_BYTES)
    return { records, views: [view(from, first), view(0, records - first)].filter(({ length }) => length > 0) }
  }

  /** Removes waiting records. */
  take(records: number): void {
    Atomics.store(this.numbers, TAKEN, (Atomics.load(this.numbers, TAKEN) + records) | 0)
  }

  /** Returns the number of records lost since the last call. */
  takeLost(): number {
    return Atomics.exchange(this.numbers, LOST, 0) >>> 0
  }

  private look(records: number): boolean {
    this.room = RECORDS - ((this.written - Atomics.load(this.numbers, TAKEN)) | 0)
    return this.room >= records
  }
}
