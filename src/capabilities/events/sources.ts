import type { Clock } from '../../lib/clock.js'
import { newId } from '../../lib/id.js'
import type { DeadLetterBounds, DeadLetters, NewDeadLetter, Outbox, OutboxEntry } from '../../store/outbox.js'
import type { DeliveryState } from './delivery-state.js'
import type { Batch, SendFailure } from './destinations/sender.js'
import type { Source } from './queue.js'
import { type EventHead, readHead } from './subscriptions.js'

/** Drop an event after `attempts` rejections alone, and not before `time` has passed (ms). */
export interface RefusalRule {
  readonly attempts: number
  readonly time: number
}

export const REFUSAL_RULE: RefusalRule = { attempts: 5, time: 120_000 }

/** The refusals of one event. */
interface Refused {
  readonly event: string
  readonly since: number
  /** Number of events that the destination had accepted by then. */
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
   * Counts a rejection of an event that was sent alone; returns true if the event must be dropped. `taken`: number of events
   * that the destination has accepted so far. An unclear rejection counts only if the destination accepted another event
   * since the first one: otherwise it may reject all events.
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

interface OutboxSourceParts {
  readonly outbox: Outbox
  readonly deadLetters: DeadLetters
  readonly state: DeliveryState
  readonly clock: Clock
  /** Most events of one batch. */
  readonly most: number
  /** May this process deliver there now? */
  readonly mine: () => boolean
  readonly refusals: RefusalRule
  readonly letterBounds: DeadLetterBounds
  /** An event went to the dead letters. Must not throw. */
  readonly gaveUp: (letter: NewDeadLetter) => void
}

/** Maximum number of entries per read. */
const READ = 100
/** Time after which acknowledgements are stored during delivery (ms); a crash may repeat that much. */
const WRITE_DOWN = 100
/** Reason that a dead letter of a damaged event shows. */
const DAMAGED = 'the event is damaged: what the store holds of it is no event'
/** Head of a damaged event. */
const NO_HEAD = { event_id: null, event_type: null, event_timestamp: null }

/**
 * Audit events of one destination, stored until delivered. An event that the destination finally rejects becomes a dead
 * letter, so that it does not block later ones.
 */
export class OutboxSource implements Source {
  readonly #parts: OutboxSourceParts
  readonly #refusals: Refusals
  #read: OutboxEntry[] = []
  #sending: OutboxEntry[] = []
  #taken: OutboxEntry[] = []
  #writtenAt = 0
  /** Events of the next batch: fewer while the one that is refused is searched. */
  #size: number

  constructor(parts: OutboxSourceParts) {
    this.#parts = parts
    this.#refusals = new Refusals(parts.refusals, parts.clock)
    this.#size = parts.most
  }

