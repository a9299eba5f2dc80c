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

/**
 * A place in one history. Revision numbers come again after a standby that lagged has taken over or a backup was restored;
 * the mark of a revision does not.
 */
export interface Place {
  readonly revision: number
  /** The operation that wrote the revision; undefined for revision 0, and when the history has forgotten it. */
  readonly mark: string | undefined
}

/** Do both name the same state? What the history has forgotten counts as equal. */
export function samePlace(a: Place, b: Place): boolean {
  return a.revision === b.revision && (a.mark === undefined || b.mark === undefined || a.mark === b.mark)
}

/** What has changed since a place in the history. */
export interface ChangeFeed {
  /** False when the revisions asked for are forgotten, are none of this history, or hold more than `limit` changes. */
  readonly complete: boolean
  /** The place asked for is none of this history: the store went back in time, or is another one. */
  readonly diverged: boolean
  /** The last revision that the answer covers. */
  readonly revision: number
  /** Where the next question continues. */
  readonly place: Place
  /** In commit order. */
  readonly changes: readonly Change[]
}

/** Which changes a question asks for. */
export interface WantedChanges {
  readonly limit?: number
  /** Only those of records of these kinds. */
  readonly kinds?: readonly string[]
}

/** A place in a list, newest first. */
export interface Position {
  readonly createdAt: number
  readonly sequence: number
}

/** Which part of a list is asked for. */
export interface PageRequest {
  readonly limit: number
  /** Only what is older: an id of this kind, deleted ones included, or a place. */
  readonly before?: string | Position
  /** Only records with a reference to this one in this field. */
  readonly referring?: { readonly field: string; readonly to: RecordKey }
}

/** A part of a list, newest first. */
export interface Page {
  readonly records: readonly StoredRecord[]
  /** Whether older records follow the last one. */
  readonly more: boolean
}

/** One revision in the history of the store. */
export interface RevisionEntry {
  readonly revision: number
  readonly operationId: string
  /** Milliseconds since the Unix epoch. */
  readonly at: number
  /** What the writer noted about itself and the write. */
  readonly detail: Json
}

/** Which revisions of the history are wanted. */
export interface HistoryRequest {
  readonly limit: number
  /** Only revisions below this number. */
  readonly before?: number
  /** Only revisions above this number. */
  readonly after?: number
  /** Only those whose note, as JSON text, has this part, which holds no `%` and no `_`. */
  readonly noting?: string
}

/** Reading of records. Every method rejects with a `StoreError`. */
export interface StoreReader {
  get(kind: string, id: string): Promise<StoredRecord | undefined>
  /** Those of the keys that exist, in no particular order. */
  getMany(keys: readonly RecordKey[]): Promise<StoredRecord[]>
  /** Newest first by (createdAt, sequence); undefined when `before` is an id that this kind never had or has forgotten. */
  list(kind: string, request: PageRequest): Promise<Page | undefined>
  /** Who names this record, in no particular order; all of them unless a limit is given. */
  referencesTo(kind: string, id: string, limit?: number): Promise<Reference[]>
  /** As `referencesTo` for each of these records of one kind, few statements for many. */
  referencesToAny(kind: string, ids: readonly string[]): Promise<Reference[]>
  /** What this record names, by field and position. */
  referencesFrom(kind: string, id: string): Promise<Reference[]>
  /** Every kind of which there is a record. */
  kinds(): Promise<string[]>
  keeperOf(space: string, value: string): Promise<RecordKey | undefined>
  claimsOf(kind: string, id: string): Promise<Claim[]>
  /**
   * What was committed after a place, up to now; a transaction's own changes are not among it. Of a bare number only its
   * size is compared with the history. With a `limit`, a feed of more changes than that is not complete; without one they
   * are read in pieces.
   */
  changesAfter(after: Place | number, wanted?: WantedChanges): Promise<ChangeFeed>
  /** The place of a committed revision. */
  placeOf(revision: number): Promise<Place>
  /** The last committed revision; within a transaction its own. */
  revision(): Promise<number>
}

/** Something to deliver. */
export interface Posted {
  readonly destination: string
  /** JSON text. */
  readonly body: string
}

