import { type LookupFunction, Socket } from 'node:net'
import { Kysely, PostgresDialect, type PostgresPool, sql } from 'kysely'
import pg from 'pg'
import { codeOf } from '../lib/errors.js'
import { postgresName } from '../lib/host.js'
import { StoreError, type StoreTrouble } from './errors.js'
import type { StoreLog } from './store.js'
import type { Database, Tables } from './tables.js'

/** Channel of new revisions; the message is the number. */
export const REVISIONS_CHANNEL = 'sluice_revisions'

/** Channel that wakes a process to read the cluster board; the message is its id. */
export const CALLS_CHANNEL = 'sluice_calls'

/** Advisory lock for migrations of one database; any constant number. */
const MIGRATION_LOCK = 7_583_942

/** PostgreSQL database on the connections of `driver`. Connects at the first query. */
export function postgresDatabase(driver: PostgresDriver): Database {
  // Kysely's type also requires cursors, which are not used here.
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
    // The server does it a minute later on its own; until then it would sort all records for one page.
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

/** Delay before the next address of a host is tried in parallel (ms). */
const ADDRESS_MILLISECONDS = 1000
/** Maximum wait of a write for the writers of other processes (ms). */
const LOCK_MILLISECONDS = 8000
/** Maximum time that a process hanging in a transaction can block the cluster (ms). */
const IDLE_TRANSACTION_MILLISECONDS = 10_000
/** Type OID of int8. */
const INT8 = 20

/** Connection for queries; a reserved one is returned with `release`. */
export interface PostgresClient {
  query<R>(sql: string, parameters: readonly unknown[]): Promise<pg.QueryResult<R & pg.QueryResultRow>>
  release(): void
}

/** Size of the pool and timeouts of each step (ms). */
interface PoolBounds {
  readonly connections: number
  readonly connect: number
  readonly statement: number
  /** Timeout of a silent server; longer than the server's own limit. */
  readonly silence: number
}

const POOL: PoolBounds = { connections: 8, connect: 5000, statement: 10_000, silence: 12_000 }

export interface PostgresDriverOptions {
  /** @default that of a store */
  readonly pool?: PoolBounds
  /** Called with the error of each failed statement or connection. */
  readonly failed?: (error: unknown) => void
  /** Resolves the server's name. @default the system's resolver, which blocks a thread of the pool meanwhile */
  readonly lookup?: LookupFunction | undefined
}

/** PostgreSQL connections of one process. The only file that uses the driver. */
export class PostgresDriver {
  readonly name: string
  readonly #config: pg.ClientConfig
  readonly #pool: pg.Pool
  readonly #log: StoreLog
  readonly #failed: (error: unknown) => void
  #ending: Promise<void> | undefined

  constructor(
    url: string,
    log: StoreLog,
    { failed = () => undefined, lookup, pool = POOL }: PostgresDriverOptions = {}
  ) {
    this.name = nameOf(url)
    this.#log = log
    this.#failed = failed
    this.#config = {
      connectionString: url,
      application_name: 'sluice',
      connectionTimeoutMillis: pool.connect,
      keepAlive: true,
      keepAliveInitialDelayMillis: 5000,
      types: { getTypeParser: parserOf },
      ...(lookup === undefined ? {} : { stream: () => socketBy(lookup) })
    }
    this.#pool = new pg.Pool({
      ...this.#config,
      max: pool.connections,
      statement_timeout: pool.statement,
      query_timeout: pool.silence,
      lock_timeout: LOCK_MILLISECONDS,
      idle_in_transaction_session_timeout: IDLE_TRANSACTION_MILLISECONDS
    })
    this.#pool.on('error', (error) => this.#lost(error))
    // Without this listener the loss of a connection would crash the process; its query reports the error.
    this.#pool.on('connect', (client) => client.on('error', () => undefined))
  }

  /** Returns a pooled connection for one query or one transaction. */
  async connect(): Promise<PostgresClient> {
    if (this.#ending !== undefined) throw new StoreError('STORE_CLOSED', `${this.name} is closed`)
    try {
      return new Reserved(await this.#pool.connect(), this.name, this.#failed)
    } catch (error) {
      const refusal = unreachable(this.name, error)
      this.#failed(refusal)
      throw refusal
    }
  }

  /**
   * Opens a separate connection that calls the handler of a channel for each message, and `ended` once when it is lost. Resolves once it is
   * listening, with the function that closes it.
   */
  async listen(
    handlers: Readonly<Record<string, (message: string) => void>>,
    ended: () => void
  ): Promise<() => Promise<void>> {
    const client = new pg.Client(this.#config)
    client.on('error', (error) => this.#lost(error))
    client.on('notification', ({ channel, payload }) => handlers[channel]?.(payload ?? ''))
    await client.connect()
    client.once('end', ended)
    try {
      for (const channel of Object.keys(handlers)) await client.query(`listen ${channel}`)
    } catch (error) {
      await client.end()
      throw error
    }
    return () => client.end()
  }

  /** Waits until all connections in use are released. */
  async end(): Promise<void> {
    this.#ending ??= this.#pool.end()
    await this.#ending
  }

  #lost(error: Error): void {
    this.#log.warn({ store: this.name, reason: codeOf(error) ?? error.message }, 'a connection to PostgreSQL was lost')
  }
}

/** Connection in use. It is not returned to the pool if its state may differ from the server's. */
class Reserved implements PostgresClient {
  readonly #client: pg.PoolClient
  readonly #name: string
  readonly #failed: (error: unknown) => void
  #broken = false

  constructor(client: pg.PoolClient, name: string, failed: (error: unknown) => void) {
    this.#client = client
    this.#name = name
    this.#failed = failed
  }

  async query<R>(sql: string, parameters: readonly unknown[]): Promise<pg.QueryResult<R & pg.QueryResultRow>> {
    if (this.#broken) throw new StoreError('STORE_UNAVAILABLE', `the connection to ${this.#name} broke`)
    try {
      return await this.#client.query<R & pg.QueryResultRow>(sql, [...parameters])
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || sql === 'rollback') this.#broken = true
      const refusal = refused(this.#name, error)
      this.#failed(refusal)
      throw refusal
    }
  }

  release(): void {
    this.#client.release(this.#broken)
  }
}

/**
 * Socket that resolves names by `lookup` and tries all addresses. The driver connects it by host and port or by a Unix socket path, and
 * checks the certificate against the host name, not the address.
 */
function socketBy(lookup: LookupFunction): Socket {
  const socket = new Socket()
  const connect = socket.connect.bind(socket)
  const tries = { lookup, autoSelectFamily: true, autoSelectFamilyAttemptTimeout: ADDRESS_MILLISECONDS }
  return Object.assign(socket, {
    connect: (at: number | string, host = 'localhost') =>
      typeof at === 'string' ? connect(at) : connect({ ...tries, port: at, host })
  })
}

/** Returns numbers for int8: counters are far below 2^53, and as text they would compare as text. */
function parserOf(type: number, format?: 'text' | 'binary'): (text: string) => unknown {
  return type === INT8 ? Number : (pg.types.getTypeParser(type, format as 'text') as (text: string) => unknown)
}

/** SQLSTATE classes of temporary errors: connection, transaction, resources, operator, plus read-only and idle transactions. */
const PASSING = /^(08|40|53|57|58)|^(25006|25P03)$/
/** SQLSTATE if the writer lock was not free within `LOCK_MILLISECONDS`. */
const LOCK_NOT_AVAILABLE = '55P03'

function refused(name: string, error: unknown): StoreError {
  const state = error instanceof pg.DatabaseError ? error.code : undefined
  if (state === LOCK_NOT_AVAILABLE) {
    const message = `${name}: another process is writing: ${reasonOf(error)}`
    return new StoreError('STORE_BUSY', message, { cause: error })
  }
  const passing = state === undefined || PASSING.test(state)
  return new StoreError(passing ? 'STORE_UNAVAILABLE' : 'STORE_FAILED', `${name}: ${reasonOf(error)}`, {
    cause: error,
    trouble: state === undefined ? 'unreachable' : TROUBLES.get(state)
  })
}

/** SQLSTATEs of a server that denies access: authentication, database name, permission to connect. */
const REFUSING = /^(28|3D)|^42501$/
/** Driver messages, without a code, for a missing password, a server that fails to prove it knows it, or one without TLS. */
const REFUSED_HERE = /^SASL|does not support SSL/
/** SQLSTATEs that concern the whole database: read-only transaction, disk full, I/O error, starting or shutting down. */
const TROUBLES: ReadonlyMap<string, StoreTrouble> = new Map([
  ['25006', 'read_only'],
  ['53100', 'full'],
  ['58030', 'failing'],
  ['57P01', 'unreachable'],
  ['57P02', 'unreachable'],
  ['57P03', 'unreachable']
])

function unreachable(name: string, error: unknown): StoreError {
  const refusing =
    error instanceof pg.DatabaseError
      ? REFUSING.test(error.code ?? '')
      : error instanceof Error && REFUSED_HERE.test(error.message)
  const code = refusing ? 'STORE_REFUSED' : 'STORE_UNAVAILABLE'
  return new StoreError(code, `cannot reach ${name}: ${reasonOf(error)}`, { cause: error, trouble: 'unreachable' })
}

function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  const code = codeOf(error)
  // A host with several addresses fails with a list of errors and no message of its own.
  if (message === '') return code ?? 'unknown'
  return code === undefined || message.includes(code) ? message : `${message} (${code})`
}

/** Returns host, port and database of an address, without user and password. */
function nameOf(url: string): string {
  const name = postgresName(url)
  if (name === undefined) throw new StoreError('STORE_ADDRESS', 'the address of PostgreSQL is no valid URL')
  return name
}
