import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../lib/clock.js'
import { AcmeError } from './acme-error.js'

/** Requests that an authority limits together. */
export type Endpoint = 'directory' | 'newNonce' | 'newAccount' | 'newOrder' | 'renewalInfo' | 'other'

/** Burst size and sustained rate of requests. */
interface Budget {
  readonly burst: number
  readonly perSecond: number
}

/** At most half of what Let's Encrypt allows for an address (https://letsencrypt.org/docs/rate-limits), which leaves room for another client. */
const BUDGETS: Readonly<Record<Endpoint, Budget>> = {
  directory: { burst: 20, perSecond: 20 },
  newNonce: { burst: 5, perSecond: 10 },
  newAccount: { burst: 5, perSecond: 1 },
  newOrder: { burst: 20, perSecond: 20 },
  renewalInfo: { burst: 20, perSecond: 50 },
  other: { burst: 50, perSecond: 100 }
}

/** Endpoints that are limited per client. Other endpoints may also be limited per name. */
const OF_CLIENT: ReadonlySet<Endpoint> = new Set(['directory', 'newNonce', 'newAccount'])

/** Longest wait for the turn of a request, which otherwise fails and is made again later. Milliseconds. */
export const LONGEST_WAIT = 3_000
/** Pause of an endpoint after it has refused a request; each further refusal in a row doubles it. Milliseconds. */
const FIRST_GAP = 1_000
/** Longest pause after rejections (ms). */
export const LONGEST_GAP = 60_000
/** Longest pause of an endpoint that the authority asks for. Milliseconds. */
const LONGEST_PAUSE = 3_600_000
/** Period of the limit of new orders: 300 for an account at Let's Encrypt. Milliseconds. */
const ORDER_PERIOD = 3 * 3_600_000

export interface RequestPacerParts {
  readonly clock: Clock
  /** New orders that the authority allows an account in three hours. */
  readonly orders: number
  /** Resolves at this moment of `clock.monotonic()`. @default a timer */
  readonly waitUntil?: ((moment: number) => Promise<void>) | undefined
}

/** Orders that wait for their turn. */
export interface OrderQueue {
  waiting: number
}

/** Token bucket that stores the time at which it is full again (GCRA, monotonic ms). */
class Bucket {
  #full = 0

  constructor(
    readonly burst: number,
    readonly interval: number
  ) {}

  /** Returns the time at which `ahead` + 1 tokens are available. */
  moment(now: number, ahead = 0): number {
    return Math.max(now, this.#full - (this.burst - 1 - ahead) * this.interval)
  }

  take(now: number): void {
    this.#full = Math.max(this.#full, now) + this.interval
  }

  putBack(): void {
    this.#full -= this.interval
  }

  /** No token before `moment`, and no burst then. */
  emptyUntil(moment: number): void {
    this.#full = Math.max(this.#full, moment + (this.burst - 1) * this.interval)
  }
}

/**
 * Paces the requests to one authority, with a budget for each endpoint and for orders. A rejection slows down its endpoint
 * only. State is not stored: after a restart the authority's rejections set the pace.
 */
export class RequestPacer {
  readonly #clock: Clock
  readonly #waitUntil: (moment: number) => Promise<void>
  readonly #buckets = new Map<Endpoint, Bucket>()
  readonly #orders: Bucket
  /** Refusals in a row. */
  readonly #refusals = new Map<Endpoint, number>()

  constructor({ clock, orders, waitUntil }: RequestPacerParts) {
    this.#clock = clock
    this.#waitUntil = waitUntil ?? (async (moment) => void (await sleep(Math.max(0, moment - clock.monotonic()))))
    for (const [endpoint, { burst, perSecond }] of Object.entries(BUDGETS))
      this.#buckets.set(endpoint as Endpoint, new Bucket(burst, 1_000 / perSecond))
    this.#orders = new Bucket(orders, ORDER_PERIOD / orders)
  }

  /** Waits for the turn of a request. Fails with an `AcmeError` that is `unsent` when that takes too long. */
  async turn(endpoint: Endpoint): Promise<void> {
    const bucket = this.#bucket(endpoint)
    const now = this.#clock.monotonic()
    const moment = bucket.moment(now)
    if (moment - now > LONGEST_WAIT) throw unsent(`the authority has refused requests (${endpoint})`, moment - now)
    bucket.take(now)
    if (moment > now) await this.#waitUntil(moment)
  }

  /** Takes a place for an order, or the last one in `queue`: fails then with an `AcmeError` that is `unsent`. */
  takeOrder(queue: OrderQueue): void {
    const now = this.#clock.monotonic()
    const slot = this.#bucket('newOrder').moment(now) - now
    if (slot > LONGEST_WAIT) throw unsent('the authority has refused orders', slot)
    if (this.#orders.moment(now) > now) {
      const wait = this.#orders.moment(now, queue.waiting++) - now
      throw unsent(`the authority allows ${this.#orders.burst} orders in three hours`, wait)
    }
    this.#orders.take(now)
  }

  /** Called when an order was not placed after all. */
  putOrderBack(): void {
    this.#orders.putBack()
  }

  /** Called when an endpoint accepted a request. */
  accepted(endpoint: Endpoint): void {
    this.#refusals.delete(endpoint)
  }

  /**
   * Called when an endpoint refused a request by its limit; returns the milliseconds before that request may be sent again. `retryAfter`:
   * milliseconds; 0: it did not say.
   */
  refused(endpoint: Endpoint, retryAfter: number): number {
    const refusals = this.#refusals.get(endpoint) ?? 0
    this.#refusals.set(endpoint, refusals + 1)
    const gap = Math.min(FIRST_GAP * 2 ** refusals, LONGEST_GAP)
    const wait = OF_CLIENT.has(endpoint) ? Math.max(gap, Math.min(retryAfter, LONGEST_PAUSE)) : gap
    const now = this.#clock.monotonic()
    this.#bucket(endpoint).emptyUntil(now + wait)
    return Math.max(this.#bucket(endpoint).moment(now) - now, retryAfter)
  }

  /** Waits a second, as before a further try with another nonce. */
  async rest(): Promise<void> {
    await this.#waitUntil(this.#clock.monotonic() + FIRST_GAP)
  }

  #bucket(endpoint: Endpoint): Bucket {
    return this.#buckets.get(endpoint) as Bucket
  }
}

function unsent(why: string, wait: number): AcmeError {
  return new AcmeError('INTERNAL_ERROR', why, { retryAfter: wait, unsent: true })
}
