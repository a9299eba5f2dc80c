import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/errors.js'
import type { Slices } from '../lib/slices.js'
import type { UnitProblems } from '../policy/problems.js'
import { recordText } from '../resources/resource.js'
import type { PlannedRecord } from '../resources/units.js'
import { pieces } from '../store/queries.js'
import type { RecordKey, StoredRecord } from '../store/records.js'
import type { ChangeFeed, Place, StoreLog, StoreReader } from '../store/store.js'
import type { Principals } from './access.js'
import { type Live, readyWhatCompiles, type Units } from './apply.js'
import { everyRecord, type Records } from './records.js'
import { addUnits, type DerivedUnits, deriving, PLANNED_KINDS, type Touched } from './units.js'

/** Kinds whose contents are read; for others, only the fact of a change matters. */
const READ_KINDS: ReadonlySet<string> = new Set(PLANNED_KINDS)

/** Records that one question asks for. */
const READ_AT_ONCE = 250
/** Changes that a transaction may follow while every other writer waits for it. */
const WITHIN_TRANSACTION = 500

export interface AppliedParts {
  readonly records: Records
  readonly live: Live
  readonly principals: Principals
  readonly clock: Clock
  readonly log: StoreLog
  /** Creates the time slices of one revision or load, so that traffic is not blocked. */
  readonly slices: () => Slices
  /** Called for each revision once it serves. Must not throw. */
  readonly served: (revision: number) => void
  /** Returns the reason why a copy is followed instead of the store, for display; null if the store is followed. */
  readonly degraded: () => string | null
}

/** Position up to which this process has applied the store's revisions. Callers take turns. */
export class AppliedRevision {
  readonly #parts: AppliedParts
  /** Units that could not be applied, with the reason. */
  readonly #broken = new Map<string, string>()
  /** Records whose secrets cannot be decrypted, with the reason. */
  readonly #sealed = new Map<string, string>()
  #place: Place = { revision: 0, mark: undefined }
  #divergences = 0
  #divergedAt: number | null = null
  #stuck: string | null = null

  constructor(parts: AppliedParts) {
    this.#parts = parts
  }

  get revision(): number {
    return this.#place.revision
  }

  /** Applied revision with its mark, which detects a different history with the same numbers. */
  get place(): Place {
    return this.#place
  }

  /** Number of times that the store had a different history. */
  get divergences(): number {
    return this.#divergences
  }

  /** Time of the last such event (ms since the Unix epoch); null for never. */
  get divergedAt(): number | null {
    return this.#divergedAt
  }

  /** Reason why a copy is served; null if the store is followed. */
  get degraded(): string | null {
    return this.#parts.degraded()
  }

