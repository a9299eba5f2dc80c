import { isDeepStrictEqual } from 'node:util'
import { Mutex } from '../lib/concurrency.js'
import { type Entries, LayeredMap } from '../lib/layered-map.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import type { UnitProblems } from '../policy/problems.js'
import type { RouteUnit, SecretValues, TcpEdgeUnit, Unit, UpstreamUnit } from '../runtime/plan.js'
import type { Change } from '../runtime/plan-changes.js'
import type { PortProblem } from '../runtime/ports.js'
import type { Replicas } from '../runtime/replicas.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { type ServingParts, type Staged, stage } from '../runtime/stage.js'
import type { DeclaredSet } from './declared-records.js'
import { ControlError, controlErrors } from './errors.js'
import { refusedOnPaths } from './path-forms.js'

/** Units to put and to drop, and the values that those to put refer to. */
export interface Units extends Pick<Change, 'put' | 'drop'> {
  readonly secrets: SecretValues
}

interface LiveParts extends ServingParts {
  /** The other threads that serve the plan. */
  readonly replicas: Replicas
}

const NO_SECRETS: SecretValues = new Map()
const NO_PORTS: readonly PortProblem[] = []

/**
 * The running configuration, changed only here. Between `ready` and `swap` no other change is allowed: callers take turns.
 * Units have two sources: the process itself (options and files) and the records of the store; their keys are disjoint.
 */
export class Live {
  readonly #parts: LiveParts
  /** The units of the process itself, as they run. */
  #own: Entries<Unit> = new Map()

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

