import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import { Rerun } from '../lib/rerun.js'
import { timestampText } from '../resources/field.js'
import type { ProcessReport, Reported, Store, StoreLog } from '../store/store.js'
import type { AppliedRevision } from './applied.js'
import type { ProcessState } from './calls.js'
import { type Sign, SignsOfLife } from './signs-of-life.js'

/**
 * What lives in a process that has said nothing for so long is not shown; several reports may be late or lost before. Milliseconds.
 */
const SILENT_AFTER = 8_000
/** After so long its report goes, with everything that hangs on it. Milliseconds. */
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
  readonly #signs: SignsOfLife
  #reported: (said: Reported) => void = () => undefined

  constructor(parts: ProcessReportsParts) {
    this.#parts = parts
    this.#signs = new SignsOfLife(parts.clock)
    this.id = newId('proc', parts.clock.wall())
    if (parts.every !== undefined) this.#timer = setInterval(() => this.soon(), parts.every).unref()
  }

  /** Are there other processes that may read the reports? */
  get shared(): boolean {
    return this.#parts.every !== undefined
  }

  /** Processes of which nothing is to be shown beside what this one has in memory: those that have fallen silent, and itself. */
  get hidden(): readonly string[] {
    return [this.id, ...this.#silentFor(SILENT_AFTER).map(({ id }) => id)]
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
    const all = await this.#look()
    const gone = new Set(this.#silentFor(GONE_AFTER).map(({ id }) => id))
    return all
      .filter(({ id }) => !gone.has(id))
      .map(({ seenAt, divergedAt, ...report }) => ({
        ...report,
        divergedAt: divergedAt === null ? null : timestampText(divergedAt),
        seenAt: timestampText(seenAt),
        self: report.id === this.id
      }))
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#timer = undefined
    await this.#reporting.settle()
  }

  async #report(): Promise<void> {
    try {
      await this.#write()
      await this.#look()
      const gone = this.#silentFor(GONE_AFTER)
      if (gone.length > 0) await this.#parts.store.forgetProcesses(gone)
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'cannot tell the other processes how far this one is')
    }
  }

  async #look(): Promise<ProcessReport[]> {
    const all = await this.#parts.store.processes()
    this.#signs.look(all)
    return all
  }

  /** This process lives, whatever its own reports say. */
  #silentFor(milliseconds: number): Sign[] {
    return this.#signs.silentFor(milliseconds).filter(({ id }) => id !== this.id)
  }

  async #write(): Promise<void> {
    const { store, applied } = this.#parts
    const report = {
      id: this.id,
      appliedRevision: applied.revision,
      lastError: applied.error,
      divergedAt: applied.divergedAt
    }
    this.#reported(await store.reportProcess(report))
  }
}
