import type { Json } from '../lib/json.js'
import type { ClusterBoard, ProcessReport, Reported } from './board.js'
import type { EndedSessions } from './ended-sessions.js'
import type { ClaimConflict } from './errors.js'
import type { LoginSessions } from './login-sessions.js'
import type { DeadLetters, Outbox } from './outbox.js'
import type {
  Change,
  Claim,
  KeptClaim,
  KeyedUpdate,
  NewRecord,
  RecordKey,
  RecordUpdate,
  Reference,
  SealedRecord,
  StoredRecord,
  WholeRecord,
  WholeRequest
} from './records.js'
import type { Visitors } from './visitors.js'

/**
 * Place in one history. Revision numbers repeat after failover to a lagging standby or a restored backup; the mark of a revision does not.
 */
export interface Place {
  readonly revision: number
  /** Operation that wrote the revision; undefined for revision 0 and for deleted history. */
  readonly mark: string | undefined
}

/** Returns true if both identify the same state. Deleted history counts as equal. */
export function samePlace(a: Place, b: Place): boolean {
  return a.revision === b.revision && (a.mark === undefined || b.mark === undefined || a.mark === b.mark)
}

/** Changes since a place in the history. */
export interface ChangeFeed {
  /** False if the requested revisions are deleted, belong to another history, or have more than `limit` changes. */
  readonly complete: boolean
  /** The requested place is not in this history: the store went back in time, or is another one. */
  readonly diverged: boolean
  /** Last revision covered. */
  readonly revision: number
  /** Start of the next request. */
  readonly place: Place
  /** In commit order. */
  readonly changes: readonly Change[]
}

/** Selects changes. */
export interface WantedChanges {
  readonly limit?: number
  /** Only changes of records of these kinds. */
  readonly kinds?: readonly string[]
}

/** Position in a list, newest first. */
export interface Position {
  readonly createdAt: number
  readonly sequence: number
}

/** Selects a page of a list. */
export interface PageRequest {
  readonly limit: number
  /** Only older records than this id of the same kind, which may be deleted, or than this position. */
  readonly before?: string | Position
  /** Only records whose field refers to this record. */
  readonly referring?: { readonly field: string; readonly to: RecordKey }
}

/** Page of a list, newest first. */
export interface Page {
  /** Position of the cursor if it was an id. */
  readonly before?: Position
  readonly records: readonly StoredRecord[]
  /** True if older records follow. */
  readonly more: boolean
}

/** Revision in the history of the store. */
export interface RevisionEntry {
  readonly revision: number
  readonly operationId: string
  /** Milliseconds since the Unix epoch. */
  readonly at: number
  /** Writer's note about itself and the write. */
  readonly detail: Json
}

/** Selects revisions of the history. */
export interface HistoryRequest {
  readonly limit: number
  /** Only revisions below this number. */
  readonly before?: number
  /** Only revisions above this number. */
  readonly after?: number
  /** Only revisions whose note, as JSON text, contains this text without `%` and `_`. */
  readonly noting?: string
}

/** Reads records. Every method rejects with a `StoreError`. */
export interface StoreReader {
  get(kind: string, id: string): Promise<StoredRecord | undefined>
  /** Returns the existing records of these keys in any order. */
  getMany(keys: readonly RecordKey[]): Promise<StoredRecord[]>
  /** Returns the newest first by (createdAt, sequence); undefined if `before` is an id that this kind never had or that was purged. */
  list(kind: string, request: PageRequest): Promise<Page | undefined>
  /** Returns the references to this record in any order. @default without `limit` all */
  referencesTo(kind: string, id: string, limit?: number): Promise<Reference[]>
  /** Returns the references to each of these records of one kind, with few statements. */
  referencesToAny(kind: string, ids: readonly string[]): Promise<Reference[]>
  /** Returns the references from this record, by field and position. */
  referencesFrom(kind: string, id: string): Promise<Reference[]>
  /** Returns every kind with a record. */
  kinds(): Promise<string[]>
  keeperOf(space: string, value: string): Promise<RecordKey | undefined>
  /** Returns a record that claims a value of this space; of several one of them, the same each time. */
  keeperIn(space: string): Promise<RecordKey | undefined>
  claimsOf(kind: string, id: string): Promise<Claim[]>
  /**
   * Returns the committed changes after a place; not those of a running transaction. For a plain number only its size is compared with the
   * history. With a `limit`, a feed with more changes is incomplete; without one they are read in parts.
   */
  changesAfter(after: Place | number, wanted?: WantedChanges): Promise<ChangeFeed>
  /** Returns the place of a committed revision. */
  placeOf(revision: number): Promise<Place>
  /** Returns the last committed revision; in a transaction its own. */
  revision(): Promise<number>
}

