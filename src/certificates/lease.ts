import type { Clock } from '../lib/clock.js'
import type { Outbox } from '../store/outbox.js'

/** The part of the store's leases that one duty needs. */
export type LeaseStore = Pick<Outbox, 'leases' | 'take' | 'renew' | 'release'>

/** Milliseconds after which a lease that nobody renews is anybody's, and between renewals. */
const EXPIRY = 20_000
const RENEWAL = 5_000

/**
 * The duty that one process of a cluster has. There is no common clock: the holder changes a number again and again, and
 * who has seen the same number for long enough may take over.
 */
export class Lease {
  readonly #store: LeaseStore
  readonly #duty: string
  readonly #holder: string
  readonly #clock: Clock
  #renewed: number | undefined
  #seen: { readonly number: number; readonly since: number } | undefined

  /** `holder`: a name that no other process has, and that holds nothing else. */
  constructor(store: LeaseStore, duty: string, holder: string, clock: Clock) {
    this.#store = store
    this.#duty = duty
    this.#holder = holder
    this.#clock = clock
  }

  /** Takes or keeps the duty if that is possible; has this process got it now? */
  async hold(): Promise<boolean> {
    const now = this.#clock.monotonic()
    if (this.#renewed !== undefined && now - this.#renewed < RENEWAL) return true
    if (this.#renewed !== undefined) {
      this.#renewed = (await this.#store.renew(this.#holder)).includes(this.#duty) ? now : undefined
      if (this.#renewed !== undefined) return true
    }
    const lease = (await this.#store.leases()).find(({ destination }) => destination === this.#duty)
    if (lease !== undefined && lease.number !== this.#seen?.number) {
      this.#seen = { number: lease.number, since: now }
      return false
    }
    if (lease !== undefined && now - (this.#seen?.since ?? now) < EXPIRY) return false
    if (await this.#store.take(this.#duty, this.#holder, lease?.number)) this.#renewed = now
    this.#seen = undefined
    return this.#renewed !== undefined
  }

  /** Gives the duty back. */
  async release(): Promise<void> {
    if (this.#renewed === undefined) return
    this.#renewed = undefined
    await this.#store.release(this.#holder)
  }
}
