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

/** What one look may add to a silence: while the store was out of reach no process could report, and none has ended because of it. Milliseconds. */
const MOST_STEP = 2_000

/**
 * How long the processes on a store have been silent, as far as this one has watched. A heartbeat is a report that differs
 * from the one before; its time is that of another machine and is compared with no clock.
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

  /** Takes what all processes have reported last. */
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
   * When this process noticed the last heartbeat of that one, by its own clock; of one that was silent from the beginning: when it looked
   * first. Milliseconds since the Unix epoch.
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

/**
 * What lives in a process that has said nothing for so long is not shown; several reports may be late or lost before. Milliseconds.
 */
const SILENT_AFTER = 8_000
/** After so long its report goes, with everything that hangs on it. Milliseconds. */
const GONE_AFTER = 60_000
/** So long, and so many of them, those who have watched a process show when it went. Milliseconds. */
const GONE = { keep: 900_000, most: 100 }

interface ProcessReportsParts {
  readonly store: Store
  readonly applied: AppliedRevision
  readonly clock: Clock
  readonly log: StoreLog
  /** Milliseconds; undefined: no other process reads it. */
  readonly every: number | undefined
}

/** The last report of a process that is gone. */
interface Gone {
  readonly report: ProcessReport
  /** By the clock of this process, milliseconds since the Unix epoch. */
  readonly since: number
  /** Monotonic milliseconds. */
  readonly until: number
}

/** Reports to the other processes on the store which revision this one has applied. */
export class ProcessReports {
  /** Of this process. */
  readonly id: string
  readonly #parts: ProcessReportsParts
  #timer: NodeJS.Timeout | undefined
  readonly #reporting = new Coalescer(() => this.#report())
  readonly #signs: Heartbeats
  /** Processes whose reports have left the store. */
  readonly #gone = new Map<string, Gone>()
  readonly #failing = new FirstFailure()
  #reported: (answer: Reported) => void = () => undefined

  constructor(parts: ProcessReportsParts) {
    this.#parts = parts
    this.#signs = new Heartbeats(parts.clock)
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

  /** From now on `reported` is called with the answer of the store to each report; it must not throw. There is one listener. */
  watch(reported: (answer: Reported) => void): void {
    this.#reported = reported
  }

  /** Reports in the background; at most one report is under way. */
  soon(): void {
    if (this.#parts.every === undefined) return
    this.#reporting.ask()
  }

  /** All processes that live, this one included, and for a while those that are gone. */
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

  /** Those that are gone leave the store with everything that hangs on their reports; only this process remembers them. */
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

  /** This process lives, whatever its own reports say. */
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
