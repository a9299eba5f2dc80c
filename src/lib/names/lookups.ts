import type { Clock } from '../clock.js'

/** What came of a look-up. `failed`: a server or the system could not say; `timed_out`: no server said anything in time. */
export type LookupResult = 'found' | 'not_found' | 'failed' | 'timed_out'

/**
 * Who knew it. `local`: the file of hosts, or a name with a fixed meaning; `cache`: what is remembered; `stale`: addresses that have
 * expired, because no server answered; `server`: the DNS servers; `system`: the C library.
 */
export type LookupSource = 'local' | 'cache' | 'stale' | 'server' | 'system'

/** One look-up that has ended. */
export interface Lookup {
  readonly name: string
  readonly result: LookupResult
  readonly source: LookupSource
  readonly milliseconds: number
}

/** What a name stands for, and until when that holds (monotonic milliseconds). */
export interface Resolved<T = string> {
  /** At least one, in no order. */
  readonly found: readonly T[]
  readonly expires: number
}

/** How long a name counts as failing after its last look-up, in milliseconds, and how many names are watched. */
const FAILING = { life: 60_000, most: 10_000 }

/** The names that were looked up last, within a minute, without getting an address. */
export class FailingNames {
  readonly #clock: Clock
  /** In the order of their last look-ups. */
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

  /** How many names fail now, by the result of their last look-up. */
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

/** Milliseconds between two questions that only find out whether servers answer. */
const ASK_EVERY = 5_000
const UNANSWERED = new Set(['ETIMEOUT', 'ECONNREFUSED'])

/**
 * Whether no DNS server answers at all. One name without an answer does not show that, because the servers of its domain may be the ones
 * that are silent; so a question follows that each server can answer.
 */
export class ServerSilence {
  readonly #clock: Clock
  readonly #ask: () => Promise<string | undefined>
  #silent = false
  #asking = false
  #askedAt = Number.NEGATIVE_INFINITY

  /** `ask`: asks such a question; resolves with the code of its failure. Must not reject. */
  constructor(clock: Clock, ask: () => Promise<string | undefined>) {
    this.#clock = clock
    this.#ask = ask
  }

  /** A question for a name has ended, with this code when it failed. */
  ended(code: string | undefined): void {
    if (code !== undefined && UNANSWERED.has(code)) this.#look()
    else if (code !== 'ECANCELLED') this.#silent = false
  }

  /** Asked every second or so: while it holds, the servers are asked again. */
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
