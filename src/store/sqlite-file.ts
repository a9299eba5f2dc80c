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
 * Writes a snapshot of the database into a new file that only its owner can read; writers are not blocked. On return the content is on
 * disk; the file name is only after a flush of the folder. Fails with the system's error (`EEXIST`: the file exists) or with SQLite's.
 */
export function copySqlite(database: SqliteDatabase, to: string): void {
  // SQLite would create it readable for every user.
  const file = openSync(to, 'wx', OWNER_ONLY)
  try {
    database.prepare('vacuum into ?').run([to])
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Lock of a SQLite file, held by one process. */
interface SqliteLock {
  release(): void
}

/**
 * Locks a file, whatever path leads to it: `<file>.lock` beside the real file is a SQLite file in which an open transaction is the lock.
 * The system releases it if the process dies, and a reused process id cannot confuse it. Fails with `STORE_LOCKED`, and with `STORE_FAILED`
 * for a file with several hard links, because each would have a journal and lock of its own.
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

/** Returns the real path of a file that exists or will be created in an existing folder. */
export function realFile(path: string): string {
  return existsSync(path) ? realpathSync(path) : join(realpathSync(dirname(path)), basename(path))
}

/** Rolls back first: a closed connection keeps its locks until its statements are garbage-collected. */
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
    // It is being written: another process has the lock, but its name is not written yet.
  }
  return 'another process'
}

/** Throws a StoreError `STORE_FAILED` for a database of another program, and for a file truncated within a page. */
function mustBeStore({ database }: Connection, path: string): void {
  const tables = database.prepare(`select name from sqlite_master where type = 'table'`).all([])
  const named = tables as { readonly name: string }[]
  if (named.length > 0 && !named.some(({ name }) => name === 'meta'))
    throw new StoreError('STORE_FAILED', `${path} is a database of another program; name another place for the store`)
  // With a journal, the pages may be there. SQLite itself detects missing whole pages.
  if ((statSync(`${realFile(path)}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) return
  const number = (name: string) => Number(Object.values((database.pragma(name) as [object])[0])[0])
  if (statSync(path).size < number('page_count') * number('page_size'))
    throw errorOf(path, { code: 'SQLITE_CORRUPT', message: 'cut off' })
}

const NOTHING: SqliteResult = { rows: [], changes: null }
const KEPT_STATEMENTS = 200
/** Size of the smallest database, one page (bytes). */
const SMALLEST = 512
/** Maximum time that a tool copying the file may lock it before a statement fails (ms). */
const BUSY_MILLISECONDS = 2000

/**
 * SQLite file with its lock file and two connections, used synchronously. Only the store thread uses it. In memory there is one connection,
 * because a second would see another database.
 */
export class SqliteFile {
  readonly #lock: SqliteLock | undefined
  readonly #writer: Connection
  readonly #reader: Connection
  /** Identity of the opened file; undefined in memory. */
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

  /** Creates the file and its folder if missing, readable by this user alone. */
  static open(path: string): SqliteFile {
    if (path === IN_MEMORY) {
      const only = new Connection(path)
      return new SqliteFile(only, only)
    }
    makeFolder(dirname(path))
    // The lock needs an existing file. An existing one is not opened: closing it would release SQLite's locks on it in this process
    // (fcntl).
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
    const there = statSync(path)
    if (!there.isFile()) throw new StoreError('STORE_FAILED', `${path} is no plain file; name a file for the store`)
    // SQLite treats a file shorter than its header as an empty database.
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

  /** Throws if the transaction has ended: a full disk ends it implicitly, and later statements would be committed one by one. */
  #mustStand(): void {
    if (this.#inTransaction && !this.#writer.database.inTransaction)
      throw new StoreError('STORE_UNAVAILABLE', 'the transaction was undone by the database')
  }

  /** Throws if the file was deleted or replaced, because writes would be lost with the process. */
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
  /** The file contained a database. */
  readonly whole: boolean
}

function openFile(path: string): OpenFile {
  const { dev, ino, size } = statSync(path)
  return { path, dev, ino, whole: size >= SMALLEST }
}

/** Code of a file that was deleted or replaced after it was opened. */
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
    // A failed statement may stay active and block the next commit, so it is not reused.
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

/** Errors that a retry may fix: no space, no permission, locked by another program, disk failure. */
const PASSING = /^(SQLITE_(FULL|BUSY|LOCKED|READONLY|IOERR|CANTOPEN)|E[A-Z]+$)/
/** Error codes that concern the whole store. */
const TROUBLES: readonly (readonly [RegExp, StoreTrouble])[] = [
  [/^(SQLITE_FULL|ENOSPC|EDQUOT)$/, 'full'],
  [/^(SQLITE_READONLY|EROFS|EACCES|EPERM)/, 'read_only'],
  [/^(SQLITE_(IOERR|CANTOPEN)|E(IO|FBIG)$)/, 'failing'],
  [/^SQLITE_(CORRUPT|NOTADB)/, 'damaged']
]
const OURS: readonly StoreErrorCode[] = ['STORE_LOCKED', 'STORE_UNAVAILABLE', 'STORE_FAILED', 'STORE_LIBRARY']

/** Converts an error of the driver, the system or Sluice to data for another thread. */
export function failureOf(error: unknown): SqliteFailure {
  return { code: codeOf(error) ?? 'SQLITE_ERROR', message: error instanceof Error ? error.message : String(error) }
}

/** Creates the error for a failure on the file `name`. */
export function errorOf(name: string, { code, message }: SqliteFailure): StoreError {
  const ours = OURS.find((known) => known === code)
  if (ours !== undefined) return new StoreError(ours, message)
  if (code === GONE) return new StoreError('STORE_UNAVAILABLE', message, { trouble: 'gone' })
  const why = systemReason(code) ?? `${message} (${code})`
  return new StoreError(PASSING.test(code) ? 'STORE_UNAVAILABLE' : 'STORE_FAILED', `${name}: ${why}`, {
    trouble: TROUBLES.find(([pattern]) => pattern.test(code))?.[1]
  })
}
