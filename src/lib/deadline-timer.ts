import type { Clock } from './clock.js'

/** An object whose deadlines one `DeadlineTimer` checks. */
export interface DeadlineOwner {
  /** Index in its timer; -1 without one. Written by the timer only. */
  place: number
  /** `now` is of the monotonic clock, in milliseconds. */
  checkDeadlines(now: number): void
}

/**
 * One timer for the deadlines of all members.
 *
 * A timer per request would be armed and cleared several times for each exchange; a pass over the members costs
 * nanoseconds each. A deadline is therefore noticed up to `period` milliseconds late.
 */
export class DeadlineTimer {
  readonly #clock: Clock
  readonly #period: number
  readonly #members: DeadlineOwner[] = []
  #timer: NodeJS.Timeout | undefined = undefined

  constructor(clock: Clock, period: number) {
    this.#clock = clock
    this.#period = period
  }

  add(member: DeadlineOwner): void {
    member.place = this.#members.push(member) - 1
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.#tick(), this.#period)
      this.#timer.unref()
    }
  }

  /** The last member moves to the free index. */
  delete(member: DeadlineOwner): void {
    const { place } = member
    if (place === -1) return
    member.place = -1
    const last = this.#members.pop() as DeadlineOwner
    if (last === member) return
    this.#members[place] = last
    last.place = place
  }

  /** Iterates backwards, so that a removed member moves no unchecked one. The timer stops with the last member. */
  #tick(): void {
    const members = this.#members
    if (members.length === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
      return
    }
    const now = this.#clock.monotonic()
    for (let i = members.length - 1; i >= 0; i--) members[i]?.checkDeadlines(now)
  }
}
