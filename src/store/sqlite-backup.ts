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

/** A file that a backup takes along. */
export interface BackupFile {
  /** Its place in the data folder. */
  readonly name: string
  readonly content: Uint8Array
}

/** What a backup says of itself. */
export interface BackupFacts {
  readonly revision: number
  /** Id of the key that its secrets are sealed by; null: it is not known, or there are none. */
  readonly sealKey: string | null
  readonly files: readonly BackupFile[]
}

/** Where a backup keeps the files beside the database. No table of the store. */
const FILES = 'backup_files'
/** Tables about running processes; in a backup their rows would only be wrong. */
const OF_PROCESSES = ['processes', 'leases']

/**
 * Makes `to` a consistent backup of the database `from`, whether or not a process has it open. `to` appears as a whole or
 * not at all, and replaces the plain file that is there; a pipe or device gets its bytes. Fails with a `StoreError`.
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
      // What cannot be read is the store, not the file that is written.
      throw error instanceof StoreError || !DAMAGE.test(failure.code) ? error : errorOf(from, failure)
    } finally {
      rmSync(partial, { force: true })
    }
  })
}

/** Bytes that are read at once. */
const PIECE = 1024 * 1024

const DAMAGE = /^SQLITE_(CORRUPT|NOTADB)/

const NO_FAILURE = { code: '' }

/** How reading a database fails at its first page. */
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

/** What a backup holds. `name` is what it is called in errors. Fails with a `StoreError` when it is damaged, none, or of a newer version. */
export function checkBackup(path: string, name = path): BackupFacts {
  return withFileErrors(name, () => {
    // The store itself is known by its name; a backup has no backup of its own.
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

/**
 * Runs `run` while no process has or gets the database `path`, whose folder is made when it is missing. Fails with
 * `STORE_LOCKED`.
 */
export async function whileUnused<T>(path: string, run: () => Promise<T>): Promise<T> {
  makeFolder(dirname(path))
  const lock = withFileErrors(path, () => lockSqlite(path))
  try {
    return await run()
  } finally {
    lock.release()
  }
}

/**
 * Puts the database of a backup in the place of `path`, as a whole. No process may have `path` open (`whileUnused`). Fails with a
 * `StoreError`.
 */
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
 * Puts a copy from before in the place of the store `path` when that has a schema which only a newer version knows; otherwise nothing
 * changes. Fails with `STORE_LOCKED`.
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

/** A journal belongs to the file that goes; beside the one that comes it would damage it. */
function foldJournal(path: string): void {
  if (existsSync(path)) {
    try {
      const database = openDatabase(path)
      try {
        // What the journal holds is then in the file: a crash before the new one comes leaves the old one whole.
        const [done] = database.pragma('wal_checkpoint(TRUNCATE)') as { readonly busy: number }[]
        if (done?.busy === 1) throw new StoreError('STORE_UNAVAILABLE', `${path} is being read by another program`)
      } finally {
        database.close()
      }
    } catch (error) {
      if (error instanceof StoreError || codeOf(error)?.startsWith('SQLITE_BUSY') === true) throw error
      // It is damaged, which may be why it is replaced.
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

/** The file gets its name once it is on the disk, and the name is then there too. */
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

/** Writes what `from` holds into what is no plain file, whose reader may be slow. */
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
