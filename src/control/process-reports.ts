import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import { timestampText } from '../resources/field.js'
import type { Store, StoreLog } from '../store/store.js'
import type { AppliedRevision } from './applied.js'
import type { ProcessState } from './calls.js'

/** A process that has said nothing for so long is gone. Milliseconds. */
const GONE_AFTER = 60_000

export interface ProcessReportsParts {
  readonly store: Store
  readonly applied: AppliedRevision
  readonly clock: Clock
  readonly log: StoreLog
  /** Milliseconds; undefined: nobody else is there to read. */
  readonly every: number | undefined
}

/** Tells the other processes on the store how far this one is. */
export class ProcessReports {
  readonly #parts: ProcessReportsParts
  readonly #id: string
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  #again = false

  constructor(parts: ProcessReportsParts) {
    this.#parts = parts
    this.#id = newId('proc', parts.clock.wall())
    if (parts.every !== undefined) this.#timer = setInterval(() => this.soon(), parts.every).unref()
  }

  /** Reports without anybody waiting; at most one report is under way. */
  soon(): void {
    if (this.#parts.every === undefined) return
    if (this.#writing !== undefined) {
      this.#again = true
      return
    }
    this.#writing = this.#report().finally(() => {
      this.#writing = undefined
      if (!this.#again) return
      this.#again = false
      this.soon()
    })
  }

  /** All processes that live, this one included. */
  async list(): Promise<ProcessState[]> {
    const { store, clock } = this.#parts
    await this.#write()
    const all = await store.processes()
    return all
      .filter(({ seenAt }) => seenAt >= clock.wall() - GONE_AFTER)
      .map(({ seenAt, ...report }) => ({ ...report, seenAt: timestampText(seenAt), self: report.id === this.#id }))
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#again = false
    await this.#writing
  }

  async #report(): Promise<void> {
    try {
      await this.#write()
      await this.#parts.store.forgetProcesses(this.#parts.clock.wall() - GONE_AFTER)
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'cannot tell the other processes how far this one is')
    }
  }

  async #write(): Promise<void> {
    const { store, applied } = this.#parts
    await store.reportProcess({ id: this.#id, appliedRevision: applied.revision, lastError: applied.error })
  }
}
