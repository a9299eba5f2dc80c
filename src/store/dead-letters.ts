import type { DeliveryReport, OutboxPlace } from './store.js'

/** What the list shows of an event that its destination refused for good. */
export interface DeadLetter {
  /** Counts within the destination, in the order of arrival; never used twice. */
  readonly number: number
  /** When it came to the list. Milliseconds since the Unix epoch. */
  readonly at: number
  /** The next three are null when the event is damaged. */
  readonly eventId: string | null
  readonly eventType: string | null
  /** RFC 3339. */
  readonly eventTimestamp: string | null
  /** How often it was refused alone. */
  readonly attempts: number
  /** The last refusal, for people; holds no secret. */
  readonly reason: string
  /** Bytes of the event. */
  readonly size: number
}

/** A dead letter with its event, a JSON text. */
export interface WholeDeadLetter extends DeadLetter {
  readonly body: string
}

/** What the list gets; its number and its size follow. */
export interface NewDeadLetter extends Omit<WholeDeadLetter, 'number' | 'size'> {
  readonly destination: string
  /** Where it waits in the outbox. */
  readonly place: OutboxPlace
}

/** What one destination may keep: beyond either bound the oldest go. The newest always stays. */
export interface DeadLetterBounds {
  readonly letters: number
  readonly bytes: number
}

/** How many dead letters a destination has, and how many were dropped because there was no room, ever. */
export interface DeadLetterCounts {
  readonly destination: string
  readonly letters: number
  readonly dropped: number
}

/**
 * Events that their destinations refused for good, by destination. `StoreTransaction.redeliver` gives them back to the
 * outbox, and `StoreTransaction.withdraw` drops those of a destination that is deleted.
 */
export interface DeadLetters {
  /**
   * Moves an event from the outbox to the list and keeps the report, all in one transaction. Undefined when it does not wait
   * any more: another process was there before, or the destination is gone. Nothing is written then.
   */
  add(letter: NewDeadLetter, report: DeliveryReport, bounds: DeadLetterBounds): Promise<DeadLetterCounts | undefined>
  /** Newest first. `before`: only those with lower numbers. */
  list(destination: string, page: { readonly limit: number; readonly before?: number }): Promise<DeadLetter[]>
  get(destination: string, number: number): Promise<WholeDeadLetter | undefined>
  /** Drops one, or all; answers how many. */
  drop(destination: string, number?: number): Promise<number>
  /** Of destinations that something was delivered to, or tried. */
  counts(): Promise<DeadLetterCounts[]>
}
