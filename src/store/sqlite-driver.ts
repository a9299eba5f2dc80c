import Libsql from 'libsql'

/** One connection to a SQLite file. */
export type SqliteDatabase = Libsql.Database
export type SqliteStatement = Libsql.Statement<unknown[]>

/** Opens a file, which is made when it is missing, or `:memory:`. Fails with an error that has a `code`, such as `SQLITE_CANTOPEN`. */
export function openDatabase(path: string): SqliteDatabase {
  return new Libsql(path)
}

/** Opens a file that is there, and changes nothing in it. */
export function openToRead(path: string): SqliteDatabase {
  return new Libsql(path, { readonly: true, fileMustExist: true })
}
