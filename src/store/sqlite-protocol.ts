/** Messages between the main thread and the store thread. All of them can be cloned. */

/** Only the writer's connection changes data; the reader never waits for it. */
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
  /** Rows changed by a statement without a result. */
  readonly changes: number | null
}

/** Executes commands in the store thread or in this one. Fails with `StoreError`. */
export interface SqliteExecutor {
  execute(command: SqliteCommand): Promise<SqliteResult>
  /** Writes a snapshot of the committed data into a new file that only this user can read. */
  copy(to: string): Promise<void>
  /** Resolves once the file is closed and unlocked. */
  close(): Promise<void>
  /** @default other processes cannot use the file */
  readonly away?: SqliteAway
}

/** Lends the file to another process. */
export interface SqliteAway {
  /** Resolves once the file is closed and unlocked. Later commands wait, and fail if it is closed instead of reopened. */
  give(): Promise<void>
  /** Reopens the file. Fails as the first opening does; the file then stays lent. */
  take(): Promise<void>
}

/** Error as data, because an `Error` loses its code between threads. */
export interface SqliteFailure {
  /** Code of SQLite (`SQLITE_FULL`), of the system (`EACCES`) or one of `StoreErrorCode`. */
  readonly code: string
  readonly message: string
}

export type SqliteReply =
  | { readonly number: number; readonly result: SqliteResult }
  | { readonly number: number; readonly failure: SqliteFailure }

/** First message of the thread: result of opening the file. */
export type SqliteOpening = { readonly opened: true } | { readonly opened: false; readonly failure: SqliteFailure }

export interface SqliteThreadData {
  /** File path or `:memory:`. */
  readonly path: string
}

/** Input of the copying thread; its only message is a `SqliteOpening`. */
export interface SqliteCopyData {
  readonly from: string
  readonly to: string
}

/** SQLite's path of an in-memory database. */
export const IN_MEMORY = ':memory:'
