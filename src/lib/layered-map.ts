/** Subset of `ReadonlyMap` for large maps. */
export interface Entries<V> extends Iterable<[string, V]> {
  get(key: string): V | undefined
  has(key: string): boolean
  keys(): Iterable<string>
}

/** Several maps combined into one view: the largest is not copied, because that would block the event loop. */
export class LayeredMap<V> implements Entries<V> {
  readonly #base: ReadonlyMap<string, V>
  /** Takes precedence over the base. */
  readonly #above = new Map<string, V>()

  /** For duplicate keys, the later map takes precedence. The maps must not change afterwards. */
  constructor(maps: readonly ReadonlyMap<string, V>[]) {
    const base = maps.reduce((largest, map) => (map.size > largest.size ? map : largest), new Map<string, V>())
    const at = maps.indexOf(base)
    for (const [index, map] of maps.entries()) {
      if (index === at) continue
      for (const [key, value] of map) if (index > at || !base.has(key)) this.#above.set(key, value)
    }
    this.#base = base
  }

  get(key: string): V | undefined {
    return this.#above.has(key) ? this.#above.get(key) : this.#base.get(key)
  }

  has(key: string): boolean {
    return this.#above.has(key) || this.#base.has(key)
  }

  *keys(): Generator<string> {
    for (const key of this.#base.keys()) if (!this.#above.has(key)) yield key
    yield* this.#above.keys()
  }

  *[Symbol.iterator](): Generator<[string, V]> {
    for (const entry of this.#base) if (!this.#above.has(entry[0])) yield entry
    yield* this.#above
  }
}
