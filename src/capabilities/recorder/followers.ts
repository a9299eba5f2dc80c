import type { Clock } from '../../lib/clock.js'
import type { AdmittedFlow } from '../../proxy/admission.js'
import { type ExchangeCondition, type ExchangeQuery, type RequestFilter, requestFilter } from './exchange-conditions.js'
import type { RecordedExchange } from './recorded-exchange.js'

/** Settings of a follower. Plain data, so that workers can follow for it. */
export interface Following {
  readonly query: ExchangeQuery
  /** Are exchanges explained for it? */
  readonly explain: boolean
  /** Maximum number of matching exchanges per second; undefined for all. */
  readonly rate: number | undefined
}

/** Receives exchanges at their end. */
export interface ExchangeFollower {
  /** Condition; undefined for all exchanges. */
  readonly where: ExchangeCondition | undefined
  /** Returns the level of detail wanted of a new exchange. */
  readonly begins: (flow: AdmittedFlow) => 'explained' | 'noted' | 'passed-over'
  /** Has the follower capacity for one more matching exchange? Called once for each. */
  readonly admits: (facts: { readonly begun: boolean; readonly hasExplanation: boolean }) => boolean
  /** Called if a follower of all exchanges misses one that began for it. */
  readonly leftOut: () => void
  /** Called with each matching exchange. Does not throw. */
  readonly take: (recorded: RecordedExchange) => void
  /** Called after the last exchange. Does not throw. */
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

/** Settings of a follower's sample. */
interface SampleSettings {
  readonly clock: Pick<Clock, 'monotonic'>
  /** Maximum number of matching exchanges per second; undefined for all. */
  readonly rate: number | undefined
  /** Are they explained? */
  readonly explain: boolean
  /** Filter for request heads; undefined for all. */
  readonly requests: RequestFilter | undefined
  /** Does every exchange match? */
  readonly meansAll: boolean
  /** Called for each matching exchange that is left out. Does not throw. */
  readonly leftOut: () => void
}

/**
 * Creates the sample of a follower: at most `rate` exchanges in any second are delivered or explained. For a follower of all
 * exchanges the sample is drawn when they begin, so that skipped exchanges cost little.
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

/** Limits a rate; unused capacity is kept for one second. */
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
