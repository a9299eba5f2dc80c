import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { ControlError, controlErrors, orUnavailable } from '../../control/errors.js'
import { Mutex } from '../../lib/concurrency.js'
import { partialFor } from '../../lib/files.js'
import { StoreError } from '../../store/errors.js'
import type { Store } from '../../store/store.js'

export interface Backup {
  /** File positioned at its start; already unlinked, so that closing frees it. */
  readonly file: FileHandle
  readonly bytes: number
}

/** Consistent copies of the store, one at a time. */
export class Backups {
  readonly #store: Store
  readonly #folder: string
  readonly #mutex = new Mutex()

  /** `folder`: location of temporary copies. */
  constructor(store: Store, folder: string) {
    this.#store = store
    this.#folder = folder
  }

  /** Fails with a ControlError: `BACKUP_UNSUPPORTED` on PostgreSQL, `UNAVAILABLE`. */
  async make(): Promise<Backup> {
    return await orUnavailable(this.#mutex.run(() => this.#make())).catch((error: unknown) => {
      if (!(error instanceof StoreError) || error.code !== 'STORE_NO_COPY') throw error
      const message =
        'the store is PostgreSQL: pg_dump makes a backup of it, and "sluice export" a document of the account'
      throw new ControlError(controlErrors.BACKUP_UNSUPPORTED, message, { cause: error })
    })
  }

  async #make(): Promise<Backup> {
    const path = partialFor(join(this.#folder, 'backup'))
    await this.#store.copyTo(path)
    const file = await open(path)
    try {
      // Unlink immediately, so that nothing remains on disk if the client fails.
      await unlink(path)
      return { file, bytes: (await file.stat()).size }
    } catch (error) {
      await file.close()
      throw error
    }
  }
}
