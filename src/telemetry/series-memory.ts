/** Where the numbers of series stand. A series is what a metric has for one set of labels. */
export interface SeriesMemory {
  /** So many zeros for this series. Only the thread that asks may change them. `series`: its labels as one text. */
  allot(metric: string, series: string, length: number): Float64Array
  /** The series is over; its memory may go to another one. */
  free(numbers: Float64Array): void
}

/** For numbers that no other thread reads. */
export const ownMemory: SeriesMemory = {
  allot: (_metric, _series, length) => new Float64Array(length),
  free: () => undefined
}

/** One series of a thread, for the one that shows it: the numbers change as that thread counts. */
export interface SharedSeries {
  /** Tells it from the others of its thread; one that begins in the place of another has the same. */
  readonly id: number
  readonly metric: string
  readonly series: string
  readonly numbers: Float64Array
}

/** Numbers of one block: 32 KiB. */
const BLOCK = 4_096

/** Numbers that another thread reads where they stand, as often as it likes: nothing is sent but what begins. */
export class SharedSeriesMemory implements SeriesMemory {
  readonly #begun: (series: SharedSeries) => void
  readonly #ids = new WeakMap<Float64Array, number>()
  readonly #free: Float64Array[] = []
  #block: Float64Array = new Float64Array(0)
  #used = 0
  #count = 0

  /** `begun`: called with each series that the other thread is to read. */
  constructor(begun: (series: SharedSeries) => void) {
    this.#begun = begun
  }

  allot(metric: string, series: string, length: number): Float64Array {
    const place = this.#free.findIndex((one) => one.length === length)
    const [numbers = this.#fresh(length)] = place === -1 ? [] : this.#free.splice(place, 1)
    numbers.fill(0)
    const id = this.#ids.get(numbers) ?? ++this.#count
    this.#ids.set(numbers, id)
    this.#begun({ id, metric, series, numbers })
    return numbers
  }

  free(numbers: Float64Array): void {
    this.#free.push(numbers)
  }

  #fresh(length: number): Float64Array {
    if (this.#used + length > this.#block.length) {
      this.#block = new Float64Array(new SharedArrayBuffer(Math.max(BLOCK, length) * Float64Array.BYTES_PER_ELEMENT))
      this.#used = 0
    }
    this.#used += length
    return this.#block.subarray(this.#used - length, this.#used)
  }
}
