import { createRequire } from 'node:module'
import type Libsql from 'libsql'
import { StoreError } from './errors.js'

/** Loaded with the first database: a process whose store runs in another thread starts without it. */
let loaded: typeof Libsql | undefined

/** Fails with a StoreError `STORE_LIBRARY`. */
function driver(): typeof Libsql {
  try {
    loaded ??= createRequire(import.meta.url)('libsql') as typeof Libsql
    return loaded
  } catch (cause) {
    // Node lists the modules that asked for a missing one in further lines.
    const [reason] = (cause as Error).message.split('\n')
    throw new StoreError('STORE_LIBRARY', `the SQLite library cannot be loaded: ${reason}`, { cause })
  }
}

/** Connection to a SQLite file. */
export type SqliteDatabase = Libsql.Database
export type SqliteStatement = Libsql.Statement<unknown[]>

/** Opens a file, created if missing, or `:memory:`. Fails with an error that has a `code`, such as `SQLITE_CANTOPEN`. */
export function openDatabase(path: string): SqliteDatabase {
  try {
    return new (driver())(path)
  } catch (error) {
    // The driver's error has no code if the file cannot be opened at all.
    if ((error as { readonly code?: string }).code) throw error
    const { message } = error as Error
    throw Object.assign(new Error(message, { cause: error }), { code: 'SQLITE_CANTOPEN' })
  }
}

/** Opens an existing file read-only. */
export function openToRead(path: string): SqliteDatabase {
  return new (driver())(path, { readonly: true, fileMustExist: true })
}
