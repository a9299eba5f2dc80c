import type { Clock } from '../../lib/clock.js'
import type { AdmittedFlow } from '../../proxy/admission.js'
import { type ExchangeCondition, type ExchangeQuery, type RequestFilter, requestFilter } from './exchange-conditions.js'
import type { RecordedExchange } from './recorded-exchange.js'

/** What a follower wants. Plain data, so that other threads follow for it. */
export interface Following {
  readonly query: ExchangeQuery
  /** Are exchanges explained for it? */
  readonly explain: boolean
  /** Exchanges a second at most; undefined: each one that it means. */
  readonly rate: number | undefined
}

/** Looks at exchanges as they end. */
export interface ExchangeFollower {
  /** Undefined: all. */
  readonly where: ExchangeCondition | undefined
  /** What it wants of an exchange that begins. */
  readonly begins: (flow: AdmittedFlow) => 'explained' | 'noted' | 'passed-over'
  /** Is there room for one more that it means? It is asked once for each of them. */
  readonly admits: (facts: { readonly begun: boolean; readonly hasExplanation: boolean }) => boolean
  /** Called when it means all, and an exchange was passed over that began for it. */
  readonly leftOut: () => void
  /** Called with each exchange that is meant. Does not throw. */
  readonly take: (recorded: RecordedExchange) => void
  /** Called when nothing more comes. Does not throw. */
  readonly over: () => void
}

/** The follower that wants this. `filter`: its compiled query. */
export function followerOf(
  { query, explain, rate }: Following,
  filter: ExchangeCondition,
  { clock, ...calls }: Pick<SampleSettings, 'clock' | 'leftOut'> & Pick<ExchangeFollower, 'take' | 'over'>
): ExchangeFollower {
  const meansAll = Object.values(query).every((value) => value === undefined)
  const requests = requestFilter(query)
  const sample = sampleOf({ clock, rate, explain, requests, meansAll, leftOut: calls.leftOut })
  return { ...calls, ...sample, where: meansAll ? undefined : filter }
}

/** How much of the traffic a follower gets. */
interface SampleSettings {
  readonly clock: Pick<Clock, 'monotonic'>
  /** Exchanges a second at most; undefined: each one that it means. */
  readonly rate: number | undefined
  /** Are they explained? */
  readonly explain: boolean
  /** Requests that it may mean, as far as their heads say; undefined: all. */
  readonly requests: RequestFilter | undefined
  /** Does it mean each exchange? */
  readonly meansAll: boolean
  /** Called for each exchange that it means and does not get. */
  readonly leftOut: () => void
}

/**
 * The part of traffic that a follower gets: with a rate no more than that in any second, whatever traffic does, and no more is
 * explained for it. One that means all is chosen for when exchanges begin, so that those which it does not get cost next to nothing.
 */
function sampleOf({
  clock,
  rate,
  explain,
  requests,
  meansAll,
  leftOut
}: SampleSettings): Pick<ExchangeFollower, 'begins' | 'admits' | 'leftOut'> {
  const wanted = explain ? 'explained' : 'noted'
  if (rate === undefined)
    return { begins: (flow) => (requests?.(flow) === false ? 'passed-over' : wanted), admits: () => true, leftOut }
  const begun = new PerSecond(rate, clock)
  const taken = new PerSecond(rate, clock)
  return {
    begins: (flow) => {
      if (meansAll) return begun.takes() ? wanted : 'passed-over'
      if (requests?.(flow) === false) return 'passed-over'
      return explain && begun.takes() ? 'explained' : 'noted'
    },
    admits: (about) => {
      const chosen = !explain || !meansAll || about.hasExplanation || !about.begun
      if (chosen && taken.takes()) return true
      leftOut()
      return false
    },
    leftOut
  }
}

/** At most so many in a second: what was not used for a second is there at once, and no more. */
class PerSecond {
  readonly #rate: number
  readonly #clock: Pick<Clock, 'monotonic'>
  #left: number
  #at: number

  constructor(rate: number, clock: Pick<Clock, 'monotonic'>) {
    this.#rate = rate
    this.#clock = clock
    this.#left = rate
    this.#at = clock.monotonic()
  }

  takes(): boolean {
    const now = this.#clock.monotonic()
    this.#left = Math.min(this.#rate, this.#left + ((now - this.#at) / 1_000) * this.#rate)
    this.#at = now
    if (this.#left < 1) return false
    this.#left--
    return true
  }
}
