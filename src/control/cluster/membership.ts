import type { Clock } from '../../lib/clock.js'
import { Coalescer, FirstFailure } from '../../lib/concurrency.js'
import { newId } from '../../lib/id.js'
import { timestampText } from '../../lib/json.js'
import type { ProcessReport, Reported } from '../../store/board.js'
import type { Store, StoreLog } from '../../store/store.js'
import type { AppliedRevision } from '../applied.js'
import type { ProcessState } from '../calls.js'

/** A report, as far as it shows that the process lives. */
export type Heartbeat = Pick<ProcessReport, 'id' | 'seenAt'>

/** Maximum time that one check adds to a silence: during an outage of the store, processes cannot report, but have not ended (ms). */
const MOST_STEP = 2_000

/**
 * Durations for which the processes on a store have been silent, as observed by this one. A heartbeat is a report that
 * differs from the previous one; its time comes from another machine and is compared with no clock.
 */
export class Heartbeats {
  readonly #clock: Clock
  #silences: ReadonlyMap<
    string,
    { readonly sign: Heartbeat; readonly silence: number; readonly lastHeartbeatAt: number }
  > = new Map()
  #lookedAt: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Records the last reports of all processes. */
  look(signs: readonly Heartbeat[]): void {
    const now = this.#clock.monotonic()
    const step = Math.min(MOST_STEP, now - (this.#lookedAt ?? now))
    this.#lookedAt = now
    const former = this.#silences
    this.#silences = new Map(
      signs.map(({ id, seenAt }) => {
        const known = former.get(id)
        const same = known?.sign.seenAt === seenAt
        const silence = same ? known.silence + step : 0
        return [
          id,
          { sign: { id, seenAt }, silence, lastHeartbeatAt: same ? known.lastHeartbeatAt : this.#clock.wall() }
        ]
      })
    )
  }

  /**
   * Returns the time when this process noticed the other's last heartbeat, by its own clock; without a heartbeat, the time
   * of the first check. Milliseconds since the Unix epoch.
   */
  lastHeartbeatAt(id: string): number | undefined {
    return this.#silences.get(id)?.lastHeartbeatAt
  }

  /** The last heartbeats of those that have been silent for longer than this. Milliseconds. */
  silentFor(milliseconds: number): readonly Heartbeat[] {
    const silent: Heartbeat[] = []
    for (const { sign, silence } of this.#silences.values()) if (silence > milliseconds) silent.push(sign)
    return silent
  }
}

/** Silence after which the live entries of a process are hidden; several reports may be late or lost before (ms). */
const SILENT_AFTER = 8_000
/** Silence after which its report and all dependent entries are deleted (ms). */
const GONE_AFTER = 60_000
/** Time and number for which ended processes are shown by those that have observed them (ms). */
const GONE = { keep: 900_000, most: 100 }

interface ProcessReportsParts {
  readonly store: Store
  readonly applied: AppliedRevision
  readonly clock: Clock
  readonly log: StoreLog
  /** Interval of reports (ms); undefined if no other process reads them. */
  readonly every: number | undefined
}

/** The last report of an ended process. */
interface Gone {
  readonly report: ProcessReport
  /** By the clock of this process, milliseconds since the Unix epoch. */
  readonly since: number
  /** Monotonic milliseconds. */
  readonly until: number
}

/** Reports to the other processes on the store which revision this one has applied. */
export class ProcessReports {
  /** Id of this process. */
  readonly id: string
  readonly #parts: ProcessReportsParts
  #timer: NodeJS.Timeout | undefined
  readonly #reporting = new Coalescer(() => this.#report())
  readonly #signs: Heartbeats
  /** Processes whose reports were deleted from the store. */
  readonly #gone = new Map<string, Gone>()
  readonly #failing = new FirstFailure()
  #reported: (answer: Reported) => void = () => undefined

  constructor(parts: ProcessReportsParts) {
    this.#parts = parts
    this.#signs = new Heartbeats(parts.clock)
    this.id = newId('proc', parts.clock.wall())
    if (parts.every !== undefined) this.#timer = setInterval(() => this.soon(), parts.every).unref()
  }

  /** Can other processes read the reports? */
  get shared(): boolean {
    return this.#parts.every !== undefined
  }

  /** Processes whose live entries are hidden beside those in memory: silent ones, and this one. */
  get hidden(): readonly string[] {
    return [this.id, ...this.#silentFor(SILENT_AFTER).map(({ id }) => id)]
  }

  /** Sets the only listener, which is called with the store's response to each report; it must not throw. */
  watch(reported: (answer: Reported) => void): void {
    this.#reported = reported
  }

  /** Reports in the background; at most one report is under way. */
  soon(): void {
    if (this.#parts.every === undefined) return
    this.#reporting.ask()
  }

  /** Returns all running processes, including this one, and for a while ended ones. */
  async list(): Promise<Omit<ProcessState, 'workers' | 'numbers'>[]> {
    await this.#write()
    const all = await this.#look()
    // A store that belongs to one process has reports of its predecessors at most.
    const silent = new Set(this.shared ? this.#silentFor(SILENT_AFTER).map(({ id }) => id) : all.map(({ id }) => id))
    silent.delete(this.id)
    const known = all.map((report) =>
      this.#state(report, silent.has(report.id) ? this.#lastHeartbeatAt(report.id) : null)
    )
    return [...known, ...[...this.#gone.values()].map(({ report, since }) => this.#state(report, since))]
  }

  /** Takes the report of this process back: it ends, and is not missed. After `stop`. */
  async leave(): Promise<void> {
    if (!this.shared) return
    try {
      const own = (await this.#parts.store.processes()).filter(({ id }) => id === this.id)
      await this.#parts.store.forgetProcesses(own)
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'the other processes will show this one as gone: its report stays behind')
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#timer = undefined
    await this.#reporting.settle()
  }

  async #report(): Promise<void> {
    try {
      await this.#write()
      const all = await this.#look()
      await this.#forget(all)
      this.#failing.passed()
    } catch (error) {
      const { log } = this.#parts
      this.#failing.failed(() => log.warn({ err: error }, 'cannot tell the other processes how far this one is'))
    }
  }

  async #look(): Promise<ProcessReport[]> {
    const all = await this.#parts.store.processes()
    this.#signs.look(all)
    const now = this.#parts.clock.monotonic()
    for (const { id } of all) this.#gone.delete(id)
    for (const [id, { until }] of this.#gone) if (until < now) this.#gone.delete(id)
    return all
  }

  /** Deletes ended processes with all dependent entries from the store; only this process remembers them. */
  async #forget(all: readonly ProcessReport[]): Promise<void> {
    const signs = this.#silentFor(GONE_AFTER)
    if (signs.length === 0) return
    await this.#parts.store.forgetProcesses(signs)
    const until = this.#parts.clock.monotonic() + GONE.keep
    const ids = new Set(signs.map(({ id }) => id))
    for (const report of all) {
      if (ids.has(report.id)) this.#gone.set(report.id, { report, since: this.#lastHeartbeatAt(report.id), until })
    }
    for (const id of this.#gone.keys()) if (this.#gone.size > GONE.most) this.#gone.delete(id)
  }

  #lastHeartbeatAt(id: string): number {
    return this.#signs.lastHeartbeatAt(id) ?? this.#parts.clock.wall()
  }

  #state(
    { seenAt, divergedAt, ...report }: ProcessReport,
    goneSince: number | null
  ): Omit<ProcessState, 'workers' | 'numbers'> {
    return {
      ...report,
      divergedAt: divergedAt === null ? null : timestampText(divergedAt),
      seenAt: timestampText(seenAt),
      goneSince: goneSince === null ? null : timestampText(goneSince),
      self: report.id === this.id
    }
  }

  /** This process runs, regardless of its reports. */
  #silentFor(milliseconds: number): Heartbeat[] {
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
