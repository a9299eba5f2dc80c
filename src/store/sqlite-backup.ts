import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { codeOf } from '../lib/errors.js'
import { keepOwner, makeFolder, partialFor, type WrittenFile, writtenFile } from '../lib/files.js'
import { StoreError } from './errors.js'
import { newerSchema, SCHEMA_VERSION } from './migrations.js'
import { openDatabase, openToRead, type SqliteDatabase } from './sqlite-driver.js'
import { copySqlite, errorOf, failureOf, lockSqlite } from './sqlite-file.js'

/** File included in a backup. */
export interface BackupFile {
  /** Path in the data folder. */
  readonly name: string
  readonly content: Uint8Array
}

/** Facts about a backup. */
export interface BackupFacts {
  readonly revision: number
  /** Id of the key that seals its secrets; null: unknown or no secrets. */
  readonly sealKey: string | null
  readonly files: readonly BackupFile[]
}

/** Table for additional files in a backup; not a table of the store. */
const FILES = 'backup_files'
/** Tables about running processes, which are emptied in a backup. */
const OF_PROCESSES = ['processes', 'leases']

/**
 * Backs up the database `from` to `to` consistently, even while a process has it open. `to` is created or replaced atomically; a pipe or
 * device receives the bytes. Fails with a `StoreError`.
 */
export function backUpSqlite(from: string, to: string, files: readonly BackupFile[]): BackupFacts {
  return withFileErrors(to, () => {
    const place = writtenFile(to)
    const partial = partialFor(place.kind === 'other' ? join(tmpdir(), 'sluice-backup') : place.path)
    try {
      copyFrom(from, partial)
      if (files.length > 0) addFiles(partial, files)
      const facts = checkBackup(partial, from)
      if (place.mode !== undefined) chmodSync(partial, place.mode)
      take(partial, place)
      return facts
    } catch (error) {
      const failure = failureOf(error)
      // The unreadable file is the store, not the backup.
      throw error instanceof StoreError || !DAMAGE.test(failure.code) ? error : errorOf(from, failure)
    } finally {
      rmSync(partial, { force: true })
    }
  })
}

/** Bytes per read. */
const PIECE = 1024 * 1024

const DAMAGE = /^SQLITE_(CORRUPT|NOTADB)/

const NO_FAILURE = { code: '' }

/** Returns the error of reading a database's first page. */
function unreadable(path: string): { readonly code: string } {
  try {
    const database = openToRead(path)
    try {
      database.prepare('select count(*) from sqlite_master').all([])
      return NO_FAILURE
    } finally {
      database.close()
    }
  } catch (error) {
    return failureOf(error)
  }
}

/**
 * Checks a backup and returns its facts. `name` is used in errors. Fails with a `StoreError` if it is damaged, not a backup or of a newer
 * version.
 */
export function checkBackup(path: string, name = path): BackupFacts {
  return withFileErrors(name, () => {
    // For the store itself the name suffices; a backup has no backup of its own.
    const { code } = name === path ? unreadable(path) : NO_FAILURE
    if (DAMAGE.test(code)) {
      const message = `${name} is damaged, or no backup (${code}); name a file that "sluice backup" or GET /backup has written`
      throw new StoreError('STORE_FAILED', message)
    }
    const database = openToRead(path)
    try {
      const rows = database.pragma('integrity_check') as { readonly integrity_check: string }[]
      const damage = rows.find(({ integrity_check }) => integrity_check !== 'ok')
      if (damage !== undefined) throw new StoreError('STORE_FAILED', `${name} is damaged: ${damage.integrity_check}`)
      if (!hasTable(database, 'meta') || !hasTable(database, 'records')) {
        throw new StoreError('STORE_FAILED', `${name} holds no records of Sluice`)
      }
      type Meta = { readonly revision: number; readonly schema_version: number; readonly seal_key?: string | null }
      const [meta] = database.prepare('select * from meta').all([]) as Meta[]
      if (meta === undefined) throw new StoreError('STORE_FAILED', `${name} holds no records of Sluice`)
      if (meta.schema_version > SCHEMA_VERSION) throw newerSchema(name, meta.schema_version)
      return { revision: meta.revision, sealKey: meta.seal_key ?? null, files: filesIn(database) }
    } finally {
      database.close()
    }
  })
}

/** Runs `run` while no process has or can open the database `path`; creates its folder if missing. Fails with `STORE_LOCKED`. */
export async function whileUnused<T>(path: string, run: () => Promise<T>): Promise<T> {
  makeFolder(dirname(path))
  const lock = withFileErrors(path, () => lockSqlite(path))
  try {
    return await run()
  } finally {
    lock.release()
  }
}

