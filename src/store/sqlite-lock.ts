import { existsSync, realpathSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../lib/errors.js'
import { StoreError } from './errors.js'
import { openDatabase, type SqliteDatabase } from './sqlite-driver.js'

/** The right to use a SQLite file, held by one process. */
export interface SqliteLock {
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
  return new StoreError('STORE_LOCKED', `${path} is in use by ${holderOf(lock)}; one SQLite file serves one process`)
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
