/** What is kept of a key beside its counts. */
interface Kept {
  /** Memory that it takes, about. */
  readonly bytes: number
}

/** A key with its counter. */
export interface Counted<V extends Kept> {
  readonly key: string
  readonly value: V
  /** Never less than how often it came. */
  count: number
  /** By how much `count` may be too high. */
  readonly error: number
  /** When it came last, as `add` said. */
  at: number
}

/**
 * The keys that come most often among any number of keys: the algorithm Space-Saving (Metwally, Agrawal, El Abbadi,
 * "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005).
 *
 * There is a fixed number of counters. A key that has none takes the one with the least count, goes on from there, and
 * remembers that count as its error. After n events with m counters therefore: a count is never below the true number, a count
 * less its error never above it; no error is more than n / m; and each key that came more than n / m times has a counter.
 */
export class SpaceSaving<V extends Kept> {
  /** Memory of what is kept, about. */
  bytes = 0
  readonly #counted: Counted<V>[] = []
  readonly #places = new Map<string, number>()
  /** The counts once more, because the least one is looked for among plain numbers. */
  readonly #counts: Float64Array

  /** @param most counters, at least one */
  constructor(most: number) {
    this.#counts = new Float64Array(most)
  }

  /** Counts a key; `make` is called where it gets a counter. */
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

  /** Most that a key without a counter may have come. */
  get missed(): number {
    return this.#counted.length < this.#counts.length ? 0 : (this.#counts[this.#least()] as number)
  }

  /** All that have a counter, in no order. */
  get counted(): readonly Counted<V>[] {
    return this.#counted
  }

  /** Place of the least count. */
  #least(): number {
    const counts = this.#counts
    let least = 0
    for (let place = 1; place < counts.length; place += 1) {
      if ((counts[place] as number) < (counts[least] as number)) least = place
    }
    return least
  }
}
