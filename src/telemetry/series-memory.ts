/** Memory for the numbers of series. A series belongs to one label set of a metric. */
export interface SeriesMemory {
  /** Allocates `length` zeros for a series. Only the allocating thread may change them. `series`: its labels as one text. */
  allot(metric: string, series: string, length: number): Float64Array
  /** Releases the memory of a series for reuse. */
  free(numbers: Float64Array): void
}

/** Memory that is not shared with other threads. */
export const ownMemory: SeriesMemory = {
  allot: (_metric, _series, length) => new Float64Array(length),
  free: () => undefined
}

/** Series of one thread for the thread that exposes it; the numbers change as the owner counts. */
export interface SharedSeries {
  /** Identifies the memory within its thread; a later series in the same memory has the same id. */
  readonly id: number
  readonly metric: string
  readonly series: string
  readonly numbers: Float64Array
}

/** Numbers in one block: 32 KiB. */
const BLOCK = 4_096

/** Shared memory that another thread can read at any time; only new series are sent as messages. */
export class SharedSeriesMemory implements SeriesMemory {
  readonly #begun: (series: SharedSeries) => void
  readonly #ids = new WeakMap<Float64Array, number>()
  readonly #free: Float64Array[] = []
  #block: Float64Array = new Float64Array(0)
  #used = 0
  #count = 0

  /** `begun`: called with each new series for the other thread. */
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
