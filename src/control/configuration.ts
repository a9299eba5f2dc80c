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

/** A revision is applied within a second; one that is not after so long is late. Milliseconds. */
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

  /** The last place that was reported; undefined: none was. */
  get place(): Place | undefined {
    return this.#place
  }

  /** The store's last revision is this one. A function of its own: it is the hook `onRevision` of `openStore`. */
  readonly report = (place: Place): void => {
    this.#place = place
    this.#latest = { revision: place.revision, at: this.#clock.monotonic() }
    if (this.#oldest === undefined || this.#oldest.revision > place.revision) this.#oldest = this.#latest
    for (const changed of this.#watchers) changed()
  }

  /** Calls `changed` for each report from now on. Returns what ends that. */
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
  /** A revision was reported that no attempt has looked at yet. */
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
  /** What a site file of this process declares. */
  readonly declared: DeclaredRecords
  /** The threads of this process that carry traffic; absent: there are none. */
  readonly workers?: (() => Promise<readonly WorkerState[]>) | undefined
  readonly itself?: (() => ProcessNumbers) | undefined
}

/** The configuration that serves in this process, and how it stands to the store. */
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

  /** How often the store turned out to have another history than the one that was followed. */
  get divergences(): number {
    return this.#parts.applied.divergences
  }

  /** Why a copy of the configuration serves and writes are refused; null: the store is there. */
  get degraded(): string | null {
    return this.#parts.applied.degraded
  }

  /** By how many revisions of the store this process is late. */
  get revisionsBehind(): number {
    const { latest, applied } = this.#parts
    return latest.behind(applied.revision)
  }

  /** What could not be applied, or why a copy serves, or null. */
  get lastError(): string | null {
    return this.#parts.applied.error
  }

  /** What each process on the store has applied. Fails with `UNAVAILABLE`. */
  async processes(): Promise<ProcessState[]> {
    const [all, workers] = await Promise.all([orUnavailable(this.#parts.reports.list()), this.#parts.workers?.() ?? []])
    const numbers = this.#parts.itself?.() ?? null
    return all.map((one) => ({ ...one, workers: one.self ? workers : null, numbers: one.self ? numbers : null }))
  }

  /**
   * Makes exactly these units the part of the configuration that belongs to the process itself; units of records stay. What a
   * site file claims and a record of the store has refuses them.
   */
  async applyOwn(units: WholeOwn['units'], { secrets, declared }: Omit<WholeOwn, 'units'> = {}): Promise<Applied> {
    const { writer, live, store, holder, applied: followed, declared: records, reports } = this.#parts
    return await writer.alone(async () => {
      // Of a copy of the store it is not known what it holds now.
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
