/** Entry for one destination. Its position in the queue is the revision that caused it and the position in that revision. */
export interface OutboxEntry {
  readonly revision: number
  readonly position: number
  /** JSON text, sent unchanged. */
  readonly body: string
}

/** Position of an entry. */
export type OutboxPlace = Pick<OutboxEntry, 'revision' | 'position'>

/** Delivery state of one destination, as last written by the process that delivers to it. */
export interface DeliveryReport {
  readonly destination: string
  /** Total number of accepted entries. */
  readonly delivered: number
  /** Number of waiting entries; exact only while the destination fails. */
  readonly waiting: number
  /** Failed attempts since the last success. */
  readonly failures: number
  /** Text of the last failure; null before the first. */
  readonly lastError: string | null
  /** Milliseconds since the Unix epoch; null before the first. */
  readonly lastFailureAt: number | null
  readonly lastSuccessAt: number | null
}

/**
 * Queue of undelivered events. Entries are added in the transaction of their cause (`StoreTransaction.post`) and removed once accepted. A
 * crash loses no entry and may repeat some.
 *
 * Leases assign destinations to processes. They need no common clock: the holder keeps changing the number of its lease, and a process that
 * sees the same number for long enough, by its own clock, may take the lease over.
 */
export interface Outbox {
  /** Returns the oldest entries of a destination, in revision order. */
  next(destination: string, limit: number): Promise<OutboxEntry[]>
  /** Returns the destinations with entries from later revisions, and the last revision covered. */
  postedAfter(revision: number): Promise<{ readonly destinations: readonly string[]; readonly revision: number }>
  /** Returns the number of waiting entries of a destination. */
  count(destination: string): Promise<number>
  /** Removes the entries up to and including this one, and stores the report. */
  delivered(through: OutboxPlace, report: DeliveryReport): Promise<void>
  /** Stores the report. */
  report(report: DeliveryReport): Promise<void>
  reports(): Promise<DeliveryReport[]>
  leases(): Promise<Lease[]>
  /** Takes a lease that is free or still has the number `seen`. Returns false if another process was faster. */
  take(destination: string, holder: string, seen: number | undefined): Promise<boolean>
  /** Changes the numbers of all leases of the holder; returns the destinations that it still holds. */
  renew(holder: string): Promise<string[]>
  /** Releases all leases of the holder. */
  release(holder: string): Promise<void>
  /** Returns the account id of this store; `fresh` is stored if there is none. */
  account(fresh: string): Promise<string>
}

export interface Lease {
  readonly destination: string
  readonly holder: string
  readonly number: number
}

/** List entry of an event that its destination refused permanently. */
export interface DeadLetter {
  /** Number in order of arrival for its destination; never reused. */
  readonly number: number
  /** Arrival time, milliseconds since the Unix epoch. */
  readonly at: number
  /** This and the next two fields are null if the event is damaged. */
  readonly eventId: string | null
  readonly eventType: string | null
  /** RFC 3339. */
  readonly eventTimestamp: string | null
  /** Number of individual delivery attempts. */
  readonly attempts: number
  /** Text of the last refusal; contains no secret. */
  readonly reason: string
  /** Size of the event in bytes. */
  readonly size: number
}

/** Dead letter with its event as JSON text. */
export interface WholeDeadLetter extends DeadLetter {
  readonly body: string
}

/** New dead letter; its number and size are derived. */
export interface NewDeadLetter extends Omit<WholeDeadLetter, 'number' | 'size'> {
  readonly destination: string
  /** Its position in the outbox. */
  readonly place: OutboxPlace
}

/** Limits of one destination: beyond either one the oldest are dropped. The newest is always kept. */
export interface DeadLetterBounds {
  readonly letters: number
  readonly bytes: number
}

/** Number of dead letters of a destination, and total number dropped for lack of room. */
export interface DeadLetterCounts {
  readonly destination: string
  readonly letters: number
  readonly dropped: number
}

/**
 * Events that their destinations refused permanently. `StoreTransaction.redeliver` moves them back to the outbox;
 * `StoreTransaction.withdraw` deletes those of a deleted destination.
 */
export interface DeadLetters {
  /**
   * Moves an event from the outbox to the list and stores the report in one transaction. Returns undefined and writes nothing if the event
   * no longer waits: another process was faster, or the destination was deleted.
   */
  add(letter: NewDeadLetter, report: DeliveryReport, bounds: DeadLetterBounds): Promise<DeadLetterCounts | undefined>
  /** Returns the newest first. `before`: only lower numbers. */
  list(destination: string, page: { readonly limit: number; readonly before?: number }): Promise<DeadLetter[]>
  get(destination: string, number: number): Promise<WholeDeadLetter | undefined>
  /** Deletes one or all; returns how many. */
  drop(destination: string, number?: number): Promise<number>
  /** Returns the counts of all destinations with a delivery or an attempt. */
  counts(): Promise<DeadLetterCounts[]>
}
