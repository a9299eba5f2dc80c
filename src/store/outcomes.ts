import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../lib/clock.js'
import { StoreError } from './errors.js'
import type { StoreLog } from './store.js'
import type { Database } from './tables.js'

/** Longer than PostgreSQL lets a transaction without a client stand, so that the last attempt finds it ended. */
const PATIENCE_MILLISECONDS = 20_000
const PAUSE_MILLISECONDS = 250
/** Ends the wait under a clock that stands still, too. */
const ATTEMPTS = PATIENCE_MILLISECONDS / PAUSE_MILLISECONDS

/** Finds out what became of a commit whose answer was lost. */
export class Outcomes {
  readonly #database: Database
  readonly #log: StoreLog
  readonly #clock: Clock

  constructor(database: Database, log: StoreLog, clock: Clock) {
    this.#database = database
    this.#log = log
    this.#clock = clock
  }

  /**
   * Whether the operation was committed. Asks again while the database is out of reach; fails with
   * `STORE_OUTCOME_UNKNOWN` when it stays so.
   */
  async landed(operationId: string, cause: unknown): Promise<boolean> {
    this.#log.warn({ err: cause, store: this.#database.name, operationId }, 'a commit was not answered; looking it up')
    let last: unknown = cause
    const end = this.#clock.monotonic() + PATIENCE_MILLISECONDS
    for (let attempt = 0; attempt < ATTEMPTS && this.#clock.monotonic() < end; attempt++) {
      if (attempt > 0) await sleep(PAUSE_MILLISECONDS)
      try {
        return await this.#lookUp(operationId)
      } catch (error) {
        last = error
      }
    }
    const message = `${this.#database.name} went away during a commit and cannot be asked what became of it`
    throw new StoreError('STORE_OUTCOME_UNKNOWN', message, { cause: last })
  }

  async #lookUp(operationId: string): Promise<boolean> {
    return await this.#database.writes.transaction().execute(async (trx) => {
      // The server may still be committing: the writer's lock is free only once that has ended, one way or the other.
      await trx
        .updateTable('meta')
        .set((eb) => ({ sequence: eb.ref('sequence') }))
        .execute()
      const query = trx.selectFrom('revisions').select('revision').where('operation_id', '=', operationId)
      return (await query.executeTakeFirst()) !== undefined
    })
  }
}
