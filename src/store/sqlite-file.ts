import { closeSync, mkdirSync, openSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import Libsql from 'libsql'
import { codeOf } from '../lib/coded-error.js'
import { type Channel, IN_MEMORY, type SqliteCommand, type SqliteResult, type SqliteValue } from './sqlite-protocol.js'
import { StoreError } from './store-error.js'

const NOTHING: SqliteResult = { rows: [], changes: null }
const KEPT_STATEMENTS = 200
/** How long a tool that copies the file may hold it before a statement fails. */
const BUSY_MILLISECONDS = 2000

type Statement = Libsql.Statement<unknown[]>

/**
 * One SQLite file, its lock file and its two connections, used synchronously. Only the store thread has one. In memory
 * there is one connection, because a second would see another database.
 */
export class SqliteFile {
  readonly #lock: Libsql.Database | undefined
  readonly #writer: Connection
  readonly #reader: Connection
  #inTransaction = false

  private constructor(writer: Connection, reader: Connection, lock?: Libsql.Database) {
    this.#writer = writer
    this.#reader = reader
    this.#lock = lock
  }

  /** Creates the file and its folder where they are missing, readable by this user alone. */
  static open(path: string): SqliteFile {
    if (path === IN_MEMORY) {
      const only = new Connection(path)
      return new SqliteFile(only, only)
    }
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const lock = takeLock(path)
    try {
      closeSync(openSync(path, 'a', 0o600))
      return new SqliteFile(new Connection(path), new Connection(path), lock)
    } catch (error) {
      giveUp(lock)
      throw error
    }
  }

  execute(command: SqliteCommand): SqliteResult {
    switch (command.type) {
      case 'query':
        return this.#query(command.channel, command.sql, command.parameters)
      case 'begin':
        this.#writer.database.exec('begin immediate')
        this.#inTransaction = true
        return NOTHING
      case 'commit':
        this.#mustStand()
        this.#writer.database.exec('commit')
        this.#inTransaction = false
        return NOTHING
      case 'rollback':
        this.#inTransaction = false
        if (this.#writer.database.inTransaction) this.#writer.database.exec('rollback')
        return NOTHING
      case 'close':
        this.#close()
        return NOTHING
    }
  }

  #query(channel: Channel, sql: string, parameters: readonly unknown[]): SqliteResult {
    if (channel === 'reader') return this.#reader.query(sql, parameters)
    this.#mustStand()
    return this.#writer.query(sql, parameters)
  }

  /** A full disk ends a transaction from below; what follows would then be committed one statement at a time. */
  #mustStand(): void {
    if (this.#inTransaction && !this.#writer.database.inTransaction) {
      throw new StoreError('STORE_UNAVAILABLE', 'the transaction was undone by the database')
    }
  }

  #close(): void {
    this.#reader.database.close()
    if (this.#writer !== this.#reader) this.#writer.database.close()
    if (this.#lock !== undefined) giveUp(this.#lock)
  }
}

class Connection {
  readonly database: Libsql.Database
  readonly #statements = new Map<string, Statement>()

  constructor(path: string) {
    this.database = new Libsql(path)
    this.database.pragma(`busy_timeout = ${BUSY_MILLISECONDS}`)
    this.database.pragma('journal_mode = WAL')
    this.database.pragma('synchronous = FULL')
    this.database.pragma('foreign_keys = ON')
  }

  query(sql: string, parameters: readonly unknown[]): SqliteResult {
    const statement = this.#statements.get(sql) ?? this.database.prepare(sql)
    // A statement that fails may stay half run, and would then hold up the next commit: it is not kept.
    this.#statements.delete(sql)
    const result = run(statement, parameters)
    this.#statements.set(sql, statement)
    const [oldest] = this.#statements.keys()
    if (this.#statements.size > KEPT_STATEMENTS && oldest !== undefined) this.#statements.delete(oldest)
    return result
  }
}

function run(statement: Statement, parameters: readonly unknown[]): SqliteResult {
  if (!statement.reader) return { rows: [], changes: statement.run(parameters).changes }
  return { rows: statement.all(parameters) as Record<string, SqliteValue>[], changes: null }
}

/**
 * Takes `<path>.lock`, a SQLite file in which an open transaction is the lock: the system lets go of it when the process
 * dies, however it dies, and a process number that is used again says nothing false.
 */
function takeLock(path: string): Libsql.Database {
  const lock = new Libsql(`${path}.lock`)
  try {
    lock.exec('create table if not exists holder (pid integer, host text)')
    lock.exec('begin immediate')
    lock.exec('delete from holder')
    lock.prepare('insert into holder values (?, ?)').run([process.pid, hostname()])
    lock.exec('commit')
    lock.exec('begin immediate')
    return lock
  } catch (error) {
    const refused = codeOf(error) === 'SQLITE_BUSY' ? locked(path, lock) : error
    lock.close()
    throw refused
  }
}

/** Ends the transaction first: a closed connection keeps its locks while a statement of it still awaits collection. */
function giveUp(lock: Libsql.Database): void {
  lock.exec('rollback')
  lock.close()
}

function locked(path: string, lock: Libsql.Database): StoreError {
  return new StoreError('STORE_LOCKED', `${path} is in use by ${holderOf(lock)}; one SQLite file serves one process`)
}

function holderOf(lock: Libsql.Database): string {
  try {
    const [holder] = lock.prepare('select pid, host from holder').all([]) as { pid: number; host: string }[]
    if (holder !== undefined) return `process ${holder.pid} on ${holder.host}`
  } catch {
    // It is just being written: somebody has it, but the name is not there yet.
  }
  return 'another process'
}
