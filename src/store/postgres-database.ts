import { Kysely, PostgresDialect, type PostgresPool, sql } from 'kysely'
import type { Database } from './database.js'
import type { PostgresDriver } from './postgres-driver.js'
import { StoreError } from './store-error.js'
import type { Tables } from './tables.js'

/** Where processes tell each other about new revisions; the message is the number. */
export const REVISIONS_CHANNEL = 'sluice_revisions'

/** Where a process tells another one to look at the board; the message is the id of the other one. */
export const CALLS_CHANNEL = 'sluice_calls'

/** Any number, as long as it stays the same: all processes that migrate one database wait at it. */
const MIGRATION_LOCK = 7_583_942

/** A PostgreSQL database, through the connections of `driver`. Nothing is opened before the first query. */
export function postgresDatabase(driver: PostgresDriver): Database {
  // Kysely's own type asks for cursors too, which nothing here opens.
  const pool = driver as unknown as PostgresPool
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
  return {
    name: driver.name,
    reads: db,
    writes: db,
    bytes: 'bytea',
    holdForMigration: async (transaction) => {
      await sql`select pg_advisory_xact_lock(${MIGRATION_LOCK})`.execute(transaction)
    },
    // The server does it by itself a minute later; until then it would sort all records for one page.
    recount: async (transaction) => {
      await sql`analyze records, "references", claims, changes`.execute(transaction)
    },
    announce: async (transaction, revision) => {
      await sql`select pg_notify(${REVISIONS_CHANNEL}, ${String(revision)})`.execute(transaction)
    },
    wake: async (transaction, process) => {
      await sql`select pg_notify(${CALLS_CHANNEL}, ${process})`.execute(transaction)
    },
    copy: () => {
      const message = `${driver.name} is PostgreSQL: make a backup with pg_dump, or a document of the account with sluice export`
      return Promise.reject(new StoreError('STORE_NO_COPY', message))
    },
    close: () => driver.end()
  }
}
