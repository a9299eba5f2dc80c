import { createRequire } from 'node:module'
import type Libsql from 'libsql'

/** Loaded for the first database: a process that has its store in a thread of its own starts without it. */
let loaded: typeof Libsql | undefined

function driver(): typeof Libsql {
  loaded ??= createRequire(import.meta.url)('libsql') as typeof Libsql
  return loaded
}

/** One connection to a SQLite file. */
export type SqliteDatabase = Libsql.Database
export type SqliteStatement = Libsql.Statement<unknown[]>

/** Opens a file, which is made when it is missing, or `:memory:`. Fails with an error that has a `code`, such as `SQLITE_CANTOPEN`. */
export function openDatabase(path: string): SqliteDatabase {
  try {
    return new (driver())(path)
  } catch (error) {
    // The driver's error has no code when the file cannot be opened at all.
    if ((error as { readonly code?: string }).code) throw error
    const { message } = error as Error
    throw Object.assign(new Error(message, { cause: error }), { code: 'SQLITE_CANTOPEN' })
  }
}

/** Opens a file that is there, and changes nothing in it. */
export function openToRead(path: string): SqliteDatabase {
  return new (driver())(path, { readonly: true, fileMustExist: true })
}
