import type { Clock } from '../lib/clock.js'
import { FirstFailure } from '../lib/concurrency.js'
import { codeOf } from '../lib/errors.js'
import type { SnapshotHolder } from '../runtime/snapshot.js'
import { type Place, type Store, type StoreLog, samePlace } from '../store/store.js'
import type { AppliedRevision } from './applied.js'
import type { Applied, Live, WholeOwn } from './apply.js'
import type { ProcessNumbers, ProcessState, WorkerState } from './calls.js'
import type { ProcessReports } from './cluster/membership.js'
import { clashesWithStore, type DeclaredRecords } from './declared-records.js'
import { orUnavailable } from './errors.js'
import type { Writer } from './writer.js'

/** Time after which an unapplied revision is late; usually it is applied within a second (ms). */
const LATE_AFTER = 2_000

interface SeenRevision {
  readonly revision: number
  /** Monotonic milliseconds. */
  readonly at: number
}

/** The last revision of a store, as the store reports it to this process, and how late this process is in applying it. */
export class LatestRevision {
  readonly #clock: Clock
  #place: Place | undefined
  #oldest: SeenRevision | undefined
  #latest: SeenRevision = { revision: 0, at: 0 }
  readonly #watchers = new Set<() => void>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The last reported position; undefined if there is none. */
  get place(): Place | undefined {
    return this.#place
  }

  /** Records the store's last revision. A function, because it is the hook `onRevision` of `openStore`. */
  readonly report = (place: Place): void => {
    this.#place = place
    this.#latest = { revision: place.revision, at: this.#clock.monotonic() }
    if (this.#oldest === undefined || this.#oldest.revision > place.revision) this.#oldest = this.#latest
    for (const changed of this.#watchers) changed()
  }

  /** Calls `changed` for each report. Returns a function that unsubscribes it. */
  watch(changed: () => void): () => void {
    this.#watchers.add(changed)
    return () => void this.#watchers.delete(changed)
  }

  /** By how many revisions `applied` is behind; 0 while none of them is late. */
  behind(applied: number): number {
    if (this.#oldest !== undefined && this.#oldest.revision <= applied) {
      this.#oldest = this.#latest.revision > applied ? this.#latest : undefined
    }
    const late = this.#oldest !== undefined && this.#clock.monotonic() - this.#oldest.at > LATE_AFTER
    return late ? this.#latest.revision - applied : 0
  }
}

/** Milliseconds before a failed attempt to follow the store is repeated. */
const RETRY = 500

interface FollowerParts {
  readonly latest: LatestRevision
  readonly store: Store
  readonly writer: Writer
  readonly applied: AppliedRevision
  readonly reports: ProcessReports
  readonly log: StoreLog
}

/** Applies the revisions that other processes write, from its construction until `stop`. */
export class Follower {
  readonly #parts: FollowerParts
  readonly #unwatch: () => void
  readonly #failing = new FirstFailure()
  /** True if the last reported revision was not handled yet. */
  #pending = true
  #running: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #stopped = false

  constructor(parts: FollowerParts) {
    this.#parts = parts
    this.#unwatch = parts.latest.watch(() => {
      this.#pending = true
      this.#run()
    })
    this.#run()
  }

  /** Waits for an attempt that runs. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#unwatch()
    clearTimeout(this.#retry)
    await this.#running
  }

  #run(): void {
    const { latest, applied } = this.#parts
    const { place } = latest
    const idle = this.#running === undefined && this.#retry === undefined
    if (this.#stopped || !this.#pending || place === undefined || !idle) return
    this.#pending = false
    if (samePlace(place, applied.place)) return
    this.#running = this.#follow(place).finally(() => {
      this.#running = undefined
      // A revision that was reported at the very end.
      this.#run()
    })
  }

  async #follow(wanted: Place): Promise<void> {
    const { store, writer, applied, reports, log } = this.#parts
    try {
      await writer.alone(() => applied.follow(store))
      reports.soon()
      this.#failing.passed()
    } catch (error) {
      applied.stuck(codeOf(error) ?? 'INTERNAL')
      this.#pending = true
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

interface ConfigurationParts extends Pick<FollowerParts, 'latest' | 'store' | 'writer' | 'applied' | 'reports'> {
  readonly live: Live
  readonly holder: SnapshotHolder
  /** Records that a site file of this process declares. */
  readonly declared: DeclaredRecords
  /** Returns the workers of this process; undefined without workers. */
  readonly workers?: (() => Promise<readonly WorkerState[]>) | undefined
  readonly itself?: (() => ProcessNumbers) | undefined
}

/** The configuration served by this process, and whether it is in sync with the store. */
export class Configuration {
  readonly #parts: ConfigurationParts

  constructor(parts: ConfigurationParts) {
    this.#parts = parts
  }

  /** The last revision of the store that serves. */
  get revision(): number {
    return this.#parts.applied.revision
  }

  /** The revision that serves, with its mark. */
  get place(): Place {
    return this.#parts.applied.place
  }

  /** Number of times that the store had a different history. */
  get divergences(): number {
    return this.#parts.applied.divergences
  }

  /** Reason why a copy of the configuration is served and writes are rejected; null if the store is available. */
  get degraded(): string | null {
    return this.#parts.applied.degraded
  }

  /** By how many revisions of the store this process is late. */
  get revisionsBehind(): number {
    const { latest, applied } = this.#parts
    return latest.behind(applied.revision)
  }

  /** Changes that could not be applied, the reason why a copy is served, or null. */
  get lastError(): string | null {
    return this.#parts.applied.error
  }

  /** Returns the applied revision of each process on the store. Fails with `UNAVAILABLE`. */
  async processes(): Promise<ProcessState[]> {
    const [all, workers] = await Promise.all([orUnavailable(this.#parts.reports.list()), this.#parts.workers?.() ?? []])
    const numbers = this.#parts.itself?.() ?? null
    return all.map((one) => ({ ...one, workers: one.self ? workers : null, numbers: one.self ? numbers : null }))
  }

  /**
   * Replaces the process's own units by these; units of records stay. Conflicts between claims of a site file and a stored
   * record reject them.
   */
  async applyOwn(units: WholeOwn['units'], { secrets, declared }: Omit<WholeOwn, 'units'> = {}): Promise<Applied> {
    const { writer, live, store, holder, applied: followed, declared: records, reports } = this.#parts
    return await writer.alone(async () => {
      // The current contents of the store are unknown while a copy is served.
      const unknown = followed.degraded !== null || records.isOf(declared)
      const problems =
        unknown || declared === undefined
          ? []
          : await orUnavailable(clashesWithStore(store, declared, reports.shared ? undefined : records))
      if (problems.length > 0) return { ok: false, revision: holder.current().revision, problems, ports: [] }
      const applied = await live.applyOwn(units, secrets)
      if (applied.ok) records.replace(declared)
      return applied
    })
  }
}
