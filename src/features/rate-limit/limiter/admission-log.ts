/** Records that a log holds: a power of two. */
const RECORDS = 2 ** 17
/** 32-bit words of a record. */
export const RECORD_WORDS = 4
const RECORD_BYTES = 4 * RECORD_WORDS
/** Words of the head: each number in a line of the processor's cache of its own. */
const HEAD_WORDS = 48
/** How many records were written, how many were taken, and how many had no room; all modulo 2³². */
const WRITTEN = 0
const TAKEN = 16
const LOST = 32

/** The third word of a record: the window in tens of seconds above, the cost below. */
export const COST_BITS = 18
/** Here, because the power would be worked out again for each record. */
const COSTS = 2 ** COST_BITS
/** A cost of so much stands in a record of its own behind its admission. */
export const LARGE_COST = 2 ** COST_BITS - 1
/** Times of records are in so many parts of a millisecond. */
export const TIME_PARTS = 256
/** Milliseconds after which a record that has waited is not known from one of now. */
export const LONGEST_WAIT = 2 * 3_600_000
/** The cost of a record that says that a bucket was emptied: what was admitted up to its time counts no more. */
export const EMPTIED = 0

/**
 * What one thread has admitted and no file holds yet: a ring in shared memory, of a fixed size. The thread writes, and the thread that
 * keeps the counters takes.
 *
 * A record is four words: low and high half of the bucket's hash, window and cost, time in 256ths of a millisecond rounded up, modulo 2³². A record
 * is there when the number of written ones has been raised, which is one store after all others: a thread that ends in between leaves
 * nothing. Where the ring is full nothing waits and nothing is overwritten: the record is counted as lost, and the keeper has to write
 * what the table holds anew.
 */
export class AdmissionLog {
  private readonly words: Uint32Array
  private readonly numbers: Int32Array
  private written: number
  private room = 0

  /** @param shared does another thread take what this one writes? */
  constructor(
    readonly buffer: SharedArrayBuffer,
    private readonly shared: boolean
  ) {
    this.words = new Uint32Array(buffer)
    this.numbers = new Int32Array(buffer)
    this.written = Atomics.load(this.numbers, WRITTEN)
  }

  /** Memory for a log, touched as it is used. */
  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer((HEAD_WORDS + RECORDS * RECORD_WORDS) * 4)
  }

  /** Writes one record, `time` in milliseconds; see `EMPTIED` for a cost of 0. Only the thread whose log it is. */
  add(low: number, high: number, tens: number, time: number, cost: number): void {
    const records = cost < LARGE_COST ? 1 : 2
    if (this.room < records && !this.look(records)) {
      Atomics.add(this.numbers, LOST, 1)
      return
    }
    const { words } = this
    const at = HEAD_WORDS + (this.written & (RECORDS - 1)) * RECORD_WORDS
    words[at] = low
    words[at + 1] = high
    words[at + 2] = tens * COSTS + (records === 1 ? cost : LARGE_COST)
    words[at + 3] = Math.ceil(time * TIME_PARTS)
    if (records === 2) words[HEAD_WORDS + ((this.written + 1) & (RECORDS - 1)) * RECORD_WORDS] = cost
    this.written = (this.written + records) | 0
    this.room -= records
    if (this.shared) Atomics.store(this.numbers, WRITTEN, this.written)
    else this.numbers[WRITTEN] = this.written
  }

  /** How much of the ring waits, from 0 to 1. */
  get fill(): number {
    return ((Atomics.load(this.numbers, WRITTEN) - Atomics.load(this.numbers, TAKEN)) | 0) / RECORDS
  }

  /** The records that wait: views that stay as they are until `take`. */
  waiting(): { readonly records: number; readonly views: readonly Uint8Array[] } {
    const taken = Atomics.load(this.numbers, TAKEN)
    const records = (Atomics.load(this.numbers, WRITTEN) - taken) | 0
    const from = taken & (RECORDS - 1)
    const first = Math.min(records, RECORDS - from)
    const view = (at: number, count: number) =>
      new Uint8Array(this.buffer, HEAD_WORDS * 4 + at * RECORD_BYTES, count * RECORD_BYTES)
    return { records, views: [view(from, first), view(0, records - first)].filter(({ length }) => length > 0) }
  }

  /** So many of the records that wait are done with. */
  take(records: number): void {
    Atomics.store(this.numbers, TAKEN, (Atomics.load(this.numbers, TAKEN) + records) | 0)
  }

  /** Records that had no room since the last call. */
  takeLost(): number {
    return Atomics.exchange(this.numbers, LOST, 0) >>> 0
  }

  private look(records: number): boolean {
    this.room = RECORDS - ((this.written - Atomics.load(this.numbers, TAKEN)) | 0)
    return this.room >= records
  }
}
