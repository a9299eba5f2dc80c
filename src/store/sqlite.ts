import type { Worker } from 'node:worker_threads'
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
import { threadBeside } from '../lib/files.js'
import { StoreError } from './errors.js'
import { errorOf, failureOf, SqliteFile } from './sqlite-file.js'
import {
  type Channel,
  IN_MEMORY,
  type SqliteAway,
  type SqliteCommand,
  type SqliteCopyData,
  type SqliteExecutor,
  type SqliteOpening,
  type SqliteReply,
  type SqliteRequest,
  type SqliteResult,
  type SqliteThreadData
} from './sqlite-protocol.js'
import type { Database, Tables } from './tables.js'

interface Waiting {
  resolve(result: SqliteResult): void
  reject(error: StoreError): void
}

async function copyBeside(from: string, to: string): Promise<void> {
  const worker = threadBeside(import.meta.url, 'sqlite-copy-thread', { from, to } satisfies SqliteCopyData)
  const done = await new Promise<SqliteOpening>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  if (!done.opened) throw errorOf(to, done.failure)
}

/** Starts the store thread, which opens the file. Fails with `STORE_LOCKED`, or with the error of opening the file. */
async function openThread(path: string): Promise<Worker> {
  const workerData: SqliteThreadData = { path }
  const worker = threadBeside(import.meta.url, 'sqlite-worker', workerData)
  const opening = await new Promise<SqliteOpening>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  if (!opening.opened) throw errorOf(path, opening.failure)
  return worker
}

/** State while another process has the file: waiting commands, and the function that stops the wait. */
interface Absence {
  readonly over: Promise<void>
  end(): void
}

