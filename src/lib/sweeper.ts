import type { Clock } from './clock.js'

/** What has deadlines. */
export interface Swept {
  /** Its place in the sweeper that watches it; -1 when none does. Written by the sweeper alone. */
  place: number
  /** `now` is of the monotonic clock, in milliseconds. */
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
  readonly #members: Swept[] = []
  #timer: NodeJS.Timeout | undefined = undefined

  constructor(clock: Clock, period: number) {
    this.#clock = clock
    this.#period = period
  }

  add(member: Swept): void {
    member.place = this.#members.push(member) - 1
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.#tick(), this.#period)
      this.#timer.unref()
    }
  }

  /** The last member takes the free place. */
  delete(member: Swept): void {
    const { place } = member
    if (place === -1) return
    member.place = -1
    const last = this.#members.pop() as Swept
    if (last === member) return
    this.#members[place] = last
    last.place = place
  }

  /** Backwards, so that a member that leaves moves none that is still to be swept. Ends the timer with the last member. */
  #tick(): void {
    const members = this.#members
    if (members.length === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const now = this.#clock.monotonic()
    for (let i = members.length - 1; i >= 0; i--) members[i]?.sweep(now)
  }
}
