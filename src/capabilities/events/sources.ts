import type { Clock } from '../../lib/clock.js'
import { newId } from '../../lib/id.js'
import type { DeadLetterBounds, DeadLetters, NewDeadLetter, Outbox, OutboxEntry } from '../../store/outbox.js'
import type { DeliveryState } from './delivery-state.js'
import type { Batch, SendFailure } from './destinations/sender.js'
import type { Source } from './queue.js'
import { type EventHead, readHead } from './subscriptions.js'

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

/** Entries that are read at once. */
const READ = 100
/** Milliseconds after which what was taken is written down, though more follows: what a crash may repeat. */
const WRITE_DOWN = 100
const DAMAGED = 'the event is damaged: what the store holds of it is no event'
const NO_HEAD = { event_id: null, event_type: null, event_timestamp: null }

/**
 * The audit events of one destination: they lie in the store until they were taken. One that the destination refuses for
 * good goes to its dead letters, so that those behind it do not wait for ever.
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
        // Another process goes on where the store says; what this one has read may be old by then.
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

  /** Writes down what was taken. */
  async flush(): Promise<void> {
    await this.#writeDown()
  }

  /** What goes next of what was read, up to the first that is damaged. */
  #whole(): OutboxEntry[] {
    const damaged = this.#read.slice(0, this.#size).findIndex(({ body }) => readHead(body) === undefined)
    return this.#read.splice(0, damaged === -1 ? this.#size : damaged)
  }

  #took(events: number): void {
    this.#taken.push(...this.#sending.splice(0, events))
    this.#parts.state.took(events)
  }

  /** All before it is written down already. */
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
    // Another process was there before, or the destination is gone: what was read is old.
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
  /** Most bytes (UTF-16 units of JSON text) that wait; what comes beyond is dropped and counted. */
  readonly budget: number
  readonly refusals: RefusalRule
}

/** Of one batch. */
const MOST_EVENTS = 500
const MOST_TEXT = 512 * 1024

/** The traffic events of one destination, in memory: bounded, and the newest are dropped when it is full. */
export class TrafficQueue implements Source {
  readonly #parts: TrafficQueueParts
  #waiting: string[] = []
  #from = 0
  #text = 0
  /** How many of those that wait go although they make no full batch. */
  #due = 0
  #sending: Batch | undefined
  /** Of batches that were refused: it goes before everything else, in smaller ones. */
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

  /** What waits now goes, however little it is. */
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
