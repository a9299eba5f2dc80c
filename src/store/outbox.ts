/** What waits for one destination. Its place in the queue is the revision that caused it and the position within that. */
export interface OutboxEntry {
  readonly revision: number
  readonly position: number
  /** JSON text, sent as it is. */
  readonly body: string
}

/** The place of an entry. */
export type OutboxPlace = Pick<OutboxEntry, 'revision' | 'position'>

/** How the delivery to one destination goes, as the process that delivers there last wrote it. */
export interface DeliveryReport {
  readonly destination: string
  /** How many entries were taken, ever. */
  readonly delivered: number
  /** How many wait; exact only while the destination fails. */
  readonly waiting: number
  /** Attempts since the last success. */
  readonly failures: number
  /** What the last failure was, for people; null before the first. */
  readonly lastError: string | null
  /** Milliseconds since the Unix epoch; null before the first. */
  readonly lastFailureAt: number | null
  readonly lastSuccessAt: number | null
}

/**
 * What is still to be delivered. Entries come in with the transaction of their cause (`StoreTransaction.post`) and go
 * when they were taken, so that neither a crash before nor one after loses any; one in between repeats some.
 *
 * Leases say which process delivers to which destination. They need no common clock: the holder changes the number of
 * its lease again and again, and a process that has seen the same number for long enough, by its own clock, may take the lease over.
 */
export interface Outbox {
  /** The oldest entries of a destination, in the order of their revisions. */
  next(destination: string, limit: number): Promise<OutboxEntry[]>
  /** Destinations that got entries from revisions after this one, and that revision which the answer reaches up to. */
  postedAfter(revision: number): Promise<{ readonly destinations: readonly string[]; readonly revision: number }>
  /** How many entries wait for a destination. */
  count(destination: string): Promise<number>
  /** Removes the entries up to and with this one, and keeps the report. */
  delivered(through: OutboxPlace, report: DeliveryReport): Promise<void>
  /** Keeps the report. */
  report(report: DeliveryReport): Promise<void>
  reports(): Promise<DeliveryReport[]>
  leases(): Promise<Lease[]>
  /**
   * Takes a lease that no process holds, or that still has the number that was `seen`. False when another process was faster.
   */
  take(destination: string, holder: string, seen: number | undefined): Promise<boolean>
  /** Changes the numbers of all leases of the holder; answers what it still holds. */
  renew(holder: string): Promise<string[]>
  /** Gives back all leases of the holder. */
  release(holder: string): Promise<void>
  /** The id of the account that this store holds: the one that is kept, or `fresh`, which is kept from then on. */
  account(fresh: string): Promise<string>
}

export interface Lease {
  readonly destination: string
  readonly holder: string
  readonly number: number
}

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
