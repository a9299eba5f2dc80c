import type { ShardedMap } from '../lib/sharded-map.js'
import { apply, type Change, type PolicyUnit, type SecretValues, type UpstreamUnit } from '../plan/plan.js'
import type { Action } from '../policy/action.js'
import { type CompiledPolicy, compilePolicy } from '../policy/compile.js'
import type { Problem } from '../policy/problem.js'
import type { PolicyServices } from '../policy/services.js'
import type { Draft, KeptState } from './kept-state.js'
import { Snapshot } from './snapshot.js'
import { asKind, type UnitChange, unitChanges } from './unit-change.js'

/** The problems of one policy document of a plan. */
export interface UnitProblems {
  readonly key: string
  readonly source: string
  readonly text: string
  readonly problems: readonly Problem[]
}

/** What the policies of one kind of author may use. */
export interface PolicyRights {
  readonly services: PolicyServices
  readonly actions: readonly Action[]
}

export interface CompileOptions extends PolicyRights {
  readonly keptState: KeptState
  /** Of policies that agents send; where it is absent, a change that holds one is a defect. */
  readonly guests?: PolicyRights
}

/** A snapshot ready to be swapped in, or what is wrong with the change. */
export type Prepared =
  | { readonly ok: true; readonly snapshot: Snapshot; readonly warnings: readonly UnitProblems[]; commit(): void }
  | { readonly ok: false; readonly problems: readonly UnitProblems[] }

/**
 * Compiles the units of a change beside the running snapshot. Nothing that runs is touched before `commit`, which only
 * makes kept state real and cannot fail; the caller swaps the snapshot in the same turn. `secrets`: the values that units
 * of the change refer to.
 */
export function prepare(running: Snapshot, change: Change, secrets: SecretValues, options: CompileOptions): Prepared {
  const { services, keptState } = options
  const plan = apply(running.plan, change)
  const draft = keptState.draft()
  const changes = unitChanges(running.plan, change)
  const policies = compilePolicies(changes, draft, options)
  if (policies.failed.length > 0) return { ok: false, problems: policies.failed }
  const { tables } = running
  const compilation = { services, draft, secrets }
  const snapshot = new Snapshot(plan, {
    policies: tables.policies.with(policies.compiled, change.drop),
    upstreams: changedUpstreams(tables.upstreams, changes),
    edges: tables.edges.with(changes, compilation),
    tcpEdges: tables.tcpEdges.with(changes, compilation),
    ipPolicies: tables.ipPolicies.with(changes),
    restrictions: tables.restrictions.with(changes),
    certificates: tables.certificates.with(changes, secrets),
    secrets: tables.secrets.with(changes, secrets)
  })
  return { ok: true, snapshot, warnings: policies.doubtful, commit: () => draft.commit(change.drop) }
}

function compilePolicies(changes: readonly UnitChange[], draft: Draft, options: CompileOptions) {
  const compiled: [string, CompiledPolicy][] = []
  const failed: UnitProblems[] = []
  const doubtful: UnitProblems[] = []
  for (const { key, after } of changes) {
    const unit = asKind(after, 'policy')
    if (unit === undefined) continue
    const { policy, problems } = compileUnit(unit, draft, key, options)
    const found: UnitProblems = { key, source: unit.source, text: unit.text, problems }
    if (policy === undefined) failed.push(found)
    else {
      compiled.push([key, policy])
      if (problems.length > 0) doubtful.push(found)
    }
  }
  return { compiled, failed, doubtful }
}

function compileUnit(unit: PolicyUnit, draft: Draft, key: string, options: CompileOptions) {
  const { owner, text, carrier = 'http', author } = unit
  const rights = author === 'agent' ? options.guests : options
  if (rights === undefined) throw new RangeError('the policies of agents have no rights here')
  const { services, actions } = rights
  return compilePolicy(text, { owner, services, keep: draft.for(key), actions, unavailable: 'refuse', carrier })
}

function changedUpstreams(running: ShardedMap<UpstreamUnit>, changes: readonly UnitChange[]): ShardedMap<UpstreamUnit> {
  const put = changes.flatMap(({ key, after }) => {
    const unit = asKind(after, 'upstream')
    return unit === undefined ? [] : [[key, unit] as const]
  })
  const drop = changes.filter(({ before, after }) => before?.kind === 'upstream' && after === undefined)
  return put.length === 0 && drop.length === 0
    ? running
    : running.with(
        put,
        drop.map(({ key }) => key)
      )
}