  /** Reason why the served configuration is wrong: a copy, or a failure to apply; null if there is none. */
  get error(): string | null {
    if (this.degraded !== null) return this.degraded
    if (this.#stuck !== null) return this.#stuck
    const closed = this.#parts.live.missingPorts.map(
      ({ host, port, reason }) => `${host}:${port} cannot be opened: ${reason}`
    )
    const reasons = [...closed, ...this.#broken.values(), ...this.#sealed.values()]
    const [first] = reasons
    if (first === undefined) return null
    return reasons.length === 1 ? first : `${first} (and ${reasons.length - 1} more)`
  }

  /** This process cannot follow the store for now, for the reason with this code. */
  stuck(code: string): void {
    this.#stuck = `cannot follow the store: ${code}`
  }

  /** Loads the whole store. Not for transactions: it may take seconds. */
  async load(reader: StoreReader): Promise<void> {
    const { live } = this.#parts
    const slices = this.#parts.slices()
    const place = await reader.placeOf(await reader.revision())
    const whole: DerivedUnits = { units: new Map(), secrets: new Map() }
    this.#sealed.clear()
    for (const kind of PLANNED_KINDS) {
      for await (const page of everyRecord(reader, kind)) {
        for (const stored of page) {
          addUnits(whole, this.#open(stored))
          if (slices.due) await slices.rest()
        }
      }
    }
    this.#broken.clear()
    this.#parts.principals.forgetAll()
    await this.#serve(await slices.run(live.fromRecords(whole.units, whole.secrets)), place.revision)
    this.#serves(place)
    // Records may have changed while they were read, one kind after the other.
    await this.follow(reader)
  }

  /**
   * Applies revisions that other processes have committed. A store with a different history (after a failover to a lagging
   * standby, or a restored backup) is loaded again. Not for transactions: it may take seconds.
   */
  async follow(reader: StoreReader): Promise<void> {
    const feed = await reader.changesAfter(this.#place)
    if (feed.diverged) this.#diverged(feed.revision)
    if (feed.complete) await this.#apply(reader, feed)
    else await this.load(reader)
  }

  /** Applies revisions like `follow`, in a transaction. Returns false, without changes, if there are too many to block other writers. */
  async followWithin(transaction: StoreReader): Promise<boolean> {
    const feed = await transaction.changesAfter(this.#place, { limit: WITHIN_TRANSACTION })
    if (!feed.complete) return false
    await this.#apply(transaction, feed)
    return true
  }

  async #apply(reader: StoreReader, feed: ChangeFeed): Promise<void> {
    if (feed.revision === this.#place.revision) return
    const { live, principals } = this.#parts
    const slices = this.#parts.slices()
    const touched = await this.#touched(reader, feed, slices)
    const units = await slices.run(deriving(live.units, touched))
    principals.forget(touched)
    await this.#serve(units, feed.revision)
    this.#serves(feed.place)
  }

  /** Returns the current state of the changed records. */
  async #touched(reader: StoreReader, { changes }: ChangeFeed, slices: Slices): Promise<Touched[]> {
    const keys = new Map<string, RecordKey>()
    for (const change of changes) {
      keys.set(recordText(change), change)
      if (slices.due) await slices.rest()
    }
    const touched: Touched[] = []
    for (const some of pieces([...keys.values()], READ_AT_ONCE)) {
      const found = new Map<string, PlannedRecord>()
      for (const stored of await reader.getMany(some.filter(({ kind }) => READ_KINDS.has(kind)))) {
        found.set(recordText(stored), this.#open(stored))
        if (slices.due) await slices.rest()
      }
      for (const key of some) touched.push({ kind: key.kind, id: key.id, after: found.get(recordText(key)) })
    }
    return touched
  }

  /** Records a served write of this process: `place` is its position, `units` its changes. */
  committed(place: Place, units: Pick<Units, 'put' | 'drop'>): void {
    this.#mended(units)
    this.#serves(place)
  }

  #serves(place: Place): void {
    this.#stuck = null
    this.#place = place
    this.#parts.served(place.revision)
  }

  #diverged(revision: number): void {
    const { log, clock } = this.#parts
    this.#divergences++
    this.#divergedAt = Math.floor(clock.wall())
    log.warn(
      { applied: this.#place.revision, revision },
      'the store is not the one that was followed: it went back in time or was replaced; reading everything again'
    )
  }

  async #serve(units: Units, revision: number): Promise<void> {
    const { ready, problems } = await readyWhatCompiles(this.#parts.live, units)
    await ready.swap(revision)
    this.#mended(units)
    for (const { unit, host, port, reason } of ready.ports) {
      this.#parts.log.warn({ unit, host, port, reason }, 'a port of the store cannot be opened here')
    }
    for (const problem of problems) {
      const text = reasonOf(problem)
      this.#broken.set(problem.key, text)
      this.#parts.log.warn({ unit: problem.key }, `a policy of the store cannot be applied: ${text}`)
    }
  }

  /** Opens a record without undecryptable secrets: units that need them are disabled, all others serve. */
  #open(stored: StoredRecord): PlannedRecord {
    try {
      const opened = this.#parts.records.open(stored)
      if (this.#sealed.size > 0) this.#sealed.delete(keyOf(stored))
      return opened
    } catch (error) {
      const key = keyOf(stored)
      const code = codeOf(error) ?? 'INTERNAL'
      this.#sealed.set(key, `the secrets of ${key} do not open: ${code}`)
      this.#parts.log.warn({ record: key, code }, 'secrets of the store do not open')
      return this.#parts.records.open({ ...stored, sealed: null })
    }
  }

  #mended({ put, drop }: Pick<Units, 'put' | 'drop'>): void {
    if (this.#broken.size === 0) return
    for (const [key] of put) this.#broken.delete(key)
    for (const key of drop) this.#broken.delete(key)
  }
}

const keyOf = ({ kind, id }: RecordKey): string => `${kind}/${id}`

function reasonOf({ source, problems }: UnitProblems): string {
  const error = problems.find(({ severity }) => severity === 'error')
  return error === undefined ? source : `${source}:${error.line}:${error.column} ${error.code} ${error.message}`
}
