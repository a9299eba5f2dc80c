import type { Clock } from '../lib/clock.js'
import { Mutex } from '../lib/concurrency.js'
import type { Outbox } from '../store/outbox.js'

export interface LeasesParts {
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

  /** Shows life, and takes what of `wanted` nobody holds or somebody has left. Answers what is newly held. */
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
