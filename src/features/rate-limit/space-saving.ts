/** Data of a key besides its counts. */
interface Kept {
  /** Approximate memory. */
  readonly bytes: number
}

/** Key with its counter. */
export interface Counted<V extends Kept> {
  readonly key: string
  readonly value: V
  /** Upper bound of the key's occurrences. */
  count: number
  /** Maximum error of `count`. */
  readonly error: number
  /** Time of the last occurrence. */
  at: number
}

/**
 * Most frequent keys among any number of keys: the algorithm Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent
 * and Top-k Elements in Data Streams", 2005).
 *
 * The number of counters is fixed. A key without one takes the counter with the least count, continues from there, and stores that count as
 * its error. So after n events with m counters: a count is never below the true number, a count less its error never above it; no error
 * exceeds n / m; and each key with more than n / m events has a counter.
 */
export class SpaceSaving<V extends Kept> {
  /** Approximate memory of the stored data. */
  bytes = 0
  readonly #counted: Counted<V>[] = []
  readonly #places = new Map<string, number>()
  /** Copy of the counts, because the minimum is found faster among plain numbers. */
  readonly #counts: Float64Array

  /** @param most number of counters, at least one */
  constructor(most: number) {
    this.#counts = new Float64Array(most)
  }

  /** Counts a key; `make` is called if it gets a counter. */
  add(key: string, at: number, make: () => V): void {
    const place = this.#places.get(key)
    if (place !== undefined) {
      const known = this.#counted[place] as Counted<V>
      known.count += 1
      known.at = at
      this.#counts[place] = known.count
      return
    }
    const free = this.#counted.length < this.#counts.length
    const taken = free ? this.#counted.length : this.#least()
    const before = free ? undefined : this.#counted[taken]
    const error = before?.count ?? 0
    const value = make()
    if (before !== undefined) this.#places.delete(before.key)
    this.bytes += value.bytes - (before?.value.bytes ?? 0)
    this.#places.set(key, taken)
    this.#counted[taken] = { key, value, count: error + 1, error, at }
    this.#counts[taken] = error + 1
  }

  /** Maximum occurrences of a key without a counter. */
  get missed(): number {
    return this.#counted.length < this.#counts.length ? 0 : (this.#counts[this.#least()] as number)
  }

  /** Keys with a counter, unordered. */
  get counted(): readonly Counted<V>[] {
    return this.#counted
  }

  /** Returns the index of the least count. */
  #least(): number {
    const counts = this.#counts
    let least = 0
    for (let place = 1; place < counts.length; place += 1) {
      if ((counts[place] as number) < (counts[least] as number)) least = place
    }
    return least
  }
}
