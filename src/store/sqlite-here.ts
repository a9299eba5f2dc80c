import { errorOf, failureOf } from './sqlite-failure.js'
import { SqliteFile } from './sqlite-file.js'
import type { SqliteCommand, SqliteExecutor, SqliteResult } from './sqlite-protocol.js'
import { StoreError } from './store-error.js'

/** SQLite on the calling thread: for memory, where no disk can hold up the loop. */
export class SqliteHere implements SqliteExecutor {
  readonly #name: string
  readonly #file: SqliteFile
  #closed = false

  private constructor(name: string, file: SqliteFile) {
    this.#name = name
    this.#file = file
  }

  /** Fails as the store thread does. */
  static open(path: string): SqliteHere {
    try {
      return new SqliteHere(path, SqliteFile.open(path))
    } catch (error) {
      throw errorOf(path, failureOf(error))
    }
  }

  async execute(command: SqliteCommand): Promise<SqliteResult> {
    if (this.#closed) throw new StoreError('STORE_CLOSED', `${this.#name} is closed`)
    try {
      return this.#file.execute(command)
    } catch (error) {
      throw errorOf(this.#name, failureOf(error))
    }
  }

  async copy(to: string): Promise<void> {
    if (this.#closed) throw new StoreError('STORE_CLOSED', `${this.#name} is closed`)
    try {
      this.#file.copy(to)
    } catch (error) {
      throw errorOf(to, failureOf(error))
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    await this.execute({ type: 'close' })
    this.#closed = true
  }
}
