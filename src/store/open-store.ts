import { link, rm } from 'node:fs/promises'
import type { LookupFunction } from 'node:net'
import { dirname } from 'node:path'
import type { Clock } from '../lib/clock.js'
import { Backoff, Coalescer, FirstFailure } from '../lib/concurrency.js'
import { codeOf } from '../lib/errors.js'
import { makeFolder, partialFor, syncFolder, writtenFile } from '../lib/files.js'
import { isPostgresUrl } from '../lib/host.js'
import { StoreError } from './errors.js'
import { KyselyBoard } from './kysely-board.js'
import { KyselyStore } from './kysely-store.js'
import { migrate } from './migrations.js'
import type { PostgresDriver } from './postgres.js'
import { Queries } from './queries.js'
import { openSqlite, SqliteHere, sqliteDatabase } from './sqlite.js'
import { errorOf, failureOf } from './sqlite-file.js'
import { IN_MEMORY } from './sqlite-protocol.js'
import { type Place, type Store, type StoreLog, samePlace } from './store.js'
import { StoreHealth } from './store-health.js'
import type { Database } from './tables.js'

const POLL_MILLISECONDS = 250
const RECONNECTING = { first: 100, longest: 5_000 }

interface RevisionWatchParts {
  readonly driver: PostgresDriver
  readonly channel: string
  /** Second channel on the same connection; called with each message, with undefined if messages may have been missed. */
  readonly beside: { readonly channel: string; readonly received: (message: string | undefined) => void }
  /** Reads the place of the last committed revision. */
  readonly read: () => Promise<Place>
  readonly onRevision: (place: Place) => void
  readonly log: StoreLog
}

/**
 * Detects revisions from other processes. A notification only triggers a read of the last place. Notifications are lost while the
 * connection is down, so it also reads after each reconnection and every 250 ms. A smaller revision, or the same one with another mark, is
 * reported as well: the store may have gone back in time.
 */
class RevisionWatch {
  readonly #parts: RevisionWatchParts
  #seen: Place
  #stopped = false
  readonly #reading = new Coalescer(() => this.#look())
  #poll: NodeJS.Timeout | undefined
  #reconnect: NodeJS.Timeout | undefined
  readonly #backoff = new Backoff(RECONNECTING)
  #connecting: Promise<void> = Promise.resolve()
  #unlisten: (() => Promise<void>) | undefined
  readonly #looks = new FirstFailure()
  readonly #listens = new FirstFailure()

  /** `seen` is a place that is already known. */
  constructor(parts: RevisionWatchParts, seen: Place) {
    this.#parts = parts
    this.#seen = seen
  }

  /** Resolves after the first attempt to listen; the watch works either way. */
  async start(): Promise<void> {
    this.#schedule()
    this.#connecting = this.#listen()
    await this.#connecting
  }

  /** Marks a revision committed by this process as known. */
  saw(place: Place): void {
    if (place.revision > this.#seen.revision) this.#seen = place
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#poll)
    clearTimeout(this.#reconnect)
    await this.#reading.settle()
    await this.#connecting
    await this.#unlisten?.()
  }

  #wake(): void {
    if (this.#stopped) return
    this.#reading.ask()
  }

  async #look(): Promise<void> {
    try {
      const place = await this.#parts.read()
      this.#looks.passed()
      if (this.#stopped || samePlace(place, this.#seen)) return
      // A read that started before a commit of this process may finish after it: the next read corrects that.
      this.#seen = place
      this.#parts.onRevision(place)
    } catch (error) {
      if (this.#stopped) return
      this.#looks.failed(() => this.#parts.log.warn({ err: error }, 'cannot look for new revisions'))
    }
  }

  #schedule(): void {
    if (this.#stopped) return
    this.#poll = setTimeout(() => {
      this.#wake()
      this.#schedule()
    }, POLL_MILLISECONDS)
  }

  async #listen(): Promise<void> {
    const { driver, channel, beside, log } = this.#parts
    try {
      const handlers = { [channel]: () => this.#wake(), [beside.channel]: beside.received }
      this.#unlisten = await driver.listen(handlers, () => this.#lost())
      this.#backoff.reset()
      this.#listens.passed()
      this.#wake()
      beside.received(undefined)
    } catch (error) {
      this.#listens.failed(() => {
        log.warn({ err: error, store: driver.name }, 'cannot listen for new revisions; polling')
      })
      this.#lost()
    }
  }

  #lost(): void {
    this.#unlisten = undefined
    if (this.#stopped) return
    this.#reconnect = setTimeout(() => {
      this.#connecting = this.#listen()
    }, this.#backoff.next())
  }
}

