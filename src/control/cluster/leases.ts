import type { Clock } from '../../lib/clock.js'
import { Mutex } from '../../lib/concurrency.js'
import type { Outbox } from '../../store/store.js'

interface LeasesParts {
  readonly outbox: Outbox
  readonly clock: Clock
  /** This life of this process. */
  readonly holder: string
  /** Milliseconds of stillness after which a lease may be taken over; a holder shows life more often. */
  readonly patience: number
}

/** Which destinations this process delivers to, among processes on one store. */
export class Leases {
  readonly #parts: LeasesParts
  readonly #mutex = new Mutex()
  #held: ReadonlySet<string> = new Set()
  /** Until when by our own clock what we hold may be relied on. */
  #goodUntil = 0
  /** The number of each foreign lease, and since when it has been the same. */
  readonly #seen = new Map<string, { readonly number: number; readonly since: number }>()

  constructor(parts: LeasesParts) {
    this.#parts = parts
  }

  holds(destination: string): boolean {
    return this.#held.has(destination) && this.#parts.clock.monotonic() < this.#goodUntil
  }

  /** Renews what is held, and takes what of `wanted` no process holds or a process has left. Returns what is newly held. */
  async renew(wanted: Iterable<string>): Promise<readonly string[]> {
    return await this.#mutex.run(() => this.#renew(wanted))
  }

  async release(): Promise<void> {
    await this.#mutex.run(async () => {
      this.#held = new Set()
      await this.#parts.outbox.release(this.#parts.holder)
    })
  }

  async #renew(wanted: Iterable<string>): Promise<readonly string[]> {
    const { outbox, clock, holder, patience } = this.#parts
    const before = this.#held
    // Counted from before the question: others count from after its answer.
    const now = clock.monotonic()
    const held = new Set(await outbox.renew(holder))
    const leases = new Map((await outbox.leases()).map((lease) => [lease.destination, lease]))
    for (const destination of wanted) {
      if (held.has(destination)) continue
      const number = leases.get(destination)?.number
      if (!this.#mayTake(destination, number, clock.monotonic())) continue
      if (await outbox.take(destination, holder, number)) held.add(destination)
    }
    this.#held = held
    this.#goodUntil = now + patience
    for (const destination of held) this.#seen.delete(destination)
    return [...held].filter((destination) => !before.has(destination))
  }

  #mayTake(destination: string, number: number | undefined, now: number): boolean {
    if (number === undefined) return true
    const seen = this.#seen.get(destination)
    if (seen?.number === number) return now - seen.since > this.#parts.patience
    this.#seen.set(destination, { number, since: now })
    return false
  }
}

/** The part of the store's leases that one duty needs. */
type LeaseStore = Pick<Outbox, 'leases' | 'take' | 'renew' | 'release'>

/** Lease expiry without renewal, and renewal interval. Milliseconds. */
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
