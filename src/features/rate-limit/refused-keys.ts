import { createHash } from 'node:crypto'
import { serviceKey } from '../../policy/services.js'
import { type Counted, SpaceSaving } from './space-saving.js'

/** Milliseconds that one sketch counts, and how many past ones are looked at beside the present one. */
const GENERATION = 60_000
const PAST = 4
/** Keys of one limit that are counted in each of them. */
const COUNTERS = 64
/** Characters of a key up to which it is kept whole. */
const LONGEST_KEY = 512
/** Memory for one counter beside its texts. */
const OVERHEAD = 160
const BYTES = 8 * 1024 * 1024

/** A key as it is shown. */
interface KeyText {
  readonly bytes: number
  /** Its values as a JSON list, null for one that failed; undefined where it is too long. */
  readonly text: string | undefined
  /** An expression of it failed. */
  readonly failed: boolean
}

/** A key whose requests were refused. */
export interface RefusedKey extends Pick<KeyText, 'text' | 'failed'> {
  /** What its refusals are counted under. */
  readonly id: string
  /** As the limiter takes it; undefined where it is too long. */
  readonly key: string | undefined
  /** Refusals at most. */
  readonly most: number
  /** Refusals at least. */
  readonly least: number
  /** The last one: monotonic milliseconds. */
  readonly at: number
}

/** Keys that were refused, as plain data. */
export interface RefusedNumbers {
  readonly keys: readonly RefusedKey[]
  /** Most that a key that is not among them was refused. */
  readonly missed: number
}

/** What two threads have refused of one limit: bounds stay bounds. */
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

/** Those that were refused most, most first. */
export function mostRefused(keys: readonly RefusedKey[], most: number): RefusedKey[] {
  return [...keys].sort((a, b) => b.most - a.most || b.at - a.at).slice(0, most)
}

interface Generation {
  readonly number: number
  readonly sketch: SpaceSaving<KeyText>
}

/**
 * Who is refused most by one limit within the last five minutes. Each minute has a sketch of its own, so that what is over is
 * forgotten and counts stay exact bounds of what was.
 */
export class RefusedKeys {
  #generations: Generation[] = []
  readonly #memory: RefusedKeysMemory

  constructor(memory: RefusedKeysMemory) {
    this.#memory = memory
  }

  /** Counts one refusal. `textOf`: the values of the key as a JSON list; `failed`: did one of its expressions fail? */
  note(at: number, key: string, textOf: () => string, failed: boolean): void {
    const { sketch } = this.#now(at)
    const before = sketch.bytes
    if (key.length <= LONGEST_KEY) sketch.add(key, at, () => whole(key, textOf(), failed))
    else sketch.add(digestOf(key), at, () => ({ bytes: OVERHEAD, text: undefined, failed }))
    if (sketch.bytes !== before) this.#memory.grew(this, sketch.bytes - before)
  }

  /** All that are kept, in no order. */
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

  /** Forgets what is over; answers the memory that is left. */
  settle(at: number): number {
    this.#generations = this.#live(at)
    return this.#generations.reduce((sum, { sketch }) => sum + sketch.bytes, 0)
  }

  /** Forgets everything. */
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

/** No key of the limiter begins like this: they begin with a digit. */
function digestOf(key: string): string {
  return `#${createHash('sha256').update(key).digest('base64')}`
}

/** The memory that all limits of a process share for keys that were refused. */
export class RefusedKeysMemory {
  /** Memory by who has it, the one that rested longest first. */
  readonly #users = new Map<RefusedKeys, number>()
  readonly #most: number
  #bytes = 0

  /** @param most bytes */
  constructor(most = BYTES) {
    this.#most = most
  }

  /** Bytes in use, about. */
  get bytes(): number {
    return this.#bytes
  }

  /** Called when what a limit keeps takes more memory, or less. Beyond the bound the limits that rested longest forget theirs. */
  grew(user: RefusedKeys, bytes: number): void {
    this.#set(user, (this.#users.get(user) ?? 0) + bytes)
    while (this.#bytes > this.#most) {
      const [first] = this.#users.keys()
      if (first === undefined) return
      first.clear()
      this.#drop(first)
    }
  }

  /** Called when a limit begins another minute. */
  settle(user: RefusedKeys, at: number): void {
    this.#drop(user)
    this.#set(user, user.settle(at))
  }

  /** Forgets what is over, also of limits that are gone. Call it from a timer. `at`: monotonic milliseconds. */
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

/** Where limits keep whom they refuse; undefined: they do not. */
export const refusedKeys = serviceKey<RefusedKeysMemory | undefined>('refused_keys', () => undefined)
