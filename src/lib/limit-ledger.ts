/** What a limit does without its ledger: refuse, admit the own share of the capacity, or admit everything. */
export type StoreLoss = 'closed' | 'local' | 'open'

/**
 * What a member declares of one bucket, and what it wants. Declarations are totals, not changes: an answer that was lost, or a
 * call that came twice, changes nothing of what the next one says. Times are milliseconds.
 */
export interface LedgerEntry {
  /** Names the bucket: a keyed hash as text. */
  readonly id: string
  /** Length of the window; always the same for one id. */
  readonly rate: number
  readonly capacity: number
  /** Number of the account under which the member holds permits; 0: it has none. */
  readonly account: number
  /**
   * Permits spent since the account began, as totals of which each is greater than the one before, and for each how long ago the last
   * one of it was, by the clock of the member. Of what the ledger has counted nothing need be said again.
   */
  readonly totals: readonly number[]
  readonly ages: readonly number[]
  /** Permits that the member may still spend. Whatever else it was granted it gives back. */
  readonly held: number
  /** Permits that it wants beside these, and the fewest that are of use. */
  readonly want: number
  readonly least: number
  readonly loss: StoreLoss
  /** The other members are to report, and to give back what they do not need. */
  readonly recall: boolean
}

/** One call of a member, for all buckets of a moment. */
export interface LedgerCall {
  /** A name that no other process and no other thread has, also after a restart. */
  readonly member: string
  /** Grows with each call. A ledger that has seen a greater one of the member ignores the call. */
  readonly serial: number
  /** Serial of the last call whose answer has come, and the time of the ledger in it; 0: there was none lately. */
  readonly answered: number
  readonly seen: number
  /** The member asks which share it may admit without the ledger, and says which it believes to have. Absent: it does not ask. */
  readonly share?: number
  /** It has admitted without the ledger since its last call that was answered. */
  readonly local: boolean
  /** Ordered by id. */
  readonly entries: readonly LedgerEntry[]
}

/** What the ledger says of one bucket. */
export interface LedgerGrant {
  /** Number of the account from now on; 0: there is none. Another number than that of the call: what the call declared has ended. */
  readonly account: number
  /** Further permits. */
  readonly granted: number
  /** Permits that could still be granted. */
  readonly free: number
  /** Permits that were spent within the window, as far as they are reported. */
  readonly used: number
  /** Permits that other members hold. */
  readonly leased: number
  /** Milliseconds until as many as wanted at least are free by themselves, and until all are. */
  readonly next: number
  readonly reset: number
}

/** The answer to a call. */
export interface LedgerAnswer {
  /** Time of the ledger: milliseconds. */
  readonly now: number
  /** Share of each capacity that the member may admit without the ledger, 0 to 1; undefined: it has not asked. */
  readonly share: number | undefined
  /** Members whose share is kept because they are silent, if the member has asked for its own. */
  readonly silent: readonly string[]
  /** One for each entry of the call, in its order; undefined: a later call of the member has come before, and nothing was done. */
  readonly grants: readonly LedgerGrant[] | undefined
}

/**
 * Where processes keep together how much of each bucket is used and leased. Methods reject when the ledger is out of reach; then it is
 * not known whether the call was carried out, and it may still be.
 */
export interface LimitLedger {
  exchange(call: LedgerCall): Promise<LedgerAnswer>
  /** Forgets what was used of the bucket; what is leased stays. All members that listen learn of it. */
  clear(id: string): Promise<void>
  /** Removes some buckets of which nothing counts any more. Called every second or so by each member. */
  sweep(): Promise<void>
  /** The member ends and holds nothing. */
  leave(member: string): Promise<void>
  /** `recalled` is called with each bucket whose permits others want, or that was cleared. Must not throw. Answers what ends it. */
  listen(recalled: (id: string, cleared: boolean) => void): () => void
  /** Waits for what is under way. */
  close(): Promise<void>
}