interface StoreOptions {
  readonly log: StoreLog
  readonly clock: Clock
  /**
   * Called with the last place after commits of other processes, not for each one, and if the store went back in time. May include
   * revisions of this process, so compare it with the applied one. Must not throw.
   */
  readonly onRevision: (place: Place) => void
  /** Receives the state of the store. @default not reported */
  readonly health?: StoreHealth
  /** Resolves the database server's name. @default the system's resolver */
  readonly lookup?: LookupFunction | undefined
}

/**
 * Opens a store and migrates its schema. `address` is a `postgres://` URL, the path of a SQLite file, or `:memory:`. Fails with a
 * `StoreError`: `STORE_ADDRESS`, `STORE_UNAVAILABLE`, `STORE_LOCKED`, `STORE_SCHEMA_NEWER`.
 */
export async function openStore(address: string, options: StoreOptions): Promise<Store> {
  if (isPostgresUrl(address)) return await openPostgres(address, options)
  const { log, clock, health = new StoreHealth(options.clock) } = options
  const inMemory = address === IN_MEMORY
  if (!inMemory) await makeSqlite(address, log)
  const database = inMemory
    ? sqliteDatabase(address, SqliteHere.open(address))
    : await openSqlite(address, (error) => health.failed(error))
  await prepare(database, log)
  return new KyselyStore(database, { log, clock, health, onCommit: () => undefined, onClose: () => Promise.resolve() })
}

/**
 * Creates a new store atomically, so that a file without tables is an emptied store and never an interrupted first start. If two processes
 * create it, one wins. Fails with a `StoreError`.
 */
async function makeSqlite(path: string, log: StoreLog): Promise<void> {
  let partial = path
  try {
    makeFolder(dirname(path))
    const place = writtenFile(path)
    if (place.kind !== 'absent') return
    partial = partialFor(place.path)
    const database = sqliteDatabase(path, SqliteHere.open(IN_MEMORY))
    await prepare(database, log)
    await database.copy(partial)
    await database.close()
    await link(partial, place.path).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error
    })
    await syncFolder(dirname(place.path))
  } catch (error) {
    if (!(error instanceof StoreError)) throw errorOf(path, failureOf(error))
    const { code, message, trouble } = error
    throw new StoreError(code, message.replaceAll(partial, path), { cause: error, trouble })
  } finally {
    if (partial !== path) await rm(partial, { force: true })
  }
}

async function openPostgres(url: string, options: StoreOptions): Promise<Store> {
  const { log, clock, onRevision, lookup, health = new StoreHealth(clock) } = options
  const { CALLS_CHANNEL, PostgresDriver, postgresDatabase, REVISIONS_CHANNEL } = await import('./postgres.js')
  const driver = new PostgresDriver(url, log, { failed: (error) => health.failed(error), lookup })
  const database = postgresDatabase(driver)
  const read = async () => {
    const place = await new Queries(() => database.reads).lastPlace()
    health.answered()
    return place
  }
  const seen = await prepare(database, log)
  const board = new KyselyBoard(database, () => clock.wall())
  const beside = { channel: CALLS_CHANNEL, received: (process: string | undefined) => board.notify(process) }
  const watch = new RevisionWatch({ driver, channel: REVISIONS_CHANNEL, beside, read, onRevision, log }, seen)
  await watch.start()
  health.watch()
  const onCommit = (place: Place) => watch.saw(place)
  return new KyselyStore(database, { log, clock, board, health, onCommit, onClose: () => watch.stop() })
}

/** Migrates and returns the last place; closes the database on failure. */
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
