import type { ColumnDataType, ColumnType, Generated, Kysely, Transaction } from 'kysely'
import type { Operation } from './records.js'
import type { SqliteAway } from './sqlite-protocol.js'

/** The tables as both databases have them. Bodies and details are JSON text; times are milliseconds since the Unix epoch. */
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
}

/** One row. Its lock is the writer's turn among all processes. */
interface MetaTable {
  one: Generated<number>
  revision: number
  sequence: number
  schema_version: number
  /** Revisions below this one are forgotten. */
  history_from: number
  /** Made when it is asked for first. */
  account_id: string | null
  /** Id of the key that secrets are sealed by; null: not known. */
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
  /** JSON text of the value: neither database keeps a NUL or half a surrogate pair as it is. */
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

/** Where a deleted record stood, so that its id still works as a cursor. */
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
  /** How many calls were left for it, ever. */
  calls: number
}

/** What lives in the processes. */
interface EntriesTable {
  process: string
  kind: string
  id: string
  /** Bytes, because databases do not agree on the order of text. */
  rank: ColumnType<Uint8Array | ArrayBuffer, Uint8Array, Uint8Array>
  /** JSON text. */
  body: string
}

/** What processes ask of each other. */
interface CallsTable {
  id: string
  process: string
  caller: string
  /** JSON text. */
  body: string
  /** JSON text; null: none yet. */
  answer: string | null
  at: number
}

/** What waits for a destination. */
interface OutboxTable {
  destination: string
  revision: number
  position: number
  /** JSON text. */
  body: string
}

/** How the delivery to a destination goes. */
export interface DeliveriesTable {
  destination: string
  delivered: number
  waiting: number
  failures: number
  last_error: string | null
  last_failure_at: number | null
  last_success_at: number | null
  /** How many dead letters it ever got: the number of the last one. */
  letters_added: Generated<number>
  /** How many of them were dropped because there was no room. */
  letters_dropped: Generated<number>
}

/** Events that a destination refused for good. */
export interface DeadLettersTable {
  destination: string
  /** Counts within the destination; never used twice. */
  number: number
  at: number
  /** The next three are null when the body is damaged. */
  event_id: string | null
  event_type: string | null
  event_timestamp: string | null
  attempts: number
  reason: string
  /** Bytes of the body. */
  size: number
  /** JSON text. */
  body: string
}

/** Which process delivers to a destination. */
interface LeasesTable {
  destination: string
  holder: string
  /** Changes with every renewal by the holder. */
  number: number
}

/** Sessions of visitors that were ended before their time, and the row that counts them. */
export interface EndedSessionsTable {
  id: string
  /** Grows in the order of commits. */
  number: number
  begun: number
  ends: number
}

/** Sessions of visitors: what cookies cannot hold, and the last generation of renewed tokens. */
interface LoginSessionsTable {
  id: string
  /** Generation of the tokens. */
  number: number
  /** 1: cookies hold a reference alone. */
  needed: number
  /** Bytes of what is sealed. */
  size: number
  ends: number
  at: number
  /** Holder of the lease for the next generation; null: there is none. */
  holder: string | null
  held_at: number
  /** Null: a lease alone; '': the session has ended. */
  sealed: string | null
}

/** One opened database, as much of it as differs between SQLite and PostgreSQL. */
export interface Database {
  /** What people call it in logs and errors; holds no password. */
  readonly name: string
  /** Reads that do not wait for a running transaction, where the database can. */
  readonly reads: Kysely<Tables>
  readonly writes: Kysely<Tables>
  readonly bytes: ColumnDataType
  /** Holds off other processes that open the same database, until the transaction ends. */
  holdForMigration(transaction: Transaction<Tables>): Promise<void>
  /** Counts the rows anew for the planner, after a write that changed many. */
  recount(transaction: Transaction<Tables>): Promise<void>
  /** Notifies other processes of the revision when the transaction commits. */
  announce(transaction: Transaction<Tables>, revision: number): Promise<void>
  /** Notifies another process, when the transaction commits, that there is something for it on the cluster board. */
  wake(transaction: Transaction<Tables>, process: string): Promise<void>
  /** Writes what is committed, as of one moment, into a new SQLite file that only this user reads. */
  copy(to: string): Promise<void>
  /** Lets another process have it for a while. Absent: processes share it, or no other one can have it. */
  readonly away?: SqliteAway
  close(): Promise<void>
}
