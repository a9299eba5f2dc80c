import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import type { DeliveryState } from './delivery-state.js'
import type { Parcel, SendFailure } from './destinations/sender.js'
import type { Source } from './lane.js'

export interface TrafficQueueParts {
  readonly state: DeliveryState
  readonly clock: Clock
  /** Most bytes (UTF-16 units of JSON text) that wait; what comes beyond is dropped and counted. */
  readonly budget: number
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

  constructor(parts: TrafficQueueParts) {
    this.#parts = parts
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
    return this.#waiting.length - this.#from >= MOST_EVENTS
  }

  /** What waits now goes, however little it is. */
  release(): void {
    this.#due = this.#waiting.length - this.#from
  }

  async next(): Promise<Parcel | undefined> {
    if (this.#sending !== undefined) return this.#sending
    if (this.#due <= 0 && !this.isFull) return undefined
    const events = this.#take()
    if (events.length === 0) return undefined
    this.#due -= events.length
    this.#sending = { id: newId('evb', this.#parts.clock.wall()), events, list: true }
    return this.#sending
  }

  async done({ events }: Parcel): Promise<void> {
    this.#sending = undefined
    for (const event of events) this.#text -= event.length
    this.#parts.state.tookTraffic(events.length)
  }

  async failed({ message }: SendFailure, failures: number): Promise<boolean> {
    const { state } = this.#parts
    state.failed(message, failures, state.report.waiting)
    return false
  }

  /** Everything that waits is lost. */
  discard(): void {
    this.#parts.state.drop(this.#waiting.length - this.#from + (this.#sending?.events.length ?? 0))
    this.#waiting = []
    this.#from = 0
    this.#due = 0
    this.#text = 0
    this.#sending = undefined
  }

  #take(): string[] {
    let end = this.#from
    let text = 0
    while (end < this.#waiting.length && end - this.#from < MOST_EVENTS) {
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
