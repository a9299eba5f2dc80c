import type { Clock } from '../lib/clock.js'

/** How many requests of one principal the API takes in a window that rolls. */
export interface RequestRate {
  readonly requests: number
  /** Milliseconds. */
  readonly window: number
}

/**
 * Counts requests exactly: no window of this length ever holds more than the limit, and a refused request does not count.
 * One for each principal, so that one client cannot use up what another has.
 */
export class RequestRates {
  readonly #rate: RequestRate
  readonly #clock: Clock
  readonly #rings = new Map<string, Ring>()

  constructor(rate: RequestRate, clock: Clock) {
    this.#rate = rate
    this.#clock = clock
  }

  /** Undefined when the request may go on, else the whole seconds until the next one may. */
  take(principal: string): number | undefined {
    const now = this.#clock.monotonic()
    this.#forget(now)
    let ring = this.#rings.get(principal)
    if (ring === undefined) {
      ring = { times: new Float64Array(this.#rate.requests).fill(Number.NEGATIVE_INFINITY), next: 0 }
      this.#rings.set(principal, ring)
    }
    const free = (ring.times[ring.next] as number) + this.#rate.window
    if (now < free) return Math.max(1, Math.ceil((free - now) / 1000))
    ring.times[ring.next] = now
    ring.next = (ring.next + 1) % ring.times.length
    return undefined
  }

  /** Principals that have asked nothing for a window have all their requests again, so there is nothing to know of them. */
  #forget(now: number): void {
    if (this.#rings.size < MANY) return
    for (const [principal, { times, next }] of this.#rings) {
      const latest = times[(next + times.length - 1) % times.length] as number
      if (latest + this.#rate.window <= now) this.#rings.delete(principal)
    }
  }
}

const MANY = 1000

/** The times of the last requests; `next` is the place of the oldest. */
interface Ring {
  readonly times: Float64Array
  next: number
}