/** The writer's view: reads see what it has written itself. Not usable after its work has ended. */
export interface StoreTransaction extends StoreReader {
  /** The revision that this transaction becomes. */
  readonly number: number
  /** The revision before; a process that has applied less reads `changesAfter` of its own first. */
  readonly previous: number
  /** When it began, milliseconds since the Unix epoch. */
  readonly at: number
  /** Fails with `STORE_EXISTS` when the key is taken. */
  insert(record: NewRecord): Promise<StoredRecord>
  /** In pieces, so that a long list holds up no loop; all or nothing. */
  insertMany(records: readonly NewRecord[]): Promise<StoredRecord[]>
  /** What is absent stays as it is. Fails with `STORE_MISSING`. */
  update(kind: string, id: string, update: RecordUpdate): Promise<StoredRecord>
  /** As `update` for each, few statements for many; each key once. All or nothing. */
  updateMany(updates: readonly KeyedUpdate[]): Promise<void>
  /** Takes its claims and its references to others with it; references to it stay. Fails with `STORE_MISSING`. */
  delete(kind: string, id: string): Promise<void>
  /** As `delete` for each, few statements for many. All or nothing. */
  deleteMany(keys: readonly RecordKey[]): Promise<void>
  /** Sets all references of an existing record; positions count per field in the order given. */
  replaceReferences(from: RecordKey, references: readonly { field: string; to: RecordKey }[]): Promise<void>
  /** Takes a value for an existing record; free when the record holds it already. Fails with `ClaimConflict`. */
  claim(keeper: RecordKey, space: string, value: string): Promise<void>
  /** Takes away whatever these records name. */
  clearReferences(from: readonly RecordKey[]): Promise<void>
  /** Sets the references of records that have none yet, few statements for many; positions count per record and field in the order given. */
  addReferences(references: readonly Omit<Reference, 'position'>[]): Promise<void>
  /** As `claim` for each, in few statements. Takes what is free and answers with what others hold. */
  claimMany(claims: readonly KeptClaim[]): Promise<readonly ClaimConflict[]>
  /** Makes this the last revision that wrote these records, whose content stays. Those that are not there are passed over. */
  touch(keys: readonly RecordKey[]): Promise<void>
  /** Gives a value back if the record holds it. */
  release(keeper: RecordKey, space: string, value: string): Promise<void>
  /** As `release` for each, few statements for many. */
  releaseMany(claims: readonly KeptClaim[]): Promise<void>
  /** Leaves entries in the outbox; they wait for delivery once this transaction is committed. Counts as no change of a record. */
  post(entries: readonly Posted[]): Promise<void>
  /** Takes everything that waits for a destination out of the outbox, its dead letters, and what is known of its delivery. */
  withdraw(destination: string): Promise<void>
  /**
   * Moves one dead letter of a destination, or all of them, oldest first, to the end of the outbox; answers how many. The
   * transaction becomes a revision without changes, by which the process that delivers there learns of them.
   */
  redeliver(destination: string, letter?: number): Promise<number>
  /** From this revision on secrets are sealed by this key: processes that have another one write nothing any more. */
  sealUnder(key: string): Promise<void>
  /** The transaction becomes a revision also without changes: what it has posted is kept. */
  revise(): void
  /** What the history shall say about this revision; holds no secret. */
  note(detail: Json): void
  /** As `Store.amend`, within the transaction. */
  amend(revision: number, from: Json, to: Json): Promise<boolean>
  /** Nothing of this transaction will be kept, though its work succeeds. */
  abandon(): void
}

/** What came of a transaction. */
export interface Outcome<T> {
  readonly value: T
  /** False when the work wrote nothing or abandoned the transaction: then `revision` was not used up. */
  readonly committed: boolean
  readonly revision: number
  readonly previous: number
}

/** Records, references, claims and the outbox of one installation. Methods reject with a `StoreError`. */
export interface Store extends StoreReader {
  readonly outbox: Outbox
  readonly deadLetters: DeadLetters
  readonly board: ClusterBoard
  readonly endedSessions: Pick<EndedSessions, 'add' | 'since' | 'forget'>
  readonly loginSessions: Pick<LoginSessions, 'read' | 'claim' | 'save' | 'release' | 'forget'>
  /**
   * Runs `work` as the only writer of all processes and commits what it wrote; what it throws is thrown after everything
   * is undone. Transactions of one process wait for each other.
   *
   * `work` reads through its transaction, not through the store: a store in memory has one connection, and a read outside
   * would wait for the transaction for ever. So would a transaction within it, in every store.
   *
   * When the connection breaks during the commit, the answer waits until the outcome is known by `operationId`, which
   * must be new. Fails with `STORE_OUTCOME_UNKNOWN` when the database stays out of reach.
   */
  transact<T>(operationId: string, work: (transaction: StoreTransaction) => Promise<T>): Promise<Outcome<T>>
  /** Newest first. */
  history(request: HistoryRequest): Promise<RevisionEntry[]>
  /**
   * Changes what the history says about a revision from `from` to `to`; false when it says something else by now, or has
   * forgotten it. That is no revision of its own. Not for transactions: it would wait for them.
   */
  amend(revision: number, from: Json, to: Json): Promise<boolean>
  /** Records of every kind; what is written meanwhile may be among them or not. */
  wholeRecords(request: WholeRequest): Promise<WholeRecord[]>
  /** What one revision changed. */
  changesOf(revision: number): Promise<Change[]>
  /** Drops history and deleted places of revisions below `revision`. */
  forgetHistory(revision: number): Promise<void>
  reportProcess(report: Omit<ProcessReport, 'seenAt'>): Promise<Reported>
  processes(): Promise<ProcessReport[]>
  /** Drops these reports, unless their processes have reported since, and what is on the cluster board of their processes. */
  forgetProcesses(reports: readonly Pick<ProcessReport, 'id' | 'seenAt'>[]): Promise<void>
  /** Id of the key that secrets are sealed by; null: no process has said it yet. */
  sealKey(): Promise<string | null>
  /**
   * Makes this the key of the store in the place of `instead`, or finds that it is; false when it is a third one. From then on
   * transactions of this handle fail with `STORE_SEAL_KEY` once another process has changed it.
   */
  writeUnder(key: string, instead: string | null): Promise<boolean>
  /** Records that have something sealed, by kind and id. */
  sealedRecords(request: { readonly limit: number; readonly after?: RecordKey }): Promise<SealedRecord[]>
  /**
   * Writes what is committed, as of one moment, into a new SQLite file that only this user reads; writes go on meanwhile.
   * Fails with `STORE_NO_COPY` when the store is no SQLite database: its own tools copy it.
   */
  copyTo(path: string): Promise<void>
  /**
   * Lets another process have a store that only one may have, after the write that runs: whatever needs it waits until it is back, and
   * fails when it is closed instead. A store that processes share stays open. Undefined: it cannot be taken back.
   */
  giveAway(): Promise<GivenAway | undefined>
  /** Waits for the transaction that runs, then lets go of everything. */
  close(): Promise<void>
}

/** A store that another process has, or had. */
export interface GivenAway {
  /**
   * Opens it again. Where a newer version has changed its schema, `undo`, a copy from before, takes its place. Fails as opening does;
   * then it is away as before.
   */
  back(undo?: string): Promise<void>
}

/** The part of a logger that the store uses. */
export interface StoreLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}
