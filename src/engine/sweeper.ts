import type { Clock } from '../lib/clock.js'

/** What has deadlines. `now` is of the monotonic clock, in milliseconds. */
export interface Swept {
  sweep(now: number): void
}

/**
 * One timer for the deadlines of all members.
 *
 * A timer per request would be armed and cleared several times for each exchange; a pass over the members costs
 * nanoseconds each. A deadline is therefore noticed up to `period` milliseconds late.
 */
export class Sweeper {
  readonly #clock: Clock
  readonly #period: number
  readonly #members = new Set<Swept>()
  #timer: NodeJS.Timeout | undefined = undefined

  constructor(clock: Clock, period: number) {
    this.#clock = clock
    this.#period = period
  }

  add(member: Swept): void {
    this.#members.add(member)
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.#tick(), this.#period)
      this.#timer.unref()
    }
  }

  delete(member: Swept): void {
    this.#members.delete(member)
  }

  /** Members may leave while they are swept. The timer ends itself when there is nothing left to watch. */
  #tick(): void {
    if (this.#members.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const now = this.#clock.monotonic()
    for (const member of this.#members) member.sweep(now)
  }
}
