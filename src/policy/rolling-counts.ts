/**
 * Events and failures of a window that rolls in steps of one bucket. Buckets lie on a fixed grid of time; the window is
 * the bucket of now and those before it, so that it reaches back at most its length and at least its length less one
 * bucket. One bucket counts from grid line to grid line. Takes memory for its buckets only, whatever happens.
 */
export class RollingCounts {
  readonly #bucket: number
  readonly #all: Float64Array
  readonly #failed: Float64Array
  /** Number of the newest bucket on the grid. */
  #newest = Number.NEGATIVE_INFINITY
  #sumAll = 0
  #sumFailed = 0

  /** `window`: milliseconds. */
  constructor(window: number, buckets: number) {
    this.#bucket = window / buckets
    this.#all = new Float64Array(buckets)
    this.#failed = new Float64Array(buckets)
  }

  /** Of the window that ends at the last `add`. */
  get all(): number {
    return this.#sumAll
  }

  get failed(): number {
    return this.#sumFailed
  }

  /** One event at `now`, monotonic milliseconds. */
  add(now: number, failed: boolean): void {
    this.#roll(Math.floor(now / this.#bucket))
    const slot = this.#newest % this.#all.length
    this.#all[slot] = (this.#all[slot] as number) + 1
    this.#sumAll++
    if (!failed) return
    this.#failed[slot] = (this.#failed[slot] as number) + 1
    this.#sumFailed++
  }

  clear(): void {
    this.#all.fill(0)
    this.#failed.fill(0)
    this.#sumAll = 0
    this.#sumFailed = 0
  }

  /** Makes `number` the newest bucket; what lies a window before it is forgotten. */
  #roll(number: number): void {
    if (number - this.#newest >= this.#all.length) this.clear()
    else {
      for (let i = this.#newest + 1; i <= number; i++) {
        const slot = i % this.#all.length
        this.#sumAll -= this.#all[slot] as number
        this.#sumFailed -= this.#failed[slot] as number
        this.#all[slot] = 0
        this.#failed[slot] = 0
      }
    }
    if (number > this.#newest) this.#newest = number
  }
}
