import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { Slices } from '../../lib/slices.js'
import { readKeyFile } from '../../policy/key-files.js'
import { type KeySet, keySetIn, type ReadKeysOptions } from './jwks.js'

/** Text of a key set with its freshness in milliseconds, or the reason for a failure. */
export type LoadedKeySet =
  | { readonly ok: true; readonly text: string; readonly freshFor: number }
  | { readonly ok: false; readonly reason: string }

interface KeySetCacheParts extends ReadKeysOptions {
  readonly clock: Clock
  /** Loads the key set; never rejects, and has its own timeout. */
  readonly load: () => Promise<LoadedKeySet>
  /** Called after each failed load. */
  readonly failed: (reason: string) => void
}

/** Minimum time between the end of a load and the next, for all callers together (ms). */
export const RELOAD_FLOOR = 10_000
/** Minimum time between loads before the first success (ms). */
export const FIRST_LOAD_FLOOR = 2_000
/** Time for which stale keys are used while loads fail (ms). */
export const STALE_LIMIT = 24 * 3_600_000
/** Time after expiry in which requests use the old keys during a reload (ms). */
const GRACE = 60_000

/**
 * Key set that is loaded on demand and again after it expires.
 *
 * Concurrent callers share one load. A request waits only if there are no keys, or if they have been unused for so long that they may
 * include a withdrawn one. While loads fail the keys are used for a day. Loads have a minimum interval, so that tokens with invented key
 * names cause no more loads than that.
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

  /** True if the last load failed. */
  get failing(): boolean {
    return this.#failing
  }

  /** Returns the keys that are usable at once; undefined: call `ready`. Starts a reload if it is due. */
  current(): KeySet | undefined {
    if (this.#set === undefined) return undefined
    const age = this.#parts.clock.monotonic() - this.#loadedAt
    if (age < this.#freshFor) return this.#set
    if (age > STALE_LIMIT || !(this.#failing || age < this.#freshFor + GRACE)) return undefined
    void this.#reload()
    return this.#set
  }

  /** Returns the keys, loaded first if necessary; undefined if they are unavailable. */
  async ready(): Promise<KeySet | undefined> {
    const known = this.current()
    if (known !== undefined) return known
    await this.#reload()
    return this.#usable()
  }

  /** Returns the keys after another load, for a token with an unknown key. Skips the load if the last one was too recent. */
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

  /** Parses a key set; returns why it is rejected, or undefined. */
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

/** Timeout of the whole response (ms). */
const DEADLINE = 5_000
/** Maximum size of the response (bytes). */
const MAX_BYTES = 512 * 1024
/** Freshness of a set (ms): default, minimum and maximum. */
const FRESH = { usual: 15 * 60_000, least: 60_000, most: 3_600_000 }
/** Time after which a file is checked again (ms). */
const FILE_FRESH = 10_000
/** Cache-Control max-age (RFC 9111 5.2.2.1). */
const MAX_AGE = /(?:^|[\s,])max-age="?(\d{1,10})/i
/** Cache-Control that forbids reuse. */
const NO_REUSE = /(?:^|[\s,])no-(?:store|cache)(?:$|[\s,=])/i

/** Fetches a key set. A redirect is a failure, because the configuration defines the URL. */
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

/** Returns the freshness by `Cache-Control` and `Age` (RFC 9111 5.2.2, 4.2.3) in milliseconds, within the limits. */
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

/** Reads a key set from a file in one of `folders`, after resolving links. A policy author learns nothing about a file without keys. */
export async function readKeySetFile(path: string, folders: readonly string[]): Promise<LoadedKeySet> {
  const read = await readKeyFile(path, folders)
  return read.ok ? { ...read, freshFor: FILE_FRESH } : read
}
