import type { Clock } from '../lib/clock.js'
import { timestampText } from '../lib/json.js'
import type { DeliveryReport } from '../store/outbox.js'

/** How the delivery to one destination goes, as the API shows it. */
export type DeliveryAnswer = {
  /** `ok`: nothing has failed since the last success; `failing`: it is being tried again; `unsupported`: nothing is sent. */
  readonly state: 'ok' | 'failing' | 'unsupported'
  /** Why nothing is sent; null unless unsupported. */
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
}

/** What is counted about one destination. */
export class DeliveryState {
  readonly destination: string
  readonly #clock: Clock
  #report: DeliveryReport
  /** Traffic events of this process; they are in no store. */
  #taken = 0
  #dropped = 0

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

  /** Audit events and, of this process, traffic events. */
  get delivered(): number {
    return this.#report.delivered + this.#taken
  }

  /** What another process, or an earlier life of this one, has kept. */
  restore(report: DeliveryReport): void {
    this.#report = report
  }

  /** The number of audit events that were taken, without the failures before them. */
  took(events: number): void {
    const { delivered } = this.#report
    const now = { failures: 0, waiting: 0, delivered: delivered + events, lastSuccessAt: this.#now() }
    this.#report = { ...this.#report, ...now }
  }

  tookTraffic(events: number): void {
    this.#taken += events
    this.#report = { ...this.#report, failures: 0, lastSuccessAt: this.#now() }
  }

  failed(message: string, failures: number, waiting: number): void {
    this.#report = { ...this.#report, failures, waiting, lastError: message, lastFailureAt: this.#now() }
  }

  drop(events: number): void {
    this.#dropped += events
  }

  /** `unsupported`: why nothing is sent. */
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
      last_success_at: timeOf(lastSuccessAt)
    }
  }

  #now(): number {
    return Math.floor(this.#clock.wall())
  }
}

function timeOf(at: number | null): string | null {
  return at === null ? null : timestampText(at)
}