/** Event to deliver. */
export interface Posted {
  readonly destination: string
  /** JSON text. */
  readonly body: string
}

/** Transaction of the writer: reads see its own writes. Not usable after its work has finished. */
export interface StoreTransaction extends StoreReader {
  /** Revision of this transaction. */
  readonly number: number
  /** Previous revision; a process that has applied less reads `changesAfter` of its own first. */
  readonly previous: number
  /** Start time, milliseconds since the Unix epoch. */
  readonly at: number
  /** Inserts a record. Fails with `STORE_EXISTS` if the key exists. */
  insert(record: NewRecord): Promise<StoredRecord>
  /** Inserts in parts, so that a long list does not block the event loop; all or nothing. */
  insertMany(records: readonly NewRecord[]): Promise<StoredRecord[]>
  /** Updates the given members. Fails with `STORE_MISSING`. */
  update(kind: string, id: string, update: RecordUpdate): Promise<StoredRecord>
  /** Updates many records with few statements; each key once. All or nothing. */
  updateMany(updates: readonly KeyedUpdate[]): Promise<void>
  /** Deletes the record, its claims and its references; references to it are kept. Fails with `STORE_MISSING`. */
  delete(kind: string, id: string): Promise<void>
  /** Deletes many records with few statements. All or nothing. */
  deleteMany(keys: readonly RecordKey[]): Promise<void>
  /** Replaces all references of an existing record; positions count per field in the order given. */
  replaceReferences(from: RecordKey, references: readonly { field: string; to: RecordKey }[]): Promise<void>
  /** Claims a value for an existing record; succeeds if the record already has it. Fails with `ClaimConflict`. */
  claim(keeper: RecordKey, space: string, value: string): Promise<void>
  /** Deletes all references from these records. */
  clearReferences(from: readonly RecordKey[]): Promise<void>
  /** Adds the references of records without any, with few statements; positions count per record and field in the order given. */
  addReferences(references: readonly Omit<Reference, 'position'>[]): Promise<void>
  /** Claims many values with few statements. Claims the free ones and returns the conflicts. */
  claimMany(claims: readonly KeptClaim[]): Promise<readonly ClaimConflict[]>
  /** Sets this revision as the last writer of these records without changing their content. Missing records are ignored. */
  touch(keys: readonly RecordKey[]): Promise<void>
  /** Releases a value if the record has it. */
  release(keeper: RecordKey, space: string, value: string): Promise<void>
  /** Releases many values with few statements. */
  releaseMany(claims: readonly KeptClaim[]): Promise<void>
  /** Adds entries to the outbox; they are delivered after the commit. Not a change of a record. */
  post(entries: readonly Posted[]): Promise<void>
  /** Deletes the outbox entries, dead letters and delivery state of a destination. */
  withdraw(destination: string): Promise<void>
  /**
   * Moves one or all dead letters of a destination, oldest first, to the end of the outbox; returns how many. The transaction becomes a
   * revision without changes, which notifies the delivering process.
   */
  redeliver(destination: string, letter?: number): Promise<number>
  /** Seals secrets by this key from this revision on: processes with another key can no longer write. */
  sealUnder(key: string): Promise<void>
  /** Makes the transaction a revision even without changes, so that its outbox entries are kept. */
  revise(): void
  /** Sets the note of this revision; must not contain a secret. */
  note(detail: Json): void
  /** Amends a note as `Store.amend` does, in the transaction. */
  amend(revision: number, from: Json, to: Json): Promise<boolean>
  /** Rolls the transaction back although its work succeeds. */
  abandon(): void
}

