import type { Clock } from '../clock.js'

/** Result of a lookup. `failed`: an error from a server or the system; `timed_out`: no response in time. */
export type LookupResult = 'found' | 'not_found' | 'failed' | 'timed_out'

/**
 * Source of a result. `local`: the hosts file, or a name with a fixed meaning; `cache`: a cached response; `stale`: expired addresses,
 * because no server responded; `server`: the DNS servers; `system`: the C library.
 */
export type LookupSource = 'local' | 'cache' | 'stale' | 'server' | 'system'

/** A completed lookup. */
export interface Lookup {
  readonly name: string
  readonly result: LookupResult
  readonly source: LookupSource
  readonly milliseconds: number
}

/** Resolved values of a name with their expiry (monotonic milliseconds). */
export interface Resolved<T = string> {
  /** At least one, unordered. */
  readonly found: readonly T[]
  readonly expires: number
}

/** Time for which a name counts as failing after its last lookup (ms), and the maximum number of such names. */
const FAILING = { life: 60_000, most: 10_000 }

/** Names whose last lookup, within a minute, found no address. */
export class FailingNames {
  readonly #clock: Clock
  /** Ordered by their last lookups. */
  readonly #names = new Map<string, { readonly result: LookupResult; readonly at: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  looked({ name, result }: Pick<Lookup, 'name' | 'result'>): void {
    this.#names.delete(name)
    if (result === 'found') return
    this.#names.set(name, { result, at: this.#clock.monotonic() })
    if (this.#names.size <= FAILING.most) return
    for (const oldest of this.#names.keys()) {
      this.#names.delete(oldest)
      break
    }
  }

  /** Number of failing names by the result of their last lookup. */
  counts(): Readonly<Record<Exclude<LookupResult, 'found'>, number>> {
    const counts = { found: 0, not_found: 0, failed: 0, timed_out: 0 }
    const now = this.#clock.monotonic()
    for (const [name, { result, at }] of this.#names) {
      if (now - at > FAILING.life) this.#names.delete(name)
      else counts[result]++
    }
    const { not_found, failed, timed_out } = counts
    return { not_found, failed, timed_out }
  }
}

/** Interval of queries that only check whether servers respond (ms). */
const ASK_EVERY = 5_000
/** Error codes of a missing response. */
const UNANSWERED = new Set(['ETIMEOUT', 'ECONNREFUSED'])

/**
 * Detects that no DNS server responds at all. One unanswered name does not prove that, because the servers of its domain may be down;
 * therefore a query follows that every server can answer.
 */
export class ServerSilence {
  readonly #clock: Clock
  readonly #ask: () => Promise<string | undefined>
  #silent = false
  #asking = false
  #askedAt = Number.NEGATIVE_INFINITY

  /** `ask`: sends such a query; resolves with the code of its failure. Must not reject. */
  constructor(clock: Clock, ask: () => Promise<string | undefined>) {
    this.#clock = clock
    this.#ask = ask
  }

  /** Reports the result of a name query, with its error code. */
  ended(code: string | undefined): void {
    if (code !== undefined && UNANSWERED.has(code)) this.#look()
    else if (code !== 'ECANCELLED') this.#silent = false
  }

  /** Polled about once per second: while true, the servers are queried again. */
  get holds(): boolean {
    if (this.#silent) this.#look()
    return this.#silent
  }

  #look(): void {
    const now = this.#clock.monotonic()
    if (this.#asking || now - this.#askedAt < ASK_EVERY) return
    this.#asking = true
    this.#askedAt = now
    void this.#ask().then((code) => {
      this.#asking = false
      if (code !== 'ECANCELLED') this.#silent = code !== undefined && UNANSWERED.has(code)
    })
  }
}
