import type { Clock } from '../../lib/clock.js'
import { Mutex } from '../../lib/concurrency.js'
import type { Outbox } from '../../store/outbox.js'

interface LeasesParts {
  readonly store: Pick<Outbox, 'leases' | 'take' | 'renew' | 'release'>
  readonly clock: Clock
  /** Unique id of this holder among all processes and `Leases`; it is stored. */
  readonly holder: string
  /** Milliseconds without a renewal after which another process may take a lease over. */
  readonly expiry: number
}

/** Renewals of `hold` while a lease may not be taken over. */
const RENEWALS = 4

/**
 * Leases of this process among processes on one store: each lease has one holder. There is no common clock: each renewal
 * changes the number of a lease, and a process that has seen the same number for `expiry`, by its own clock, may take the
 * lease over.
 */
export class Leases {
  readonly #parts: LeasesParts
  readonly #mutex = new Mutex()
  #held: ReadonlySet<string> = new Set()
  /** Start of the last successful renewal (monotonic ms); undefined if there was none. */
  #renewedAt: number | undefined
  #asked = false
  /** The number of each lease of another process, and since when it has been the same. */
  readonly #seen = new Map<string, { readonly number: number; readonly since: number }>()

  constructor(parts: LeasesParts) {
    this.#parts = parts
  }

  /** Does this process hold the lease, and may it rely on that now? */
  holds(name: string): boolean {
    return this.#held.has(name) && this.#age < this.#parts.expiry
  }

  /**
   * Renews held leases, and acquires those of `wanted` that are free or whose holder is silent. Returns the newly acquired
   * ones. Calls are serialized. Fails with a `StoreError`.
   */
  async renew(wanted: Iterable<string>): Promise<readonly string[]> {
    return await this.#mutex.run(() => this.#renew(wanted))
  }

  /** Acquires the lease `name` if possible; accesses the store only when a renewal is due. Fails like `renew`. */
  async hold(name: string): Promise<boolean> {
    if (this.holds(name) && this.#age < this.#parts.expiry / RENEWALS) return true
    await this.renew([name])
    return this.holds(name)
  }

  /** Gives back all leases of this process. Fails with a `StoreError`; they expire then. */
  async release(): Promise<void> {
    await this.#mutex.run(async () => {
      this.#held = new Set()
      if (this.#asked) await this.#parts.store.release(this.#parts.holder)
    })
  }

  /** Milliseconds since the last renewal. */
  get #age(): number {
    return this.#renewedAt === undefined ? Number.POSITIVE_INFINITY : this.#parts.clock.monotonic() - this.#renewedAt
  }

  async #renew(wanted: Iterable<string>): Promise<readonly string[]> {
    const { store, clock, holder } = this.#parts
    const before = this.#held
    this.#asked = true
    // Measured before the request: other processes measure after its response.
    const now = clock.monotonic()
    const held = new Set(await store.renew(holder))
    const leases = new Map((await store.leases()).map((lease) => [lease.destination, lease]))
    for (const name of wanted) {
      if (held.has(name)) continue
      const number = leases.get(name)?.number
      if (!this.#mayTake(name, number, clock.monotonic())) continue
      if (await store.take(name, holder, number)) held.add(name)
    }
    this.#held = held
    this.#renewedAt = now
    for (const name of held) this.#seen.delete(name)
    return [...held].filter((name) => !before.has(name))
  }

  #mayTake(name: string, number: number | undefined, now: number): boolean {
    if (number === undefined) return true
    const seen = this.#seen.get(name)
    if (seen?.number === number) return now - seen.since > this.#parts.expiry
    this.#seen.set(name, { number, since: now })
    return false
  }
}
