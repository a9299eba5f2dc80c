/** What the main thread and the store thread say to each other. Everything here can be cloned between threads. */

/** The writer is the only connection that changes anything; the reader never waits for it. */
export type Channel = 'writer' | 'reader'

export type SqliteValue = null | number | string | Uint8Array | ArrayBuffer

export type SqliteCommand =
  | { readonly type: 'begin' | 'commit' | 'rollback' }
  | { readonly type: 'query'; readonly channel: Channel; readonly sql: string; readonly parameters: readonly unknown[] }
  | { readonly type: 'close' }

export interface SqliteRequest {
  readonly number: number
  readonly command: SqliteCommand
}

export interface SqliteResult {
  readonly rows: readonly Readonly<Record<string, SqliteValue>>[]
  /** Rows that a statement without an answer has changed. */
  readonly changes: number | null
}

/** Where commands run: in the store thread, or here. Fails with `StoreError`. */
export interface SqliteExecutor {
  execute(command: SqliteCommand): Promise<SqliteResult>
  /** Writes what is committed, as of one moment, into a new file that only this user reads. */
  copy(to: string): Promise<void>
  /** Resolves once the file is closed and its lock free. */
  close(): Promise<void>
  /** Absent: no other process can use what it has open. */
  readonly away?: SqliteAway
}

/** Lets another process have the file for a while. */
export interface SqliteAway {
  /** Resolves once the file is closed and its lock free. Commands wait from then on, and fail when it is closed instead. */
  give(): Promise<void>
  /** Opens the file again. Fails as the first opening does, and then the file is away as before. */
  take(): Promise<void>
}

/** An error as data: an `Error` loses its code between threads. */
export interface SqliteFailure {
  /** Of SQLite (`SQLITE_FULL`), of the system (`EACCES`) or one of `StoreErrorCode`. */
  readonly code: string
  readonly message: string
}

export type SqliteReply =
  | { readonly number: number; readonly result: SqliteResult }
  | { readonly number: number; readonly failure: SqliteFailure }

/** The first message of the thread: whether the file could be opened. */
export type SqliteOpening = { readonly opened: true } | { readonly opened: false; readonly failure: SqliteFailure }

export interface SqliteThreadData {
  /** A file, or `:memory:`. */
  readonly path: string
}

/** What the thread that copies a file is to do; its one message is a `SqliteOpening`. */
export interface SqliteCopyData {
  readonly from: string
  readonly to: string
}

/** The path that SQLite takes for a database in memory. */
export const IN_MEMORY = ':memory:'
