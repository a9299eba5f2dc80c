import { isDeepStrictEqual } from 'node:util'
import type { ShardedMap } from '../lib/sharded-map.js'
import type { Slices, Steps } from '../lib/slices.js'
import type { UnitProblems } from '../policy/problems.js'
import { type CompileOptions, type Prepared, preparing } from '../runtime/compile.js'
import type { SnapshotHolder } from '../runtime/holder.js'
import type { Change, SecretValues, Unit } from '../runtime/plan.js'
import type { BoundPorts, PortProblem, Ports } from '../runtime/ports.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { Applied } from './applied-units.js'

/** Units to put and to drop, and the values that those to put refer to. */
export interface Units extends Pick<Change, 'put' | 'drop'> {
  readonly secrets: SecretValues
}

/**
 * A change that is compiled beside what runs. `swap` makes it serve and cannot fail; nothing else may change what runs until
 * it has resolved. Instead, `abandon` undoes what was prepared.
 */
export type Ready =
  | {
      readonly ok: true
      /** What serves after `swap`. */
      readonly snapshot: Snapshot
      readonly warnings: readonly UnitProblems[]
      /** Ports that are not open although a unit asks for them. */
      readonly ports: readonly PortProblem[]
      swap(): Promise<void>
      abandon(): void
    }
  | { readonly ok: false; readonly problems: readonly UnitProblems[]; readonly ports: readonly PortProblem[] }

export interface LiveParts {
  readonly holder: SnapshotHolder
  readonly compile: CompileOptions
  readonly ports: Ports
  /** For one change: it is compiled beside traffic. */
  readonly slices: () => Slices
  /** Hears of every new snapshot after it serves. Must not throw. */
  readonly swapped: (snapshot: Snapshot) => void
  /** What follows `swapped` beside traffic, and comes to its end before the next change. Must not throw. */
  readonly settling: (snapshot: Snapshot) => Steps<void>
}

const NO_SECRETS: SecretValues = new Map()
const NO_PORTS: readonly PortProblem[] = []

/**
 * What runs, and the only hand that changes it. Between `ready` and `swap` nothing else may change it: callers take turns.
 * Two hands give units: the process itself (options and files) and the records of the store; their keys never meet.
 */
export class Live {
  readonly #parts: LiveParts
  /** Keys of the units of the process itself. */
  #own: ReadonlySet<string> = new Set()

  constructor(parts: LiveParts) {
    this.#parts = parts
  }

  get units(): ShardedMap<Unit> {
    return this.#running.plan.units
  }

  /** Ports that are not open although a unit asks for them. */
  get missingPorts(): readonly PortProblem[] {
    return this.#parts.ports.missing
  }

  /** Compiles a change beside the running snapshot and binds its ports. With `tolerant` a port that is taken does not refuse the change. */
  async ready({ put, drop, secrets }: Units, tolerant = false): Promise<Ready> {
    const running = this.#running
    if (put.length === 0 && drop.length === 0) return { ...NOTHING_TO_DO, snapshot: running }
    const change = { from: running.revision, to: running.revision + 1, put, drop }
    const prepared = await this.#parts.slices().run(preparing(running, change, secrets, this.#parts.compile))
    if (!prepared.ok) return { ...prepared, ports: NO_PORTS }
    const bound = await this.#parts.ports.bind(running, prepared.snapshot)
    if (bound.failed.length > 0 && !tolerant) {
      bound.abandon()
      return { ok: false, problems: [], ports: bound.failed }
    }
    return {
      ok: true,
      snapshot: prepared.snapshot,
      warnings: prepared.warnings,
      ports: bound.failed,
      swap: () => this.#swap(prepared, bound),
      abandon: () => bound.abandon()
    }
  }

  /** Makes exactly `units` those of the process itself; the records' stay. All or nothing. */
  async applyOwn(units: ReadonlyMap<string, Unit>): Promise<Applied> {
    const slices = this.#parts.slices()
    const { put, drop } = await slices.run(this.#unlike(units, this.#own))
    const ready = await this.ready({ put, drop, secrets: NO_SECRETS })
    const { revision } = this.#running
    if (!ready.ok) return { ok: false, revision, problems: ready.problems, ports: ready.ports }
    await ready.swap()
    this.#own = new Set(units.keys())
    const changed = put.length > 0 || drop.length > 0
    return { ok: true, revision: this.#running.revision, changed, warnings: ready.warnings }
  }

  /** The change after which the records' units are exactly `units`, in steps. */
  *fromRecords(units: ReadonlyMap<string, Unit>, secrets: SecretValues): Steps<Units> {
    const keys = new Set<string>()
    for (const [key] of this.units) {
      if (!this.#own.has(key)) keys.add(key)
      yield
    }
    return { ...(yield* this.#unlike(units, keys)), secrets }
  }

  get #running(): Snapshot {
    return this.#parts.holder.current()
  }

  *#unlike(units: ReadonlyMap<string, Unit>, before: ReadonlySet<string>): Steps<Pick<Change, 'put' | 'drop'>> {
    const put: [string, Unit][] = []
    for (const [key, unit] of units) {
      if (!isDeepStrictEqual(this.units.get(key), unit)) put.push([key, unit])
      yield
    }
    const drop: string[] = []
    for (const key of before) {
      if (!units.has(key)) drop.push(key)
      yield
    }
    return { put, drop }
  }

  async #swap(prepared: Prepared & { readonly ok: true }, bound: BoundPorts): Promise<void> {
    const { snapshot } = prepared
    const slices = this.#parts.slices()
    await slices.run(prepared.taking())
    this.#parts.holder.swap(snapshot)
    bound.commit()
    this.#parts.swapped(snapshot)
    await slices.run(this.#parts.settling(snapshot))
    await slices.run(prepared.sweeping())
  }
}

const nothing = () => undefined
const swapNothing = async () => undefined
const NOTHING_TO_DO = { ok: true, warnings: [], ports: NO_PORTS, swap: swapNothing, abandon: nothing } as const