/** Result of a transaction. */
export interface Outcome<T> {
  readonly value: T
  /** False if the work wrote nothing or abandoned the transaction; then `revision` stays unused. */
  readonly committed: boolean
  readonly revision: number
  readonly previous: number
}

/** Records, references, claims and outbox of one installation. Methods reject with a `StoreError`. */
export interface Store extends StoreReader {
  readonly outbox: Outbox
  readonly deadLetters: DeadLetters
  readonly board: ClusterBoard
  readonly endedSessions: Pick<EndedSessions, 'add' | 'since' | 'forget'>
  readonly loginSessions: Pick<LoginSessions, 'read' | 'claim' | 'save' | 'release' | 'forget'>
  readonly visitors: Pick<Visitors, keyof Visitors>
  /**
   * Runs `work` as the only writer of all processes and commits its writes; rethrows its errors after a rollback. Transactions of one
   * process wait for each other.
   *
   * `work` must read through its transaction, not through the store: an in-memory store has one connection, so a read outside would wait
   * for the transaction forever. A nested transaction would do so in every store.
   *
   * If the connection breaks during the commit, the outcome is determined by `operationId`, which must be new. Fails with
   * `STORE_OUTCOME_UNKNOWN` if the database stays unreachable.
   */
  transact<T>(operationId: string, work: (transaction: StoreTransaction) => Promise<T>): Promise<Outcome<T>>
  /** Returns the newest first. */
  history(request: HistoryRequest): Promise<RevisionEntry[]>
  /**
   * Changes the note of a revision from `from` to `to`; returns false if the note is different or deleted. Creates no revision. Must not be
   * called in a transaction, for which it would wait.
   */
  amend(revision: number, from: Json, to: Json): Promise<boolean>
  /** Returns records of every kind; concurrent writes may be included. */
  wholeRecords(request: WholeRequest): Promise<WholeRecord[]>
  /** Returns the changes of one revision. */
  changesOf(revision: number): Promise<Change[]>
  /** Deletes history and tombstones of revisions below `revision`. */
  forgetHistory(revision: number): Promise<void>
  reportProcess(report: Omit<ProcessReport, 'seenAt'>): Promise<Reported>
  processes(): Promise<ProcessReport[]>
  /** Deletes these reports, unless their processes have reported since, with the board data of their processes. */
  forgetProcesses(reports: readonly Pick<ProcessReport, 'id' | 'seenAt'>[]): Promise<void>
  /** Returns the id of the key that seals secrets; null: not set yet. */
  sealKey(): Promise<string | null>
  /**
   * Replaces the sealing key `instead` with this one, or confirms it; returns false if the store has a third key. Later transactions of
   * this handle fail with `STORE_SEAL_KEY` if another process changes it.
   */
  writeUnder(key: string, instead: string | null): Promise<boolean>
  /** Returns records with sealed values, by kind and id. */
  sealedRecords(request: { readonly limit: number; readonly after?: RecordKey }): Promise<SealedRecord[]>
  /**
   * Writes a snapshot of the committed data into a new SQLite file that only this user can read; writes continue meanwhile. Fails with
   * `STORE_NO_COPY` if the store is not SQLite: use the database's own tools.
   */
  copyTo(path: string): Promise<void>
  /**
   * Lends a single-process store to another process after the current write: later calls wait for its return, and fail if it is closed
   * instead. A shared store stays open. Undefined: it cannot be reopened.
   */
  giveAway(): Promise<GivenAway | undefined>
  /** Waits for the running transaction, then closes everything. */
  close(): Promise<void>
}

/** Store that is or was lent to another process. */
export interface GivenAway {
  /**
   * Reopens the store. If a newer version has migrated its schema, `undo`, an earlier copy, replaces it. Fails as opening does; the store
   * then stays lent.
   */
  back(undo?: string): Promise<void>
}

/** Part of a logger that the store uses. */
export interface StoreLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}
