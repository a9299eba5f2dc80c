import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import { Rerun } from '../lib/rerun.js'
import { timestampText } from '../resources/field.js'
import type { Reported, Store, StoreLog } from '../store/store.js'
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
  /** Of this process. */
  readonly id: string
  readonly #parts: ProcessReportsParts
  #timer: NodeJS.Timeout | undefined
  readonly #reporting = new Rerun(() => this.#report())
  #reported: (said: Reported) => void = () => undefined

  constructor(parts: ProcessReportsParts) {
    this.#parts = parts
    this.id = newId('proc', parts.clock.wall())
    if (parts.every !== undefined) this.#timer = setInterval(() => this.soon(), parts.every).unref()
  }

  /** Are there other processes that may read the reports? */
  get shared(): boolean {
    return this.#parts.every !== undefined
  }

  /** Processes whose last report is older are gone. Milliseconds since the Unix epoch. */
  get aliveSince(): number {
    return this.#parts.clock.wall() - GONE_AFTER
  }

  /** From now on `reported` hears what the store says to each report; it must not throw. There is one listener. */
  watch(reported: (said: Reported) => void): void {
    this.#reported = reported
  }

  /** Reports without anybody waiting; at most one report is under way. */
  soon(): void {
    if (this.#parts.every === undefined) return
    this.#reporting.ask()
  }

  /** All processes that live, this one included. */
  async list(): Promise<ProcessState[]> {
    await this.#write()
    const all = await this.#parts.store.processes()
    return all
      .filter(({ seenAt }) => seenAt >= this.aliveSince)
      .map(({ seenAt, ...report }) => ({ ...report, seenAt: timestampText(seenAt), self: report.id === this.id }))
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#timer = undefined
    await this.#reporting.settle()
  }

  async #report(): Promise<void> {
    try {
      await this.#write()
      await this.#parts.store.forgetProcesses(this.aliveSince)
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'cannot tell the other processes how far this one is')
    }
  }

  async #write(): Promise<void> {
    const { store, applied } = this.#parts
    const report = { id: this.id, appliedRevision: applied.revision, lastError: applied.error }
    this.#reported(await store.reportProcess(report))
  }
}
