/** What waits for one destination. Its place in the queue is the revision that caused it and the position within that. */
export interface OutboxEntry {
  readonly revision: number
  readonly position: number
  /** JSON text, sent as it is. */
  readonly body: string
}

/** The place of an entry. */
export type OutboxPlace = Pick<OutboxEntry, 'revision' | 'position'>

/** How the delivery to one destination goes, as whoever delivers there last wrote it. */
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
 * its lease again and again, and who has seen the same number for long enough by a clock of its own may take the lease over.
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
   * Takes a lease that nobody has, or that still has the number that was `seen`. False when somebody else was faster.
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
