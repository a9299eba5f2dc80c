import Libsql from 'libsql'

/** One connection to a SQLite file. */
export type SqliteDatabase = Libsql.Database
export type SqliteStatement = Libsql.Statement<unknown[]>

/** Opens a file, which is made when it is missing, or `:memory:`. Fails with an error that has a `code`, such as `SQLITE_CANTOPEN`. */
export function openDatabase(path: string): SqliteDatabase {
  try {
    return new Libsql(path)
  } catch (error) {
    // The driver's error has no code when the file cannot be opened at all.
    if ((error as { readonly code?: string }).code) throw error
    const { message } = error as Error
    throw Object.assign(new Error(message, { cause: error }), { code: 'SQLITE_CANTOPEN' })
  }
}

/** Opens a file that is there, and changes nothing in it. */
export function openToRead(path: string): SqliteDatabase {
  return new Libsql(path, { readonly: true, fileMustExist: true })
}
