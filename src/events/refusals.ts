import type { Clock } from '../lib/clock.js'
import type { SendFailure } from './destinations/sender.js'

/** When an event counts as refused for good: after so many attempts alone, and not before this time has passed. Milliseconds. */
export interface RefusalRule {
  readonly attempts: number
  readonly time: number
}

export const REFUSAL_RULE: RefusalRule = { attempts: 5, time: 120_000 }

/** The refusals of one event. */
interface Refused {
  readonly event: string
  readonly since: number
  /** What the destination had taken by then. */
  readonly taken: number
  attempts: number
}

/** Counts how often the destination refuses the event that is next, and says when it will never take it. */
export class Refusals {
  readonly #rule: RefusalRule
  readonly #clock: Clock
  #refused: Refused | undefined

  constructor(rule: RefusalRule, clock: Clock) {
    this.#rule = rule
    this.#clock = clock
  }

  /** Attempts that were refused so far. */
  get attempts(): number {
    return this.#refused?.attempts ?? 0
  }

  /**
   * Counts a refusal of an event that was sent alone; true when it is one for good. `taken`: how many events the destination
   * has taken so far. A refusal that may be no fault of the event counts only when the destination took another one since
   * the first: else it may refuse all of them, and those behind would go the same way.
   */
  isFinal(event: string, { fault }: SendFailure, taken: number): boolean {
    if (fault === undefined) return false
    const now = this.#clock.monotonic()
    if (this.#refused?.event !== event) this.#refused = { event, since: now, taken, attempts: 0 }
    const refused = this.#refused
    refused.attempts += 1
    if (refused.attempts < this.#rule.attempts || now - refused.since < this.#rule.time) return false
    return fault === 'event' || taken > refused.taken
  }
}
