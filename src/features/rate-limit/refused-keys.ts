import { createHash } from 'node:crypto'
import { serviceKey } from '../../policy/services.js'
import { type Counted, SpaceSaving } from './space-saving.js'

/** Milliseconds per sketch. */
const GENERATION = 60_000
/** Number of past sketches besides the current one. */
const PAST = 4
/** Keys counted in each sketch of a limit. */
const COUNTERS = 64
/** Maximum length of a completely stored key (characters). */
const LONGEST_KEY = 512
/** Memory of one counter without its texts (bytes). */
const OVERHEAD = 160
/** Default memory limit (bytes). */
const BYTES = 8 * 1024 * 1024

/** Displayed key. */
interface KeyText {
  readonly bytes: number
  /** Values as a JSON list, null for a failed one; undefined if too long. */
  readonly text: string | undefined
  /** True if an expression of the key failed. */
  readonly failed: boolean
}

/** Key with refused requests. */
export interface RefusedKey extends Pick<KeyText, 'text' | 'failed'> {
  /** Id of its counter. */
  readonly id: string
  /** Key for the limiter; undefined if too long. */
  readonly key: string | undefined
  /** Upper bound of its refusals. */
  readonly most: number
  /** Lower bound of its refusals. */
  readonly least: number
  /** Last refusal: monotonic milliseconds. */
  readonly at: number
}

/** Refused keys as plain data. */
export interface RefusedNumbers {
  readonly keys: readonly RefusedKey[]
  /** Maximum refusals of a key that is not listed. */
  readonly missed: number
}

/** Adds the refusals of two threads for one limit; bounds stay valid. */
export function sumOfRefused(one: RefusedNumbers, other: RefusedNumbers): RefusedNumbers {
  const others = new Map(other.keys.map((key) => [key.id, key]))
  const keys = one.keys.map((key) => {
    const same = others.get(key.id)
    others.delete(key.id)
    if (same === undefined) return { ...key, most: key.most + other.missed }
    return { ...key, most: key.most + same.most, least: key.least + same.least, at: Math.max(key.at, same.at) }
  })
  const rest = [...others.values()].map((key) => ({ ...key, most: key.most + one.missed }))
  return { keys: [...keys, ...rest], missed: one.missed + other.missed }
}

/** Returns the most refused keys, in descending order. */
export function mostRefused(keys: readonly RefusedKey[], most: number): RefusedKey[] {
  return [...keys].sort((a, b) => b.most - a.most || b.at - a.at).slice(0, most)
}

interface Generation {
  readonly number: number
  readonly sketch: SpaceSaving<KeyText>
}

/**
 * Most refused keys of a limit in the last five minutes. Each minute has its own sketch, so that old refusals expire and counts stay exact
 * bounds.
 */
export class RefusedKeys {
  #generations: Generation[] = []
  readonly #memory: RefusedKeysMemory

  constructor(memory: RefusedKeysMemory) {
    this.#memory = memory
  }

  /** Counts one refusal. `textOf`: returns the key's values as a JSON list; `failed`: one of its expressions failed. */
  note(at: number, key: string, textOf: () => string, failed: boolean): void {
    const { sketch } = this.#now(at)
    const before = sketch.bytes
    if (key.length <= LONGEST_KEY) sketch.add(key, at, () => whole(key, textOf(), failed))
    else sketch.add(digestOf(key), at, () => ({ bytes: OVERHEAD, text: undefined, failed }))
    if (sketch.bytes !== before) this.#memory.grew(this, sketch.bytes - before)
  }

  /** Returns all recorded keys, unordered. */
  numbers(at: number): RefusedNumbers {
    const found = new Map<string, { of: Counted<KeyText>; count: number; least: number; at: number; missed: number }>()
    const live = this.#live(at)
    const missed = live.reduce((sum, { sketch }) => sum + sketch.missed, 0)
    for (const { sketch } of live) {
      for (const one of sketch.counted) {
        const known = found.get(one.key)
        const least = one.count - one.error
        if (known === undefined) {
          found.set(one.key, { of: one, count: one.count, least, at: one.at, missed: missed - sketch.missed })
        } else {
          known.count += one.count
          known.least += least
          known.missed -= sketch.missed
          known.at = Math.max(known.at, one.at)
        }
      }
    }
    const keys = [...found.values()].map(({ of: { key, value }, count, least, at: last, missed: more }) => ({
      id: key,
      key: value.text === undefined ? undefined : key,
      text: value.text,
      failed: value.failed,
      most: count + more,
      least,
      at: last
    }))
    return { keys, missed }
  }

  /** Drops expired sketches; returns the memory in use. */
  settle(at: number): number {
    this.#generations = this.#live(at)
    return this.#generations.reduce((sum, { sketch }) => sum + sketch.bytes, 0)
  }

  /** Clears everything. */
  clear(): void {
    this.#generations = []
  }

  #now(at: number): Generation {
    const number = Math.floor(at / GENERATION)
    const last = this.#generations.at(-1)
    if (last?.number === number) return last
    const next = { number, sketch: new SpaceSaving<KeyText>(COUNTERS) }
    this.#generations = [...this.#live(at), next]
    this.#memory.settle(this, at)
    return next
  }

  #live(at: number): Generation[] {
    const oldest = Math.floor(at / GENERATION) - PAST
    return this.#generations.filter(({ number }) => number >= oldest)
  }
}

function whole(key: string, text: string, failed: boolean): KeyText {
  return { bytes: OVERHEAD + 2 * (key.length + text.length), text, failed }
}

/** Returns the digest of a long key. Keys of the limiter begin with a digit, so the prefix is unambiguous. */
function digestOf(key: string): string {
  return `#${createHash('sha256').update(key).digest('base64')}`
}

/** Shared memory of all limits of a process for refused keys. */
export class RefusedKeysMemory {
  /** Memory by limit, the one unused for longest first. */
  readonly #users = new Map<RefusedKeys, number>()
  readonly #most: number
  #bytes = 0

  /** @param most memory limit in bytes */
  constructor(most = BYTES) {
    this.#most = most
  }

  /** Approximate bytes in use. */
  get bytes(): number {
    return this.#bytes
  }

  /** Called when a limit's memory use changes. Beyond the bound the limits unused for longest are cleared. */
  grew(user: RefusedKeys, bytes: number): void {
    this.#set(user, (this.#users.get(user) ?? 0) + bytes)
    while (this.#bytes > this.#most) {
      const [first] = this.#users.keys()
      if (first === undefined) return
      first.clear()
      this.#drop(first)
    }
  }

  /** Called when a limit starts another minute. */
  settle(user: RefusedKeys, at: number): void {
    this.#drop(user)
    this.#set(user, user.settle(at))
  }

  /** Drops expired sketches, also of removed limits. Call it from a timer. `at`: monotonic milliseconds. */
  sweep(at: number): void {
    for (const user of [...this.#users.keys()]) {
      const bytes = user.settle(at)
      if (bytes === 0) this.#drop(user)
      else this.#set(user, bytes)
    }
  }

  #set(user: RefusedKeys, bytes: number): void {
    this.#bytes += bytes - (this.#users.get(user) ?? 0)
    this.#users.set(user, bytes)
  }

  #drop(user: RefusedKeys): void {
    this.#bytes -= this.#users.get(user) ?? 0
    this.#users.delete(user)
  }
}

/** Memory for refused keys; undefined: not recorded. */
export const refusedKeys = serviceKey<RefusedKeysMemory | undefined>('refused_keys', () => undefined)
