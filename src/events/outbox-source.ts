import type { Clock } from '../lib/clock.js'
import type { DeadLetterBounds, DeadLetters, NewDeadLetter } from '../store/dead-letters.js'
import type { Outbox, OutboxEntry } from '../store/outbox.js'
import type { DeliveryState } from './delivery-state.js'
import type { Parcel, SendFailure } from './destinations/sender.js'
import { type EventHead, readHead } from './envelope.js'
import type { Source } from './lane.js'
import { type RefusalRule, Refusals } from './refusals.js'

export interface OutboxSourceParts {
  readonly outbox: Outbox
  readonly deadLetters: DeadLetters
  readonly state: DeliveryState
  readonly clock: Clock
  /** Most events of one parcel. */
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
  /** Events of the next parcel: fewer while the one that is refused is searched. */
  #size: number

  constructor(parts: OutboxSourceParts) {
    this.#parts = parts
    this.#refusals = new Refusals(parts.refusals, parts.clock)
    this.#size = parts.most
  }

  async next(): Promise<Parcel | undefined> {
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
