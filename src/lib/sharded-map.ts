import { atOnce, Passes, type Steps } from './slices.js'

/**
 * A persistent map of string keys: `with` returns a changed map and leaves the old one unchanged. A change copies the shards of its keys
 * and the list of shards, never the whole map, so that its cost does not grow with the number of entries.
 */
export class ShardedMap<V> {
  readonly #shards: readonly (ReadonlyMap<string, V> | undefined)[]
  readonly size: number

  private constructor(shards: readonly (ReadonlyMap<string, V> | undefined)[], size: number) {
    this.#shards = shards
    this.size = size
  }

  static empty<V>(): ShardedMap<V> {
    return new ShardedMap<V>(new Array(SHARDS).fill(undefined), 0)
  }

  get(key: string): V | undefined {
    return this.#shards[shardOf(key)]?.get(key)
  }

  has(key: string): boolean {
    return this.#shards[shardOf(key)]?.has(key) ?? false
  }

  /** Returns the map with `put` set and then `drop` removed. Ignores missing keys of `drop`. */
  with(put: Iterable<readonly [string, V]>, drop: Iterable<string> = []): ShardedMap<V> {
    return atOnce(this.editing(put, drop))
  }

  /** Adds and removes entries in steps. */
  *editing(put: Iterable<readonly [string, V]>, drop: Iterable<string> = []): Steps<ShardedMap<V>> {
    const shards = this.#shards.slice()
    const copied = new Map<number, Map<string, V>>()
    let size = this.size
    const passes = new Passes()
    const writable = (key: string): Map<string, V> => {
      const index = shardOf(key)
      let shard = copied.get(index)
      if (shard === undefined) {
        shard = new Map(shards[index])
        copied.set(index, shard)
        shards[index] = shard
      }
      return shard
    }
    for (const [key, value] of put) {
      const shard = writable(key)
      if (!shard.has(key)) size++
      shard.set(key, value)
      if (passes.due()) yield
    }
    for (const key of drop) {
      if (this.#shards[shardOf(key)]?.has(key) || copied.get(shardOf(key))?.has(key)) {
        if (writable(key).delete(key)) size--
      }
      if (passes.due()) yield
    }
    return new ShardedMap(shards, size)
  }

  /** Yields the differences from `before`. Cheap if one map was derived from the other: shared shards are skipped. */
  *since(
    before: ShardedMap<V>
  ): Generator<{ readonly key: string; readonly before: V | undefined; readonly after: V | undefined }> {
    for (let i = 0; i < SHARDS; i++) {
      const [old, now] = [before.#shards[i], this.#shards[i]]
      if (old === now) continue
      for (const [key, after] of now ?? []) {
        const was = old?.get(key) as V | undefined
        if (was !== after) yield { key, before: was, after: after as V }
      }
      for (const [key, was] of old ?? []) {
        if (now?.has(key) !== true) yield { key, before: was as V, after: undefined }
      }
    }
  }

  *[Symbol.iterator](): Iterator<[string, V]> {
    for (const shard of this.#shards) if (shard !== undefined) yield* shard
  }
}

const SHARDS = 1_024

/** FNV-1a over UTF-16 units: the keys are our own, so no secret is needed. */
function shardOf(key: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 15)) & (SHARDS - 1)
}
