import type { ColumnDataType, Kysely, Transaction } from 'kysely'
import type { Tables } from './tables.js'

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
  /** Tells other processes about the revision when the transaction commits. */
  announce(transaction: Transaction<Tables>, revision: number): Promise<void>
  /** Tells another process, when the transaction commits, that there is something for it on the board. */
  wake(transaction: Transaction<Tables>, process: string): Promise<void>
  /** Writes what is committed, as of one moment, into a new SQLite file that only this user reads. */
  copy(to: string): Promise<void>
  close(): Promise<void>
}
