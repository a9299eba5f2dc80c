/** Behavior of a limit without its ledger: refuse, admit its own share of the capacity, or admit everything. */
export type StoreLoss = 'closed' | 'local' | 'open'

/**
 * A member's declaration about one bucket, and its request. Declarations are totals, not changes: a lost response or a repeated call does
 * not affect later ones. Times are in milliseconds.
 */
export interface LedgerEntry {
  /** Id of the bucket: a keyed hash as text. */
  readonly id: string
  /** Length of the window (ms); constant for an id. */
  readonly rate: number
  readonly capacity: number
  /** Number of the account with the member's permits; 0 without one. */
  readonly account: number
  /**
   * Permits spent since the account was opened, as increasing totals, and the age of each total's last permit by the member's clock.
   * Amounts already counted by the ledger need not be repeated.
   */
  readonly totals: readonly number[]
  readonly ages: readonly number[]
  /** Permits that the member may still spend. It returns all others. */
  readonly held: number
  /** Additional permits that it requests, and the minimum that is useful. */
  readonly want: number
  readonly least: number
  readonly loss: StoreLoss
  /** Asks the other members to report, and to return permits that they do not need. */
  readonly recall: boolean
}

/** One call of a member, for several buckets. */
export interface LedgerCall {
  /** Name that is unique among processes and threads, also after a restart. */
  readonly member: string
  /** Increases with each call. The ledger ignores a call if it has seen a greater serial of the member. */
  readonly serial: number
  /** Serial of the last call with a received response, and the ledger's time in it; 0 without a recent one. */
  readonly answered: number
  readonly seen: number
  /** Requests the share that the member may admit without the ledger; its value is the share that it assumes. Optional. */
  readonly share?: number
  /** Set if the member has admitted without the ledger since its last successful call. */
  readonly local: boolean
  /** Ordered by id. */
  readonly entries: readonly LedgerEntry[]
}

/** Response of the ledger about one bucket. */
export interface LedgerGrant {
  /** Number of the account from now on; 0 without one. A changed number means that the declared account was closed. */
  readonly account: number
  /** Additional permits granted. */
  readonly granted: number
  /** Permits that are still available. */
  readonly free: number
  /** Reported permits spent within the window. */
  readonly used: number
  /** Permits held by other members. */
  readonly leased: number
  /** Milliseconds until the requested minimum becomes free by itself, and until all permits do. */
  readonly next: number
  readonly reset: number
}

/** Response to a call. */
export interface LedgerAnswer {
  /** Time of the ledger (ms). */
  readonly now: number
  /** Share of each capacity that the member may admit without the ledger, 0 to 1; undefined if not requested. */
  readonly share: number | undefined
  /** Silent members whose share is reserved, if the member requested its own. */
  readonly silent: readonly string[]
  /** One grant per entry of the call, in order; undefined if a later call of the member came first and this one was ignored. */
  readonly grants: readonly LedgerGrant[] | undefined
}

/**
 * Shared record of the used and leased capacity of each bucket. Methods reject if the ledger is unreachable; the call may then have been
 * executed, or be executed later.
 */
export interface LimitLedger {
  exchange(call: LedgerCall): Promise<LedgerAnswer>
  /** Clears the bucket's usage; leases remain. All listening members are notified. */
  clear(id: string): Promise<void>
  /** Removes some unused buckets. Called about once per second by each member. */
  sweep(): Promise<void>
  /** Removes a member that has stopped and holds no permits. */
  leave(member: string): Promise<void>
  /**
   * Calls `recalled` for each bucket whose permits other members need, or that was cleared; it must not throw. Returns a function that
   * stops listening.
   */
  listen(recalled: (id: string, cleared: boolean) => void): () => void
  /** Waits for pending calls. */
  close(): Promise<void>
}
