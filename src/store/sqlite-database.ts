import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler
} from 'kysely'
import { Mutex } from '../lib/concurrency.js'
import type { Database } from './database.js'
import { SqliteClient } from './sqlite-client.js'
import { type Channel, IN_MEMORY, type SqliteExecutor } from './sqlite-protocol.js'
import type { Tables } from './tables.js'

/** Opens a SQLite file in a thread of its own. `failed` hears of each statement that fails. */
export async function openSqlite(path: string, failed?: (error: unknown) => void): Promise<Database> {
  return sqliteDatabase(path, await SqliteClient.open(path, failed))
}

/** A SQLite database that is open already, a file or memory. */
export function sqliteDatabase(path: string, executor: SqliteExecutor): Database {
  const writes = new Kysely<Tables>({ dialect: dialectOf(new WriterDriver(executor)) })
  const reads = path === IN_MEMORY ? writes : new Kysely<Tables>({ dialect: dialectOf(new ReaderDriver(executor)) })
  return {
    name: path,
    reads,
    writes,
    bytes: 'blob',
    // The lock file has already refused every other process.
    holdForMigration: () => Promise.resolve(),
    // Its plans follow from the indexes alone.
    recount: () => Promise.resolve(),
    announce: () => Promise.resolve(),
    wake: () => Promise.resolve(),
    copy: (to) => executor.copy(to),
    close: () => executor.close()
  }
}

class SqliteConnection implements DatabaseConnection {
  readonly #executor: SqliteExecutor
  readonly #channel: Channel

  constructor(executor: SqliteExecutor, channel: Channel) {
    this.#executor = executor
    this.#channel = channel
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const result = await this.#executor.execute({ type: 'query', channel: this.#channel, sql, parameters })
    const rows = result.rows as readonly unknown[] as R[]
    return result.changes === null ? { rows } : { rows, numAffectedRows: BigInt(result.changes) }
  }

  // biome-ignore lint/correctness/useYield: the store thread answers in whole results
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('the store thread does not stream')
  }
}

/** Statements of a transaction and those beside it share one connection, so they take turns. */
class WriterDriver implements Driver {
  readonly #executor: SqliteExecutor
  readonly #connection: SqliteConnection
  readonly #mutex = new Mutex()
  #release: () => void = () => undefined

  constructor(executor: SqliteExecutor) {
    this.#executor = executor
    this.#connection = new SqliteConnection(executor, 'writer')
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    this.#release = await this.#mutex.acquire()
    return this.#connection
  }

  async beginTransaction(): Promise<void> {
    await this.#executor.execute({ type: 'begin' })
  }

  async commitTransaction(): Promise<void> {
    await this.#executor.execute({ type: 'commit' })
  }

  async rollbackTransaction(): Promise<void> {
    await this.#executor.execute({ type: 'rollback' })
  }

  async releaseConnection(): Promise<void> {
    this.#release()
  }

  async destroy(): Promise<void> {}
}

/** Reads are single statements, and the thread runs them one by one. */
class ReaderDriver implements Driver {
  readonly #connection: SqliteConnection

  constructor(executor: SqliteExecutor) {
    this.#connection = new SqliteConnection(executor, 'reader')
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection
  }

  beginTransaction(): Promise<void> {
    return refuse()
  }

  commitTransaction(): Promise<void> {
    return refuse()
  }

  rollbackTransaction(): Promise<void> {
    return refuse()
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {}
}

function refuse(): Promise<never> {
  return Promise.reject(new Error('the reading connection has no transactions'))
}

function dialectOf(driver: Driver): Dialect {
  return {
    createDriver: () => driver,
    createAdapter: () => new SqliteAdapter(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler()
  }
}