/** Client of the store thread in the main thread. */
class SqliteClient implements SqliteExecutor {
  readonly away: SqliteAway = { give: () => this.#give(), take: () => this.#take() }
  readonly #waiting = new Map<number, Waiting>()
  readonly #name: string
  readonly #failed: (error: unknown) => void
  #worker: Worker
  #exited: Promise<void>
  #number = 0
  #gone: StoreError | undefined
  #absence: Absence | undefined

  private constructor(name: string, worker: Worker, failed: (error: unknown) => void) {
    this.#name = name
    this.#failed = failed
    this.#worker = worker
    this.#exited = this.#attach(worker)
  }

  /** Opens the file. Fails as `openThread` does. `failed` is called for each statement that fails later. */
  static async open(path: string, failed: (error: unknown) => void = () => undefined): Promise<SqliteClient> {
    return new SqliteClient(path, await openThread(path), failed)
  }

  async execute(command: SqliteCommand): Promise<SqliteResult> {
    await this.#absence?.over
    return await this.#post(command)
  }

  async #post(command: SqliteCommand): Promise<SqliteResult> {
    if (this.#gone !== undefined) throw this.#gone
    const number = ++this.#number
    return await new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject })
      this.#worker.postMessage({ number, command } satisfies SqliteRequest)
    })
  }

  /** Uses a separate thread and connection, so that reads and writes continue. */
  async copy(to: string): Promise<void> {
    await this.#absence?.over
    if (this.#gone !== undefined) throw this.#gone
    await copyBeside(this.#name, to)
  }

  /** Resolves once the file is closed and unlocked and the thread has exited. */
  async close(): Promise<void> {
    if (this.#absence !== undefined) {
      this.#gone ??= new StoreError('STORE_CLOSED', `${this.#name} is closed: another process has it`)
      this.#absence.end()
      this.#absence = undefined
    }
    if (this.#gone === undefined) await this.#post({ type: 'close' })
    await this.#exited
  }

  async #give(): Promise<void> {
    const closed = this.#post({ type: 'close' })
    let end: () => void = () => undefined
    const over = new Promise<void>((resolve) => {
      end = resolve
    })
    this.#absence = { over, end }
    await closed
    await this.#exited
  }

  async #take(): Promise<void> {
    const worker = await openThread(this.#name)
    this.#worker = worker
    this.#exited = this.#attach(worker)
    this.#absence?.end()
    this.#absence = undefined
  }

  /** Resolves when the thread exits. */
  #attach(worker: Worker): Promise<void> {
    worker.on('message', (reply: SqliteReply) => this.#settle(reply))
    worker.on('error', (error) =>
      this.#lose(new StoreError('STORE_UNAVAILABLE', `${this.#name}: ${error.message}`, { trouble: 'unreachable' }))
    )
    return new Promise((resolve) => {
      worker.once('exit', () => {
        if (this.#absence === undefined) this.#lose(new StoreError('STORE_CLOSED', `${this.#name} is closed`))
        resolve()
      })
    })
  }

  #settle(reply: SqliteReply): void {
    const waiting = this.#waiting.get(reply.number)
    this.#waiting.delete(reply.number)
    if ('result' in reply) {
      waiting?.resolve(reply.result)
      return
    }
    const error = errorOf(this.#name, reply.failure)
    this.#failed(error)
    waiting?.reject(error)
  }

  #lose(error: StoreError): void {
    this.#gone ??= error
    this.#failed(error)
    for (const waiting of this.#waiting.values()) waiting.reject(error)
    this.#waiting.clear()
  }
}

/** Opens a SQLite file in a separate thread. `failed` is called for each failed statement. */
export async function openSqlite(path: string, failed?: (error: unknown) => void): Promise<Database> {
  return sqliteDatabase(path, await SqliteClient.open(path, failed))
}

/** Wraps an opened SQLite database, a file or memory. */
export function sqliteDatabase(path: string, executor: SqliteExecutor): Database {
  const writer = new WriterDriver(executor)
  const writes = new Kysely<Tables>({ dialect: dialectOf(writer) })
  const { away } = executor
  let letWrite: () => void = () => undefined
  const reads = path === IN_MEMORY ? writes : new Kysely<Tables>({ dialect: dialectOf(new ReaderDriver(executor)) })
  return {
    name: path,
    reads,
    writes,
    bytes: 'blob',
    // The lock file already excludes other processes.
    holdForMigration: () => Promise.resolve(),
    // SQLite's query plans depend on the indexes alone.
    recount: () => Promise.resolve(),
    announce: () => Promise.resolve(),
    wake: () => Promise.resolve(),
    copy: (to) => executor.copy(to),
    ...(away === undefined
      ? {}
      : {
          away: {
            async give() {
              letWrite = await writer.hold()
              await away.give()
            },
            async take() {
              await away.take()
              letWrite()
            }
          }
        }),
    async close() {
      await executor.close()
      letWrite()
    }
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

/** Serializes transactions and single statements, which share one connection. */
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

  /** Resolves when no write is running, with the function that lets writers continue. */
  async hold(): Promise<() => void> {
    return await this.#mutex.acquire()
  }

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

/** Reads are single statements, which the thread runs one by one. */
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

/** SQLite on the calling thread, for memory only, where no disk can block the event loop. */
export class SqliteHere implements SqliteExecutor {
  readonly #name: string
  readonly #file: SqliteFile
  #closed = false

  private constructor(name: string, file: SqliteFile) {
    this.#name = name
    this.#file = file
  }

  /** Fails as the store thread does. */
  static open(path: string): SqliteHere {
    try {
      return new SqliteHere(path, SqliteFile.open(path))
    } catch (error) {
      throw errorOf(path, failureOf(error))
    }
  }

  async execute(command: SqliteCommand): Promise<SqliteResult> {
    if (this.#closed) throw new StoreError('STORE_CLOSED', `${this.#name} is closed`)
    try {
      return this.#file.execute(command)
    } catch (error) {
      throw errorOf(this.#name, failureOf(error))
    }
  }

  async copy(to: string): Promise<void> {
    if (this.#closed) throw new StoreError('STORE_CLOSED', `${this.#name} is closed`)
    try {
      this.#file.copy(to)
    } catch (error) {
      throw errorOf(to, failureOf(error))
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    await this.execute({ type: 'close' })
    this.#closed = true
  }
}