/** Replaces `path` with a backup's database atomically. No process may have `path` open (`whileUnused`). Fails with a `StoreError`. */
export function restoreSqlite(backup: string, path: string): void {
  withFileErrors(path, () => {
    const place = writtenFile(path)
    const real = place.path
    const partial = partialFor(real)
    try {
      copyFrom(backup, partial)
      const database = openDatabase(partial)
      try {
        database.pragma('foreign_keys = ON')
        database.exec(`drop table if exists ${FILES}`)
        for (const table of OF_PROCESSES) if (hasTable(database, table)) database.exec(`delete from ${table}`)
        database.exec('vacuum')
      } finally {
        database.close()
      }
      foldJournal(real)
      take(partial, place)
    } finally {
      rmSync(partial, { force: true })
    }
  })
}

/**
 * Replaces the store `path` with an earlier copy if its schema is newer than this version knows; otherwise does nothing. Fails with
 * `STORE_LOCKED`.
 */
export async function undoNewerSchema(path: string, copy: string): Promise<void> {
  await whileUnused(path, async () => {
    const isNewer = withFileErrors(path, () => {
      const database = openToRead(path)
      try {
        const rows = database.prepare('select schema_version as version from meta').all([])
        return (rows as { readonly version: number }[]).some(({ version }) => version > SCHEMA_VERSION)
      } finally {
        database.close()
      }
    })
    if (isNewer) restoreSqlite(copy, path)
  })
}

/** Merges the journal into the old file; it would damage the new file. */
function foldJournal(path: string): void {
  if (existsSync(path)) {
    try {
      const database = openDatabase(path)
      try {
        // The file then contains the journal: a crash before the replacement leaves a complete old file.
        const [done] = database.pragma('wal_checkpoint(TRUNCATE)') as { readonly busy: number }[]
        if (done?.busy === 1) throw new StoreError('STORE_UNAVAILABLE', `${path} is being read by another program`)
      } finally {
        database.close()
      }
    } catch (error) {
      if (error instanceof StoreError || codeOf(error)?.startsWith('SQLITE_BUSY') === true) throw error
      // A damaged file may be the reason for the replacement.
    }
  }
  for (const end of ['-wal', '-shm']) rmSync(`${path}${end}`, { force: true })
}

function copyFrom(from: string, to: string): void {
  const source = openToRead(from)
  try {
    copySqlite(source, to)
  } finally {
    source.close()
  }
}

/** Renames the file after a flush to disk, then flushes the folder. */
function take(partial: string, to: WrittenFile): void {
  if (to.kind === 'other') {
    writeInto(to.path, partial)
    return
  }
  keepOwner(partial, to)
  sync(partial)
  renameSync(partial, to.path)
  sync(dirname(to.path))
}

/** Writes the content of `from` into a pipe or device, whose reader may be slow. */
function writeInto(path: string, from: string): void {
  const [source, target] = [openSync(from, 'r'), openSync(path, constants.O_WRONLY | constants.O_NOCTTY)]
  try {
    const piece = Buffer.alloc(PIECE)
    for (let read = readSync(source, piece); read > 0; read = readSync(source, piece)) {
      for (let written = 0; written < read; ) written += writeSync(target, piece, written, read - written)
    }
  } finally {
    closeSync(source)
    closeSync(target)
  }
}

function sync(path: string): void {
  const handle = openSync(path, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

function addFiles(path: string, files: readonly BackupFile[]): void {
  const database = openDatabase(path)
  try {
    database.exec(`create table ${FILES} (name text primary key, content blob not null)`)
    const insert = database.prepare(`insert into ${FILES} values (?, ?)`)
    for (const { name, content } of files) insert.run([name, Buffer.from(content)])
  } finally {
    database.close()
  }
}

function filesIn(database: SqliteDatabase): BackupFile[] {
  if (!hasTable(database, FILES)) return []
  const rows = database.prepare(`select name, content from ${FILES} order by name`).all([])
  return (rows as { readonly name: string; readonly content: Uint8Array }[]).map(({ name, content }) => {
    return { name, content: Buffer.from(content) }
  })
}

function hasTable(database: SqliteDatabase, name: string): boolean {
  return database.prepare(`select 1 from sqlite_master where type = 'table' and name = ?`).all([name]).length > 0
}

function withFileErrors<T>(name: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw error instanceof StoreError ? error : errorOf(name, failureOf(error))
  }
}
