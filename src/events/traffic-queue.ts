import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import type { DeliveryState } from './delivery-state.js'
import type { Parcel, SendFailure } from './destinations/sender.js'
import type { Source } from './lane.js'
import { type RefusalRule, Refusals } from './refusals.js'

export interface TrafficQueueParts {
  readonly state: DeliveryState
  readonly clock: Clock
  /** Most bytes (UTF-16 units of JSON text) that wait; what comes beyond is dropped and counted. */
  readonly budget: number
  readonly refusals: RefusalRule
}

/** Of one parcel. */
const MOST_EVENTS = 500
const MOST_TEXT = 512 * 1024

/** The traffic events of one destination, in memory: bounded, and the newest are dropped when it is full. */
export class TrafficQueue implements Source {
  readonly #parts: TrafficQueueParts
  #waiting: string[] = []
  #from = 0
  #text = 0
  /** How many of those that wait go although they make no full parcel. */
  #due = 0
  #sending: Parcel | undefined
  /** Of parcels that were refused: it goes before everything else, in smaller ones. */
  #left: string[] = []
  /** Events of the next parcel: fewer after a refusal, then slowly more again. */
  #most = MOST_EVENTS
  readonly #refusals: Refusals

  constructor(parts: TrafficQueueParts) {
    this.#parts = parts
    this.#refusals = new Refusals(parts.refusals, parts.clock)
  }

  /** False when there was no room. */
  put(event: string): boolean {
    const { budget, state } = this.#parts
    if (this.#text + event.length > budget) {
      state.drop(1)
      return false
    }
    this.#waiting.push(event)
    this.#text += event.length
    return true
  }

  /** There is enough for a parcel. */
  get isFull(): boolean {
    return this.#waiting.length - this.#from >= this.#most
  }

  /** What waits now goes, however little it is. */
  release(): void {
    this.#due = this.#waiting.length - this.#from
  }

  async next(): Promise<Parcel | undefined> {
    if (this.#sending !== undefined) return this.#sending
    const events = this.#left.splice(0, this.#most)
    if (events.length === 0) {
      if (this.#due <= 0 && !this.isFull) return undefined
      events.push(...this.#take())
      if (events.length === 0) return undefined
      this.#due -= events.length
    }
    this.#sending = { id: newId('evb', this.#parts.clock.wall()), events, list: true }
    return this.#sending
  }

  async done({ events }: Parcel): Promise<void> {
    this.#sending = undefined
    this.#most = Math.min(MOST_EVENTS, this.#most + 1 + (this.#most >> 4))
    this.#took(events)
  }

  /** What is refused goes in halves, until the list is short enough or the event that is refused alone is dropped. */
  async failed(failure: SendFailure, failures: number): Promise<boolean> {
    const { state } = this.#parts
    const { message, fault, taken = 0 } = failure
    state.failed(message, failures, state.report.waiting)
    if (this.#sending === undefined || fault === undefined) return false
    const { id, events } = this.#sending
    if (events.length > 1) {
      if (fault !== 'event') return false
      this.#took(events.slice(0, taken))
      state.failed(message, failures, state.report.waiting)
      this.#most = Math.ceil((events.length - taken) / 2)
      this.#left = [...events.slice(taken), ...this.#left]
      this.#sending = undefined
      return false
    }
    if (!this.#refusals.isFinal(id, failure, state.accepted)) return false
    this.#sending = undefined
    this.#text -= events[0]?.length ?? 0
    state.gaveUp(0)
    state.drop(1)
    return true
  }

  /** Everything that waits is lost. */
  discard(): void {
    this.#parts.state.drop(this.#waiting.length - this.#from + this.#left.length + (this.#sending?.events.length ?? 0))
    this.#waiting = []
    this.#from = 0
    this.#due = 0
    this.#text = 0
    this.#left = []
    this.#sending = undefined
  }

  #took(events: readonly string[]): void {
    for (const event of events) this.#text -= event.length
    if (events.length > 0) this.#parts.state.tookTraffic(events.length)
  }

  #take(): string[] {
    let end = this.#from
    let text = 0
    while (end < this.#waiting.length && end - this.#from < this.#most) {
      text += this.#waiting[end]?.length ?? 0
      if (text > MOST_TEXT && end > this.#from) break
      end += 1
    }
    const events = this.#waiting.slice(this.#from, end)
    this.#from = end
    // Taking from the front of a long list moves all the rest, so it is done seldom.
    if (this.#from * 2 > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#from)
      this.#from = 0
    }
    return events
  }
}
