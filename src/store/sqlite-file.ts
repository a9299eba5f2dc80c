import { closeSync, existsSync, fsyncSync, openSync, realpathSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../lib/errors.js'
import { makeFolder } from '../lib/files.js'
import { systemReason } from '../lib/system-errors.js'
import { StoreError, type StoreErrorCode, type StoreTrouble } from './errors.js'
import { openDatabase, type SqliteDatabase, type SqliteStatement } from './sqlite-driver.js'
import {
  type Channel,
  IN_MEMORY,
  type SqliteCommand,
  type SqliteFailure,
  type SqliteResult,
  type SqliteValue
} from './sqlite-protocol.js'

const OWNER_ONLY = 0o600

/**
 * Writes what the database holds, as of one moment, into a new file that only its owner reads; writers are not held up.
 * The content is on the disk when this returns, the name of the file only once its folder is. Fails with the system's
 * error (`EEXIST`: there is such a file) or with SQLite's.
 */
export function copySqlite(database: SqliteDatabase, to: string): void {
  // SQLite would make it readable for every user.
  const file = openSync(to, 'wx', OWNER_ONLY)
  try {
    database.prepare('vacuum into ?').run([to])
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** The right to use a SQLite file, held by one process. */
interface SqliteLock {
  release(): void
}

/**
 * Takes the lock of a file, whatever name leads to it: `<file>.lock` beside the file itself, a SQLite file in
 * which an open transaction is the lock. The system lets go of it when the process dies, however it dies, and a process
 * number that is used again says nothing false. Fails with `STORE_LOCKED`, and with `STORE_FAILED` for a file with several hard
 * links, because each of them would get a journal and a lock of its own.
 */
export function lockSqlite(path: string): SqliteLock {
  const real = realFile(path)
  const there = statSync(real, { throwIfNoEntry: false })
  if (there?.isFile() === true && there.nlink > 1) {
    const message = `${path} has a second name (a hard link), under which another process could write to the same file; make a copy and delete one of the two names`
    throw new StoreError('STORE_FAILED', message)
  }
  const lock = openDatabase(`${real}.lock`)
  try {
    lock.exec('create table if not exists holder (pid integer, host text)')
    lock.exec('begin immediate')
    lock.exec('delete from holder')
    lock.prepare('insert into holder values (?, ?)').run([process.pid, hostname()])
    lock.exec('commit')
    lock.exec('begin immediate')
  } catch (error) {
    const refused = codeOf(error) === 'SQLITE_BUSY' ? locked(path, lock) : error
    lock.close()
    throw refused
  }
  return { release: () => giveUp(lock) }
}

/** The one name of a file that is there, or is to be made in a folder that is there. */
export function realFile(path: string): string {
  return existsSync(path) ? realpathSync(path) : join(realpathSync(dirname(path)), basename(path))
}

/** Ends the transaction first: a closed connection keeps its locks while a statement of it still awaits collection. */
function giveUp(lock: SqliteDatabase): void {
  lock.exec('rollback')
  lock.close()
}

function locked(path: string, lock: SqliteDatabase): StoreError {
  return new StoreError(
    'STORE_LOCKED',
    `${path} is in use by ${holderOf(lock)}; end that process first: one SQLite file serves one process`
  )
}

function holderOf(lock: SqliteDatabase): string {
  try {
    const [holder] = lock.prepare('select pid, host from holder').all([]) as { pid: number; host: string }[]
    if (holder !== undefined) return `process ${holder.pid} on ${holder.host}`
  } catch {
    // It is just being written: a process has it, but its name is not there yet.
  }
  return 'another process'
}

/** Throws a StoreError `STORE_FAILED` for a database of another program, and for a file that ends within its last page. */
function mustBeStore({ database }: Connection, path: string): void {
  const tables = database.prepare(`select name from sqlite_master where type = 'table'`).all([])
  const named = tables as { readonly name: string }[]
  if (named.length > 0 && !named.some(({ name }) => name === 'meta'))
    throw new StoreError('STORE_FAILED', `${path} is a database of another program; name another place for the store`)
  // While there is a journal, the pages may be in that. SQLite itself sees whole pages that are missing.
  if ((statSync(`${realFile(path)}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) return
  const number = (name: string) => Number(Object.values((database.pragma(name) as [object])[0])[0])
  if (statSync(path).size < number('page_count') * number('page_size'))
    throw errorOf(path, { code: 'SQLITE_CORRUPT', message: 'cut off' })
}

const NOTHING: SqliteResult = { rows: [], changes: null }
const KEPT_STATEMENTS = 200
/** Bytes of the smallest database, one page. */
const SMALLEST = 512
/** How long a tool that copies the file may hold it before a statement fails. */
const BUSY_MILLISECONDS = 2000

/**
 * One SQLite file, its lock file and its two connections, used synchronously. Only the store thread has one. In memory
 * there is one connection, because a second would see another database.
 */
export class SqliteFile {
  readonly #lock: SqliteLock | undefined
  readonly #writer: Connection
  readonly #reader: Connection
  /** The file as it was opened; undefined: in memory. */
  readonly #file: OpenFile | undefined
  #inTransaction = false

  private constructor(
    writer: Connection,
    reader: Connection,
    opened?: { readonly lock: SqliteLock; readonly file: OpenFile }
  ) {
    this.#writer = writer
    this.#reader = reader
    this.#lock = opened?.lock
    this.#file = opened?.file
  }

  /** Creates the file and its folder where they are missing, readable by this user alone. */
  static open(path: string): SqliteFile {
    if (path === IN_MEMORY) {
      const only = new Connection(path)
      return new SqliteFile(only, only)
    }
    makeFolder(dirname(path))
    // The lock follows the file, which has to be there. One that is there is not touched: closing it here would end the
    // locks that SQLite holds on it in this process (fcntl).
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
    const there = statSync(path)
    if (!there.isFile()) throw new StoreError('STORE_FAILED', `${path} is no plain file; name a file for the store`)
    // SQLite takes what is shorter than its head for an empty database.
    if (there.size > 0 && there.size < SMALLEST) throw errorOf(path, { code: 'SQLITE_NOTADB', message: 'cut off' })
    const lock = lockSqlite(path)
    try {
      const writer = new Connection(path)
      mustBeStore(writer, path)
      return new SqliteFile(writer, new Connection(path), { lock, file: openFile(path) })
    } catch (error) {
      lock.release()
      throw error
    }
  }

  execute(command: SqliteCommand): SqliteResult {
    switch (command.type) {
      case 'query':
        return this.#query(command.channel, command.sql, command.parameters)
      case 'begin':
        this.#mustBeThere()
        this.#writer.database.exec('begin immediate')
        this.#inTransaction = true
        return NOTHING
      case 'commit':
        this.#mustStand()
        this.#mustBeThere()
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

  /** See `copySqlite`. */
  copy(to: string): void {
    copySqlite(this.#reader.database, to)
  }

  #query(channel: Channel, sql: string, parameters: readonly unknown[]): SqliteResult {
    if (channel === 'reader') {
      this.#mustBeThere()
      return this.#reader.query(sql, parameters)
    }
    this.#mustStand()
    if (!this.#inTransaction) this.#mustBeThere()
    return this.#writer.query(sql, parameters)
  }

  /** A full disk ends a transaction from below; what follows would then be committed one statement at a time. */
  #mustStand(): void {
    if (this.#inTransaction && !this.#writer.database.inTransaction)
      throw new StoreError('STORE_UNAVAILABLE', 'the transaction was undone by the database')
  }

  /** What is written into a file that has no name any more, or another file in its place, is lost with the process. */
  #mustBeThere(): void {
    if (this.#file === undefined) return
    const { path, dev, ino, whole } = this.#file
    const there = statSync(path, { throwIfNoEntry: false })
    const isSame = there?.ino === ino && there.dev === dev
    if (isSame && (!whole || there.size >= SMALLEST)) return
    const what = there === undefined ? 'was deleted' : isSame ? 'was emptied' : 'was replaced'
    const message = `${path} ${what} while the process had it open; put it back and start the process again`
    throw Object.assign(new Error(message), { code: GONE })
  }

  #close(): void {
    this.#reader.database.close()
    if (this.#writer !== this.#reader) this.#writer.database.close()
    this.#lock?.release()
  }
}

interface OpenFile {
  readonly path: string
  readonly dev: number
  readonly ino: number
  /** It held a database. */
  readonly whole: boolean
}

function openFile(path: string): OpenFile {
  const { dev, ino, size } = statSync(path)
  return { path, dev, ino, whole: size >= SMALLEST }
}

/** Code of a file that is not the one any more that was opened. */
const GONE = 'gone'

class Connection {
  readonly database: SqliteDatabase
  readonly #statements = new Map<string, SqliteStatement>()

  constructor(path: string) {
    this.database = openDatabase(path)
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

function run(statement: SqliteStatement, parameters: readonly unknown[]): SqliteResult {
  if (!statement.reader) return { rows: [], changes: statement.run(parameters).changes }
  return { rows: statement.all(parameters) as Record<string, SqliteValue>[], changes: null }
}

/** What a repetition may heal: no room, no permission, another program in the way, a disk that failed. */
const PASSING = /^(SQLITE_(FULL|BUSY|LOCKED|READONLY|IOERR|CANTOPEN)|E[A-Z]+$)/
const TROUBLES: readonly (readonly [RegExp, StoreTrouble])[] = [
  [/^(SQLITE_FULL|ENOSPC|EDQUOT)$/, 'full'],
  [/^(SQLITE_READONLY|EROFS|EACCES|EPERM)/, 'read_only'],
  [/^(SQLITE_(IOERR|CANTOPEN)|E(IO|FBIG)$)/, 'failing'],
  [/^SQLITE_(CORRUPT|NOTADB)/, 'damaged']
]
const OURS: readonly StoreErrorCode[] = ['STORE_LOCKED', 'STORE_UNAVAILABLE', 'STORE_FAILED']

/** An error of the driver, of the system or of ours as data that can pass between threads. */
export function failureOf(error: unknown): SqliteFailure {
  return { code: codeOf(error) ?? 'SQLITE_ERROR', message: error instanceof Error ? error.message : String(error) }
}

/** The error that a failure on the file `name` becomes. */
export function errorOf(name: string, { code, message }: SqliteFailure): StoreError {
  const ours = OURS.find((known) => known === code)
  if (ours !== undefined) return new StoreError(ours, message)
  if (code === GONE) return new StoreError('STORE_UNAVAILABLE', message, { trouble: 'gone' })
  const why = systemReason(code) ?? `${message} (${code})`
  return new StoreError(PASSING.test(code) ? 'STORE_UNAVAILABLE' : 'STORE_FAILED', `${name}: ${why}`, {
    trouble: TROUBLES.find(([pattern]) => pattern.test(code))?.[1]
  })
}
