import type { Clock } from '../../lib/clock.js'
import { timestampText } from '../../lib/json.js'
import type { DeadLetterCounts, DeliveryReport } from '../../store/outbox.js'

/** Delivery status of one destination, as the API shows it. */
export type DeliveryAnswer = {
  /** `ok`: no failure since the last success; `failing`: delivery is being retried; `unsupported`: events are not sent. */
  readonly state: 'ok' | 'failing' | 'unsupported'
  /** Reason why events are not sent; null unless unsupported. */
  readonly reason: string | null
  /** Events that were taken, and events of traffic that were dropped because they came faster than they went. */
  readonly delivered: number
  readonly dropped: number
  /** Audit events that wait, as of the last failure; 0 while none fails. */
  readonly waiting: number
  /** Attempts since the last success. */
  readonly failures: number
  readonly last_error: string | null
  readonly last_failure_at: string | null
  readonly last_success_at: string | null
  /** Audit events that were refused for good and are kept, and those that were dropped from that list because it was full. */
  readonly dead_letters: number
  readonly dead_letters_dropped: number
}

/** Delivery counters of one destination. */
export class DeliveryState {
  readonly destination: string
  readonly #clock: Clock
  #report: DeliveryReport
  /** Number of delivered traffic events of this process; it is not stored. */
  #taken = 0
  #dropped = 0
  /** Number of events of any kind delivered by this process. */
  #accepted = 0
  #letters: Omit<DeadLetterCounts, 'destination'> = { letters: 0, dropped: 0 }

  constructor(destination: string, clock: Clock) {
    const nothing = { delivered: 0, waiting: 0, failures: 0, lastError: null, lastFailureAt: null, lastSuccessAt: null }
    this.destination = destination
    this.#clock = clock
    this.#report = { destination, ...nothing }
  }

  get report(): DeliveryReport {
    return this.#report
  }

  get dropped(): number {
    return this.#dropped
  }

  /** Events of any kind that were taken from this process, tests among them. */
  get accepted(): number {
    return this.#accepted
  }

  /** Audit events and, of this process, traffic events. */
  get delivered(): number {
    return this.#report.delivered + this.#taken
  }

  /** Restores the counters stored by another process, or an earlier run of this one. */
  restore(report: DeliveryReport): void {
    this.#report = report
  }

  /** The number of audit events that were taken, without the failures before them. */
  took(events: number): void {
    const { delivered } = this.#report
    this.#accepted += events
    const now = { failures: 0, waiting: 0, delivered: delivered + events, lastSuccessAt: this.#now() }
    this.#report = { ...this.#report, ...now }
  }

  tookTraffic(events: number): void {
    this.#taken += events
    this.#accepted += events
    this.#report = { ...this.#report, failures: 0, lastSuccessAt: this.#now() }
  }

  failed(message: string, failures: number, waiting: number): void {
    this.#report = { ...this.#report, failures, waiting, lastError: message, lastFailureAt: this.#now() }
  }

  tookTest(): void {
    this.#accepted += 1
  }

  /** Counts events that are not retried: this many audit events, or traffic events. */
  gaveUp(audit: number): void {
    this.#report = { ...this.#report, failures: 0, waiting: Math.max(0, this.#report.waiting - audit) }
  }

  /** Sets the number of stored dead letters. */
  countLetters({ letters, dropped }: Omit<DeadLetterCounts, 'destination'>): void {
    this.#letters = { letters, dropped }
  }

  drop(events: number): void {
    this.#dropped += events
  }

  /** Returns the status. `unsupported`: reason why events are not sent. */
  answer(unsupported: string | undefined): DeliveryAnswer {
    const { failures, waiting, lastError, lastFailureAt, lastSuccessAt } = this.#report
    const state = unsupported !== undefined ? 'unsupported' : failures > 0 ? 'failing' : 'ok'
    return {
      state,
      reason: unsupported ?? null,
      delivered: this.delivered,
      dropped: this.#dropped,
      waiting,
      failures,
      last_error: lastError,
      last_failure_at: timeOf(lastFailureAt),
      last_success_at: timeOf(lastSuccessAt),
      dead_letters: this.#letters.letters,
      dead_letters_dropped: this.#letters.dropped
    }
  }

  #now(): number {
    return Math.floor(this.#clock.wall())
  }
}

function timeOf(at: number | null): string | null {
  return at === null ? null : timestampText(at)
}
