import type { LookupFunction } from 'node:net'
import type { Clock } from '../lib/clock.js'
import { isPostgresUrl } from '../lib/host.js'
import { KyselyBoard } from './kysely-board.js'
import { KyselyStore } from './kysely-store.js'
import { migrate } from './migrations.js'
import { CALLS_CHANNEL, postgresDatabase, REVISIONS_CHANNEL } from './postgres.js'
import { Queries } from './queries.js'
import { RevisionWatch } from './revision-watch.js'
import { openSqlite, SqliteHere, sqliteDatabase } from './sqlite.js'
import { IN_MEMORY } from './sqlite-protocol.js'
import type { Place, Store, StoreLog } from './store.js'
import { StoreHealth } from './store-health.js'
import type { Database } from './tables.js'

export interface StoreOptions {
  readonly log: StoreLog
  readonly clock: Clock
  /**
   * Called with the place of the last revision when other processes have committed, with gaps, and when the store went back
   * in time. Now and then it names one of this process's own, so compare it with what is applied. It must not throw.
   */
  readonly onRevision: (place: Place) => void
  /** Learns whether the store can be used. Absent: the store keeps that to itself. */
  readonly health?: StoreHealth
  /** Finds the addresses of a database server. Absent: the system's look-up. */
  readonly lookup?: LookupFunction | undefined
}

/**
 * Opens a store and brings its schema up to date. `address` is a `postgres://` URL, the path of a SQLite file, or
 * `:memory:`. Fails with a `StoreError`: `STORE_ADDRESS`, `STORE_UNAVAILABLE`, `STORE_LOCKED`, `STORE_SCHEMA_NEWER`.
 */
export async function openStore(address: string, options: StoreOptions): Promise<Store> {
  if (isPostgresUrl(address)) return await openPostgres(address, options)
  const { log, clock, health = new StoreHealth(options.clock) } = options
  const inMemory = address === IN_MEMORY
  const database = inMemory
    ? sqliteDatabase(address, SqliteHere.open(address))
    : await openSqlite(address, (error) => health.failed(error))
  await prepare(database, log)
  return new KyselyStore(database, { log, clock, health, onCommit: () => undefined, onClose: () => Promise.resolve() })
}

async function openPostgres(url: string, options: StoreOptions): Promise<Store> {
  const { log, clock, onRevision, lookup, health = new StoreHealth(clock) } = options
  const { PostgresDriver } = await import('./postgres.js')
  const driver = new PostgresDriver(url, log, { failed: (error) => health.failed(error), lookup })
  const database = postgresDatabase(driver)
  const read = async () => {
    const place = await new Queries(() => database.reads).lastPlace()
    health.answered()
    return place
  }
  const seen = await prepare(database, log)
  const board = new KyselyBoard(database, () => clock.wall())
  const beside = { channel: CALLS_CHANNEL, heard: (process: string | undefined) => board.heard(process) }
  const watch = new RevisionWatch({ driver, channel: REVISIONS_CHANNEL, beside, read, onRevision, log }, seen)
  await watch.start()
  health.watch()
  const onCommit = (place: Place) => watch.saw(place)
  return new KyselyStore(database, { log, clock, board, health, onCommit, onClose: () => watch.stop() })
}

/** Migrates and answers the last place; closes the database when that fails. */
async function prepare(database: Database, log: StoreLog): Promise<Place> {
  try {
    const { from, to } = await migrate(database)
    if (from !== to) log.info({ store: database.name, from, to }, 'the store has a new schema')
    return await new Queries(() => database.reads).lastPlace()
  } catch (error) {
    await database.close()
    throw error
  }
}
