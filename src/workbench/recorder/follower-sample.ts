import type { Clock } from '../../lib/clock.js'
import type { RequestFilter } from './exchange-conditions.js'
import type { ExchangeFollower } from './exchange-recorder.js'

/** How much of the traffic a follower gets. */
export interface SampleSettings {
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
export function sampleOf({
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
