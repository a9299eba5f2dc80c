import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/coded-error.js'
import { FirstFailure } from '../lib/first-failure.js'
import { type Place, type Store, type StoreLog, samePlace } from '../store/store.js'
import type { AppliedRevision } from './applied.js'
import { Lag } from './lag.js'
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
  /** What was heard of and not looked at yet. */
  #heard: Place | undefined
  #running: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  readonly #lag: Lag
  readonly #failing = new FirstFailure()

  constructor(clock: Clock) {
    this.#lag = new Lag(clock)
  }

  /** By how many revisions this process is late. */
  get behind(): number {
    return this.#parts === undefined ? 0 : this.#lag.behind(this.#parts.applied.revision)
  }

  /** The last revision of the store is this one. Before `start` it is only remembered. */
  hear(place: Place): void {
    this.#heard = place
    this.#lag.hear(place.revision)
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
    const heard = this.#heard
    if (parts === undefined || heard === undefined || this.#running !== undefined || this.#retry !== undefined) return
    this.#heard = undefined
    if (samePlace(heard, parts.applied.place)) return
    this.#running = this.#follow(parts, heard).finally(() => {
      this.#running = undefined
      // A revision that was heard of at the very end.
      this.#run()
    })
  }

  async #follow({ store, writer, applied, reports, log }: FollowingParts, wanted: Place): Promise<void> {
    try {
      await writer.alone(() => applied.follow(store))
      reports.soon()
      this.#failing.passed()
    } catch (error) {
      applied.stuck(codeOf(error) ?? 'INTERNAL')
      this.#heard ??= wanted
      this.#failing.failed(() => {
        log.warn({ err: error, revision: wanted.revision }, 'cannot follow the store; trying again')
      })
      this.#retry = setTimeout(() => {
        this.#retry = undefined
        this.#run()
      }, RETRY).unref()
    }
  }
}
