import type { ColumnDataType, ColumnType, Generated, Kysely, Transaction } from 'kysely'
import type { Operation } from './records.js'
import type { SqliteAway } from './sqlite-protocol.js'

/** Tables of both databases. Bodies and details are JSON text; times are milliseconds since the Unix epoch. */
export interface Tables extends SessionTables {
  meta: MetaTable
  records: RecordsTable
  references: ReferencesTable
  claims: ClaimsTable
  revisions: RevisionsTable
  changes: ChangesTable
  tombstones: TombstonesTable
  processes: ProcessesTable
  entries: EntriesTable
  calls: CallsTable
  outbox: OutboxTable
  deliveries: DeliveriesTable
  dead_letters: DeadLettersTable
  leases: LeasesTable
}

/** Sessions of visitors and of the dashboard. */
interface SessionTables {
  ended_sessions: EndedSessionsTable
  login_sessions: LoginSessionsTable
  visitors: VisitorsTable
  visits: VisitsTable
}

/** Single row. Its lock is the writer lock of all processes. */
interface MetaTable {
  one: Generated<number>
  revision: number
  sequence: number
  schema_version: number
  /** Revisions below this one are deleted. */
  history_from: number
  /** Created on first use. */
  account_id: string | null
  /** Id of the key that seals secrets; null: unknown. */
  seal_key: string | null
}

export interface RecordsTable {
  kind: string
  id: string
  sequence: number
  revision: number
  created_at: number
  body: string
  sealed: ColumnType<Uint8Array | ArrayBuffer | null, Uint8Array | null, Uint8Array | null>
}

export interface ReferencesTable {
  from_kind: string
  from_id: string
  field: string
  position: number
  to_kind: string
  to_id: string
}

interface ClaimsTable {
  space: string
  /** Value as JSON text, because the databases change NUL and lone surrogates. */
  value: string
  kind: string
  id: string
}

interface RevisionsTable {
  revision: number
  operation_id: string
  at: number
  detail: string
}

interface ChangesTable {
  revision: number
  position: number
  kind: string
  id: string
  operation: Operation
}

/** Position of a deleted record, so that its id still works as a cursor. */
interface TombstonesTable {
  kind: string
  id: string
  created_at: number
  sequence: number
  revision: number
}

interface ProcessesTable {
  id: string
  applied_revision: number
  last_error: string | null
  diverged_at: number | null
  seen_at: number
  /** Total number of calls for the process. */
  calls: number
}

/** Board entries of processes. */
interface EntriesTable {
  process: string
  kind: string
  id: string
  /** Bytes, because databases sort text differently. */
  rank: ColumnType<Uint8Array | ArrayBuffer, Uint8Array, Uint8Array>
  /** JSON text. */
  body: string
}

/** Calls between processes. */
interface CallsTable {
  id: string
  process: string
  caller: string
  /** JSON text. */
  body: string
  /** JSON text; null: no answer yet. */
  answer: string | null
  at: number
}

/** Undelivered events of destinations. */
interface OutboxTable {
  destination: string
  revision: number
  position: number
  /** JSON text. */
  body: string
}

/** Delivery state of a destination. */
export interface DeliveriesTable {
  destination: string
  delivered: number
  waiting: number
  failures: number
  last_error: string | null
  last_failure_at: number | null
  last_success_at: number | null
  /** Total number of dead letters: the number of the last one. */
  letters_added: Generated<number>
  /** Number of dead letters dropped for lack of room. */
  letters_dropped: Generated<number>
}

/** Events that a destination refused permanently. */
export interface DeadLettersTable {
  destination: string
  /** Number for its destination; never reused. */
  number: number
  at: number
  /** This and the next two columns are null if the body is damaged. */
  event_id: string | null
  event_type: string | null
  event_timestamp: string | null
  attempts: number
  reason: string
  /** Size of the body in bytes. */
  size: number
  /** JSON text. */
  body: string
}

/** Assigns a destination to a process. */
interface LeasesTable {
  destination: string
  holder: string
  /** Changed by each renewal of the holder. */
  number: number
}

/** Visitor sessions ended early, and the row with their counter. */
export interface EndedSessionsTable {
  id: string
  /** Increases in commit order. */
  number: number
  begun: number
  ends: number
}

/** Visitor sessions that do not fit into cookies, and the last generation of renewed tokens. */
interface LoginSessionsTable {
  id: string
  /** Generation of the tokens. */
  number: number
  /** 1: cookies hold only a reference. */
  needed: number
  /** Size of the sealed value in bytes. */
  size: number
  ends: number
  at: number
  /** Holder of the lease for the next generation; null: no lease. */
  holder: string | null
  held_at: number
  /** Null: only a lease; '': the session ended. */
  sealed: string | null
}

/** Users who have logged in. */
export interface VisitorsTable {
  id: string
  provider: string
  issuer: string
  /** Id at the provider. */
  user_id: string
  name: string
  email: string
  created_at: number
  seen_at: number
  login_at: number
}

/** Sessions of these users. */
export interface VisitsTable {
  id: string
  /** Id in the sealed cookies. */
  session: string
  visitor: string
  /** Names by which the provider ends it. */
  by_user: string
  by_session: string
  owner: string
  url: string
  address: string
  agent: string
  begun: number
  seen_at: number
  ends: number
}

/** Opened database: the differences between SQLite and PostgreSQL. */
export interface Database {
  /** Name for logs and errors, without password. */
  readonly name: string
  /** Reads that do not wait for a running transaction, if the database supports that. */
  readonly reads: Kysely<Tables>
  readonly writes: Kysely<Tables>
  readonly bytes: ColumnDataType
  /** Blocks other processes that open the same database until the transaction ends. */
  holdForMigration(transaction: Transaction<Tables>): Promise<void>
  /** Updates the planner's statistics after a write of many rows. */
  recount(transaction: Transaction<Tables>): Promise<void>
  /** Notifies other processes of the revision on commit. */
  announce(transaction: Transaction<Tables>, revision: number): Promise<void>
  /** Notifies another process on commit to read the cluster board. */
  wake(transaction: Transaction<Tables>, process: string): Promise<void>
  /** Writes a snapshot of the committed data into a new SQLite file that only this user can read. */
  copy(to: string): Promise<void>
  /** Lends the file to another process. @default not possible or not necessary */
  readonly away?: SqliteAway
  close(): Promise<void>
}
