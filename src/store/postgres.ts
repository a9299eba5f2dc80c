import { type LookupFunction, Socket } from 'node:net'
import { Kysely, PostgresDialect, type PostgresPool, sql } from 'kysely'
import pg from 'pg'
import { codeOf } from '../lib/errors.js'
import { postgresName } from '../lib/host.js'
import { StoreError, type StoreTrouble } from './errors.js'
import type { StoreLog } from './store.js'
import type { Database, Tables } from './tables.js'

/** The channel of new revisions; the message is the number. */
export const REVISIONS_CHANNEL = 'sluice_revisions'

/** The channel on which a process asks another one to read the cluster board; the message is the id of the other one. */
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

/** Before the next address of a host is tried beside one that does not answer. */
const ADDRESS_MILLISECONDS = 1000
/** How long a write waits for the writers of other processes. */
const LOCK_MILLISECONDS = 8000
/** A process that hangs within a transaction holds up the whole cluster, but no longer than this. */
const IDLE_TRANSACTION_MILLISECONDS = 10_000
const INT8 = 20

/** What a query needs of a connection; a reserved connection goes back with `release`. */
export interface PostgresClient {
  query<R>(sql: string, parameters: readonly unknown[]): Promise<pg.QueryResult<R & pg.QueryResultRow>>
  release(): void
}

/** How many connections there are, and how long each step may take. Milliseconds. */
interface PoolBounds {
  readonly connections: number
  readonly connect: number
  readonly statement: number
  /** A connection whose server fell silent is given up; not before the server's own limit. */
  readonly silence: number
}

const POOL: PoolBounds = { connections: 8, connect: 5000, statement: 10_000, silence: 12_000 }

export interface PostgresDriverOptions {
  /** Absent: those of a store. */
  readonly pool?: PoolBounds
  /** Called with the error of each statement and connection that fails. */
  readonly failed?: (error: unknown) => void
  /** Finds the addresses of the server. Absent: the system's look-up, which keeps a thread of the pool busy while it waits. */
  readonly lookup?: LookupFunction | undefined
}

/** The connections of one process to its PostgreSQL. The only file that knows the driver. */
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
    // Without a listener the loss of a connection in use would end the process; its query reports it already.
    this.#pool.on('connect', (client) => client.on('error', () => undefined))
  }

  /** A connection of the pool, for one query or one transaction. */
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
   * A connection of its own that runs what stands in `handlers` by channel for each message there, and `ended` once when it
   * is lost. Resolves, once it listens, with what closes it.
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

  /** Waits until the connections in use have come back. */
  async end(): Promise<void> {
    this.#ending ??= this.#pool.end()
    await this.#ending
  }

  #lost(error: Error): void {
    this.#log.warn({ store: this.name, reason: codeOf(error) ?? error.message }, 'a connection to PostgreSQL was lost')
  }
}

/** One connection while it is in use. What may be out of step with its server does not go back to the pool. */
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
 * A socket that finds names by `lookup` and tries one address after the other. The driver connects it, by port and host or by the
 * path of a Unix socket, and checks certificates against the host that it was given, not against an address.
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

/** Counters are far below 2^53; as text they would compare as text. */
function parserOf(type: number, format?: 'text' | 'binary'): (text: string) => unknown {
  return type === INT8 ? Number : (pg.types.getTypeParser(type, format as 'text') as (text: string) => unknown)
}

/** SQLSTATE classes of what passes: connection, transaction, resources, operator, plus read-only and idle transactions. */
const PASSING = /^(08|40|53|57|58)|^(25006|25P03)$/
/** The row that gives the turn to write stayed locked for `LOCK_MILLISECONDS`. */
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

/** SQLSTATEs of a server that does not let this user in: its authentication, the name of the database, the right to connect. */
const REFUSING = /^(28|3D)|^42501$/
/** What the driver says, without a code, when it has no password, the server fails to prove that it knows it, or has no TLS. */
const REFUSED_HERE = /^SASL|does not support SSL/
/** SQLSTATEs that say something about the whole database: read-only transaction, disk full, I/O error, starting or shutting down. */
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

/** Host, port and database of an address, without user and password. */
function nameOf(url: string): string {
  const name = postgresName(url)
  if (name === undefined) throw new StoreError('STORE_ADDRESS', 'the address of PostgreSQL is no valid URL')
  return name
}