  async next(): Promise<Batch | undefined> {
    const { mine, outbox, state } = this.#parts
    for (;;) {
      if (!mine()) {
        // Another process continues from the stored position; entries read by this one may be stale.
        await this.#writeDown()
        this.#forget()
        return undefined
      }
      if (this.#sending.length === 0 && this.#read.length === 0) {
        await this.#writeDown()
        this.#read = await outbox.next(state.destination, READ)
      }
      if (this.#sending.length === 0) this.#sending = this.#whole()
      const [first] = this.#sending
      const head = first === undefined ? undefined : readHead(first.body)
      if (head !== undefined) return { id: head.event_id, events: this.#sending.map(({ body }) => body), list: false }
      const damaged = this.#read[0]
      if (damaged === undefined) return undefined
      await this.#writeDown()
      await this.#giveUp(damaged, NO_HEAD, 0, DAMAGED)
      this.#read.shift()
    }
  }

  async done(): Promise<void> {
    const { clock, most } = this.#parts
    this.#size = Math.min(most, this.#size * 2)
    this.#took(this.#sending.length)
    if (clock.monotonic() - this.#writtenAt >= WRITE_DOWN) await this.#writeDown()
  }

  async failed(failure: SendFailure, failures: number): Promise<boolean> {
    const { outbox, state } = this.#parts
    const { message, taken = 0, fault } = failure
    if (taken > 0) this.#took(taken)
    await this.#writeDown()
    const [first] = this.#sending
    state.failed(message, failures, await outbox.count(state.destination))
    if (first !== undefined && fault !== undefined && this.#sending.length === 1 && this.#parts.mine()) {
      const head = readHead(first.body) ?? NO_HEAD
      if (this.#refusals.isFinal(placeText(first), failure, state.accepted)) {
        await this.#giveUp(first, head, this.#refusals.attempts, message)
        this.#sending = []
        return true
      }
    }
    await outbox.report(state.report)
    if (fault === undefined || this.#sending.length < 2) return false
    // One of them is refused: a part of them may be taken.
    this.#size = Math.ceil(this.#sending.length / 2)
    this.#read.unshift(...this.#sending.splice(this.#size))
    return fault === 'event'
  }

  /** Stores acknowledgements. */
  async flush(): Promise<void> {
    await this.#writeDown()
  }

  /** Returns the next entries, up to the first damaged one. */
  #whole(): OutboxEntry[] {
    const damaged = this.#read.slice(0, this.#size).findIndex(({ body }) => readHead(body) === undefined)
    return this.#read.splice(0, damaged === -1 ? this.#size : damaged)
  }

  #took(events: number): void {
    this.#taken.push(...this.#sending.splice(0, events))
    this.#parts.state.took(events)
  }

  /** Stores a dead letter. All earlier entries must be acknowledged. */
  async #giveUp(
    entry: OutboxEntry,
    { event_id, event_type, event_timestamp }: EventHead | typeof NO_HEAD,
    attempts: number,
    reason: string
  ): Promise<void> {
    const { clock, deadLetters, gaveUp, letterBounds, state } = this.#parts
    const letter = {
      destination: state.destination,
      place: { revision: entry.revision, position: entry.position },
      at: Math.floor(clock.wall()),
      eventId: event_id,
      eventType: event_type,
      eventTimestamp: event_timestamp,
      attempts,
      reason,
      body: entry.body
    }
    state.gaveUp(1)
    const counts = await deadLetters.add(letter, state.report, letterBounds)
    // Another process stored it first, or the destination was deleted: the entries are stale.
    if (counts === undefined) return this.#forget()
    state.countLetters(counts)
    gaveUp(letter)
  }

  async #writeDown(): Promise<void> {
    const { clock, outbox, state } = this.#parts
    const last = this.#taken.at(-1)
    if (last === undefined) return
    await outbox.delivered(last, state.report)
    this.#taken = []
    this.#writtenAt = clock.monotonic()
  }

  #forget(): void {
    this.#read = []
    this.#sending = []
    this.#taken = []
  }
}

function placeText({ revision, position }: OutboxEntry): string {
  return `${revision}/${position}`
}

interface TrafficQueueParts {
  readonly state: DeliveryState
  readonly clock: Clock
  /** Maximum size of waiting events (UTF-16 units of JSON); further ones are dropped and counted. */
  readonly budget: number
  readonly refusals: RefusalRule
}

/** Maximum number of events of one batch. */
const MOST_EVENTS = 500
/** Maximum size of one batch (UTF-16 units). */
const MOST_TEXT = 512 * 1024

/** Traffic events of one destination, in memory and bounded: new events are dropped when it is full. */
export class TrafficQueue implements Source {
  readonly #parts: TrafficQueueParts
  #waiting: string[] = []
  #from = 0
  #text = 0
  /** Number of queued events that are sent even in a partial batch. */
  #due = 0
  #sending: Batch | undefined
  /** Events of rejected batches: they are sent first, in smaller batches. */
  #left: string[] = []
  /** Events of the next batch: fewer after a refusal, then slowly more again. */
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

  /** There is enough for a batch. */
  get isFull(): boolean {
    return this.#waiting.length - this.#from >= this.#most
  }

  /** Sends the queued events, even as a partial batch. */
  release(): void {
    this.#due = this.#waiting.length - this.#from
  }

  async next(): Promise<Batch | undefined> {
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

  async done({ events }: Batch): Promise<void> {
    this.#sending = undefined
    this.#most = Math.min(MOST_EVENTS, this.#most + 1 + (this.#most >> 4))
    this.#took(events)
  }

  /** Halves a rejected batch, until it is accepted, or its only event is dropped. */
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
    // Shifting a long list is slow, so it is done rarely.
    if (this.#from * 2 > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#from)
      this.#from = 0
    }
    return events
  }
}