  /**
   * Compiles a change beside the running configuration, in every thread that serves it, and binds its ports. With `tolerant`, a port in use or a
   * failing worker does not reject the change. Fails with a ControlError `BUSY` if a worker cannot prepare it.
   */
  async ready({ put, drop, secrets }: Units, tolerant = false): Promise<Staged> {
    const running = this.#running
    if (put.length === 0 && drop.length === 0) {
      return { ...NOTHING_TO_DO, snapshot: running, swap: async (revision) => this.#serves(revision) }
    }
    const { number } = running.plan
    const change = { from: number, to: number + 1, put, drop }
    const staged = await stage(this.#parts, change, secrets, tolerant)
    if (!staged.ok) return staged
    const elsewhere = await this.#parts.replicas.prepare({ change, secrets, tolerant })
    if (!elsewhere.ok) {
      staged.abandon()
      const message = 'a thread that carries traffic could not prepare the change; nothing was changed, try again'
      throw new ControlError(controlErrors.BUSY, message)
    }
    return {
      ...staged,
      swap: async (revision = running.revision) => {
        await Promise.all([staged.swap(revision), elsewhere.commit(staged.snapshot.at(revision))])
      },
      abandon: () => {
        staged.abandon()
        elsewhere.abandon()
      }
    }
  }

  /** Replaces the units of the process itself by `units`; those of the records stay. All or nothing. */
  async applyOwn(units: Entries<Unit>, secrets: SecretValues = NO_SECRETS): Promise<Applied> {
    const slices = this.#parts.slices()
    const { put, drop } = await slices.run(this.#unlike(units, this.#own))
    const ready = await this.ready({ put, drop, secrets })
    const { revision } = this.#running
    if (!ready.ok) return { ok: false, revision, problems: ready.problems, ports: ready.ports }
    const refused = refusedOnPaths(put, this.units, ready.snapshot)
    if (refused.length > 0) {
      ready.abandon()
      return { ok: false, revision, problems: refused, ports: NO_PORTS }
    }
    await ready.swap()
    this.#own = units
    const changed = put.length > 0 || drop.length > 0
    return { ok: true, revision: this.#running.revision, changed, warnings: ready.warnings }
  }

  /** A change of records together with one after which exactly `own.units` are those of the process; `owns` follows its swap. */
  async withOwn({ put, drop, secrets }: Units, own: WholeOwn): Promise<Units> {
    const change = await this.#parts.slices().run(this.#unlike(own.units, this.#own))
    return {
      put: [...put, ...change.put],
      drop: [...drop, ...change.drop],
      secrets: new Map([...secrets, ...(own.secrets ?? NO_SECRETS)])
    }
  }

  /** A change of `withOwn` serves. */
  owns({ units }: Pick<WholeOwn, 'units'>): void {
    this.#own = units
  }

  /** The change after which the records' units are exactly `units`, in steps. */
  *fromRecords(units: ReadonlyMap<string, Unit>, secrets: SecretValues): Steps<Units> {
    const before = new Map<string, Unit>()
    const passes = new Passes()
    for (const [key, unit] of this.units) {
      if (!this.#own.has(key)) before.set(key, unit)
      if (passes.due()) yield
    }
    return { ...(yield* this.#unlike(units, before)), secrets }
  }

  get #running(): Snapshot {
    return this.#parts.holder.current()
  }

  /** Yields the differences to `before`, the running units. While both have the same keys in the same order, no lookup is needed. */
  *#unlike(units: Entries<Unit>, before: Entries<Unit>): Steps<Pick<Change, 'put' | 'drop'>> {
    const passes = new Passes()
    const put: [string, Unit][] = []
    const changed = (key: string, unit: Unit, running: Unit | undefined) => {
      if (running !== unit && !isDeepStrictEqual(running, unit)) put.push([key, unit])
    }
    const [all, old] = [units[Symbol.iterator](), before[Symbol.iterator]()]
    let [next, past] = [all.next(), old.next()]
    while (next.done !== true && past.done !== true && next.value[0] === past.value[0]) {
      changed(next.value[0], next.value[1], past.value[1])
      next = all.next()
      past = old.next()
      if (passes.due()) yield
    }
    for (; next.done !== true; next = all.next()) {
      const [key, unit] = next.value
      changed(key, unit, this.units.get(key))
      if (passes.due()) yield
    }
    const drop: string[] = []
    for (; past.done !== true; past = old.next()) {
      const [key] = past.value
      if (!units.has(key)) drop.push(key)
      if (passes.due()) yield
    }
    return { put, drop }
  }

  /** A revision that changes no unit serves once the snapshot has its number. */
  #serves(revision: number | undefined): void {
    if (revision === undefined) return
    const { holder, replicas } = this.#parts
    holder.swap(holder.current().at(revision))
    replicas.serves(holder.current())
  }
}

const nothing = () => undefined
const NOTHING_TO_DO = { ok: true, warnings: [], ports: NO_PORTS, abandon: nothing } as const

/** Result of applying units. */
export type Applied =
  /** `revision` serves now; `changed` is false when it already did. */
  | {
      readonly ok: true
      readonly revision: number
      readonly changed: boolean
      readonly warnings: readonly UnitProblems[]
    }
  /** Failure without changes. */
  | {
      readonly ok: false
      readonly revision: number
      readonly problems: readonly UnitProblems[]
      readonly ports: readonly PortProblem[]
    }

/**
 * Returns the ids of the routes that a change of units affects: changed routes, those of changed edges, and those whose
 * policy or upstream changes, directly or through a group. `before`: the running units. Visits every route, so it is for
 * display, not for each write.
 */
export function touchedRoutes(before: ShardedMap<Unit>, change: Pick<Units, 'put' | 'drop'>): string[] {
  return touchedUnits(before, change, 'route')
}

/** Ids of the TCP edges that a change of units touches; as `touchedRoutes`. */
export function touchedTcpEdges(before: ShardedMap<Unit>, change: Pick<Units, 'put' | 'drop'>): string[] {
  return touchedUnits(before, change, 'tcp_edge')
}

function touchedUnits(
  before: ShardedMap<Unit>,
  { put, drop }: Pick<Units, 'put' | 'drop'>,
  kind: 'route' | 'tcp_edge'
): string[] {
  const changed = new Set([...put.map(([key]) => key), ...drop])
  const after = before.with(put, drop)
  const touched = new Set<string>()
  for (const units of [before, after]) {
    for (const [key, unit] of units) {
      if (
        (unit.kind === 'route' || unit.kind === 'tcp_edge') &&
        unit.kind === kind &&
        concerns(key, unit, changed, units)
      )
        touched.add(unit.id)
    }
  }
  return [...touched].sort()
}

function concerns(
  key: string,
  unit: RouteUnit | TcpEdgeUnit,
  changed: ReadonlySet<string>,
  units: ShardedMap<Unit>
): boolean {
  if (changed.has(key) || needsAny(unit, changed)) return true
  if (unit.kind === 'route' && changed.has(`edge:${unit.edge}`)) return true
  return unit.upstream !== undefined && leadsTo(unit.upstream, changed, units)
}

/** Groups hold single upstreams or groups of these, so this ends. */
function leadsTo(upstream: string, changed: ReadonlySet<string>, units: ShardedMap<Unit>): boolean {
  if (changed.has(upstream)) return true
  const unit = units.get(upstream)
  return unit?.kind === 'upstream' && membersOf(unit).some((member) => leadsTo(member, changed, units))
}

function membersOf(unit: UpstreamUnit): readonly string[] {
  if (unit.form === 'failover') return unit.members
  return unit.form === 'weighted' ? unit.members.map(({ upstream }) => upstream) : []
}

/** The part of a committed change that this process serves, and the problems of the rest. */
interface Tolerated {
  readonly ready: Staged & { readonly ok: true }
  readonly problems: readonly UnitProblems[]
}

/**
 * Prepares a change that cannot be rejected, because another process or an earlier version has committed it. A policy that
 * does not compile here keeps its former text; a route or TCP edge whose policy never compiled is left out, because it would
 * forward unprotected. Ports in use stay closed.
 */
export async function readyWhatCompiles(live: Live, units: Units): Promise<Tolerated> {
  const whole = await live.ready(units, true)
  if (whole.ok) return { ready: whole, problems: [] }
  const failed = new Set(whole.problems.map(({ key }) => key))
  const missing = new Set([...failed].filter((key) => live.units.get(key) === undefined))
  const left = units.put.filter(([key, unit]) => failed.has(key) || needsAny(unit, missing)).map(([key]) => key)
  const leaves = new Set(left)
  const put = units.put.filter(([key]) => !leaves.has(key))
  // Units that are left out must not keep their former state, except for a policy's former text.
  const dropped = left.filter((key) => !failed.has(key) && live.units.has(key))
  const rest = await live.ready({ ...units, put, drop: [...units.drop, ...dropped] }, true)
  if (!rest.ok) throw new RangeError('a change without its failed policies failed again')
  return { ready: rest, problems: whole.problems }
}

function needsAny(unit: Unit, policies: ReadonlySet<string>): boolean {
  return policiesOf(unit).some((policy) => policies.has(policy))
}

/** Keys of the policies of a route or TCP edge, in the order of their runs. */
export function policiesOf(unit: Unit): readonly string[] {
  if (unit.kind !== 'route' && unit.kind !== 'tcp_edge') return []
  // A route of a site file has that of its site before its own.
  const named = [unit.modules.traffic_policy ?? []].flat() as unknown as readonly { readonly policy: string }[]
  return named.map(({ policy }) => policy)
}

type UnitsByKey = ReadonlyMap<string, Unit>

/** Units of the process itself, their secret values, and the records that a site file declares. */
export interface OwnPart {
  readonly units: UnitsByKey
  readonly secrets?: SecretValues
  readonly declared?: DeclaredSet
}

/** All that belongs to the process itself. */
export interface WholeOwn extends Omit<OwnPart, 'units'> {
  readonly units: Entries<Unit>
}

/**
 * Units of the process itself: those of files, and the endpoints that agents have opened. Each part is replaced as a whole,
 * and changes are serialized, so that none reverts another one.
 */
export class OwnUnits {
  readonly #apply: (own: WholeOwn) => Promise<Applied>
  #parts: ReadonlyMap<string, OwnPart> = new Map()
  readonly #mutex = new Mutex()

  /** `apply` makes exactly these units those of the process. */
  constructor(apply: (own: WholeOwn) => Promise<Applied>) {
    this.#apply = apply
  }

  /** A part that is refused stays as it was. */
  put(part: string, units: UnitsByKey, about: Omit<OwnPart, 'units'> = {}): Promise<Applied> {
    return this.putAll(new Map([[part, { ...about, units }]]))
  }

  /** Replaces several parts like `put`, all or nothing. */
  putAll(parts: ReadonlyMap<string, OwnPart>): Promise<Applied> {
    return this.#mutex.run(async () => {
      const next = new Map([...this.#parts, ...parts])
      const applied = await this.#apply(merged(next))
      if (applied.ok) this.#parts = next
      return applied
    })
  }

  /** Puts a part that is applied together with the next one. */
  stage(part: string, content: OwnPart): void {
    this.#parts = new Map(this.#parts).set(part, content)
  }

  /**
   * Replaces a part in a change made by `commit`, which receives the process's units after the change and returns the part
   * to serve; `kept` keeps the former one. `content` is undefined to remove the part.
   */
  within<T extends { readonly serves: OwnPart | undefined | 'kept' }>(
    part: string,
    content: OwnPart | undefined,
    commit: (own: WholeOwn) => Promise<T>
  ): Promise<T> {
    return this.#mutex.run(async () => {
      const next = new Map(this.#parts)
      const done = await commit(merged(put(next, part, content)))
      if (done.serves !== 'kept') this.#parts = put(next, part, done.serves)
      return done
    })
  }

  /** Removes the part. If that cannot be applied now, it is removed with the next change. */
  drop(part: string): Promise<Applied> {
    return this.#mutex.run(async () => {
      const next = new Map(this.#parts)
      next.delete(part)
      this.#parts = next
      return await this.#apply(merged(next))
    })
  }
}

function put(parts: Map<string, OwnPart>, part: string, content: OwnPart | undefined): Map<string, OwnPart> {
  if (content === undefined) parts.delete(part)
  else parts.set(part, content)
  return parts
}

function merged(parts: ReadonlyMap<string, OwnPart>): WholeOwn {
  const units = new LayeredMap([...parts.values()].map(({ units }) => units))
  const values = new Map<string, string>()
  let own: WholeOwn = { units, secrets: values }
  for (const { secrets = NO_SECRETS, declared } of parts.values()) {
    for (const [name, value] of secrets) values.set(name, value)
    if (declared !== undefined) own = { ...own, declared }
  }
  return own
}
