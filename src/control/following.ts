import { codeOf } from '../lib/coded-error.js'
import type { Store, StoreLog } from '../store/store.js'
import type { AppliedRevision } from './applied.js'
import type { ProcessReports } from './process-reports.js'
import type { Writer } from './writer.js'

/** Milliseconds before what failed is tried again. */
const RETRY = 500

export interface FollowingParts {
  readonly store: Store
  readonly writer: Writer
  readonly applied: AppliedRevision
  readonly reports: ProcessReports
  readonly log: StoreLog
}

/** Brings what other processes write to life. */
export class Following {
  #parts: FollowingParts | undefined
  #heard = 0
  #running: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined

  /** The store has this revision. Before `start` it is only remembered. */
  hear(revision: number): void {
    this.#heard = Math.max(this.#heard, revision)
    this.#run()
  }

  start(parts: FollowingParts): void {
    this.#parts = parts
    this.#run()
  }

  async stop(): Promise<void> {
    this.#parts = undefined
    clearTimeout(this.#retry)
    await this.#running
  }

  #run(): void {
    const parts = this.#parts
    const waiting = this.#running !== undefined || this.#retry !== undefined
    if (parts === undefined || waiting || this.#heard <= parts.applied.revision) return
    this.#running = this.#follow(parts).finally(() => {
      this.#running = undefined
      // A revision that was heard of at the very end.
      this.#run()
    })
  }

  async #follow({ store, writer, applied, reports, log }: FollowingParts): Promise<void> {
    const wanted = this.#heard
    try {
      await writer.alone(() => applied.follow(store))
      if (applied.revision < wanted) throw new RangeError(`the store does not have revision ${wanted}`)
      reports.soon()
    } catch (error) {
      applied.stuck(codeOf(error) ?? 'INTERNAL')
      log.warn({ err: error, revision: wanted }, 'cannot follow the store; trying again')
      this.#retry = setTimeout(() => {
        this.#retry = undefined
        this.#run()
      }, RETRY).unref()
    }
  }
}
