import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { Slices } from '../../lib/slices.js'
import { readKeyFile } from '../../policy/key-files.js'
import { type KeySet, keySetIn, type ReadKeysOptions } from './jwks.js'

/** The text of a key set with the milliseconds that it is fresh, or why there is none. */
export type LoadedKeySet =
  | { readonly ok: true; readonly text: string; readonly freshFor: number }
  | { readonly ok: false; readonly reason: string }

interface KeySetCacheParts extends ReadKeysOptions {
  readonly clock: Clock
  /** Never rejects, and ends within a time of its own. */
  readonly load: () => Promise<LoadedKeySet>
  /** Called after each load that failed. */
  readonly failed: (reason: string) => void
}

/** Milliseconds between the end of a load and the next, for all callers together. */
export const RELOAD_FLOOR = 10_000
/** The same while nothing was ever loaded. */
export const FIRST_LOAD_FLOOR = 2_000
/** Milliseconds that keys serve when they are no longer fresh and no load succeeds. */
export const STALE_LIMIT = 24 * 3_600_000
/** Milliseconds behind their freshness in which requests do not wait for the load that renews them. */
const GRACE = 60_000

/**
 * One key set that is loaded when it is needed and again when it is no longer fresh.
 *
 * All who need a load share one. A request waits for a load only when there are no keys yet, or when they have not been
 * asked for in so long that a withdrawn key might be among them. While loads fail the keys go on serving, for a day.
 * A load never begins sooner than a fixed time after the last one, so tokens with made-up key names cause no more loads
 * than that, however many they are.
 */
export class KeySetCache {
  readonly #parts: KeySetCacheParts
  #set: KeySet | undefined
  #text: string | undefined
  #loadedAt = 0
  #freshFor = 0
  #endedAt = Number.NEGATIVE_INFINITY
  #failing = false
  #pending: Promise<void> | undefined

  constructor(parts: KeySetCacheParts) {
    this.#parts = parts
  }

  /** Did the last load fail? */
  get failing(): boolean {
    return this.#failing
  }

  /** Keys that serve without waiting; undefined: `ready` has them. Begins to renew them when that is due. */
  current(): KeySet | undefined {
    if (this.#set === undefined) return undefined
    const age = this.#parts.clock.monotonic() - this.#loadedAt
    if (age < this.#freshFor) return this.#set
    if (age > STALE_LIMIT || !(this.#failing || age < this.#freshFor + GRACE)) return undefined
    void this.#reload()
    return this.#set
  }

  /** The keys, loaded first where `current` has none; undefined when they cannot be had. */
  async ready(): Promise<KeySet | undefined> {
    const known = this.current()
    if (known !== undefined) return known
    await this.#reload()
    return this.#usable()
  }

  /** The keys after one more load: for a token whose key is not among them. Without a load when the last one is too near. */
  async renewed(): Promise<KeySet | undefined> {
    await this.#reload()
    return this.#usable()
  }

  #usable(): KeySet | undefined {
    return this.#parts.clock.monotonic() - this.#loadedAt > STALE_LIMIT ? undefined : this.#set
  }

  #reload(): Promise<void> | undefined {
    if (this.#pending !== undefined) return this.#pending
    const floor = this.#set === undefined ? FIRST_LOAD_FLOOR : RELOAD_FLOOR
    if (this.#parts.clock.monotonic() - this.#endedAt < floor) return undefined
    this.#pending = this.#load()
    return this.#pending
  }

  async #load(): Promise<void> {
    const { clock, load, failed } = this.#parts
    const loaded = await load()
    const reason = loaded.ok ? await this.#take(loaded.text, loaded.freshFor) : loaded.reason
    this.#failing = reason !== undefined
    this.#endedAt = clock.monotonic()
    this.#pending = undefined
    if (reason !== undefined) failed(reason)
  }

  /** Undefined, or why the text is not taken. */
  async #take(text: string, freshFor: number): Promise<string | undefined> {
    if (text !== this.#text) {
      const set = await new Slices().run(keySetIn(text, this.#parts))
      if (set === undefined) return 'what came is no set of keys'
      this.#set = set
      this.#text = text
    }
    this.#loadedAt = this.#parts.clock.monotonic()
    this.#freshFor = freshFor
    return undefined
  }
}

/** Milliseconds for the whole answer. */
const DEADLINE = 5_000
const MAX_BYTES = 512 * 1024
/** Milliseconds that a set is fresh: when its server says nothing, and the bounds of what it may say. */
const FRESH = { usual: 15 * 60_000, least: 60_000, most: 3_600_000 }
/** Milliseconds after which a file is looked at again. */
const FILE_FRESH = 10_000
const MAX_AGE = /(?:^|[\s,])max-age="?(\d{1,10})/i
const NO_REUSE = /(?:^|[\s,])no-(?:store|cache)(?:$|[\s,=])/i

/** Gets a key set from its server. A redirect is a failure: the place of keys is what the configuration says. */
export async function fetchKeySet(outbound: Outbound, url: string): Promise<LoadedKeySet> {
  const headers = ['accept', 'application/jwk-set+json, application/json', 'user-agent', 'Sluice']
  const answer = await outbound.request({
    method: 'GET',
    url,
    headers,
    deadline: DEADLINE,
    maxResponseBytes: MAX_BYTES
  })
  if (!answer.ok) return { ok: false, reason: answer.message }
  if (answer.status !== 200) return { ok: false, reason: `the server answered ${answer.status}` }
  return { ok: true, text: Buffer.from(answer.body).toString('utf8'), freshFor: freshness(answer.headers) }
}

/** Milliseconds that an answer is fresh by its `Cache-Control` and `Age` (RFC 9111 5.2.2, 4.2.3), within our bounds. */
export function freshness(headers: readonly string[]): number {
  let control = ''
  let age = 0
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase()
    if (name === 'cache-control') control += `,${headers[i + 1]}`
    else if (name === 'age') age = Number(headers[i + 1])
  }
  if (NO_REUSE.test(control)) return FRESH.least
  const seconds = MAX_AGE.exec(control)?.[1]
  if (seconds === undefined) return FRESH.usual
  const left = (Number(seconds) - (age > 0 ? age : 0)) * 1_000
  return Math.min(FRESH.most, Math.max(FRESH.least, left))
}

/**
 * Reads a key set from a file in or below one of `folders`, links followed. The author of the policy learns nothing about a
 * file that holds no keys.
 */
export async function readKeySetFile(path: string, folders: readonly string[]): Promise<LoadedKeySet> {
  const read = await readKeyFile(path, folders)
  return read.ok ? { ...read, freshFor: FILE_FRESH } : read
}
