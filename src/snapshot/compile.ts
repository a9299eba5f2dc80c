import type { ShardedMap } from '../lib/sharded-map.js'
import type { CompiledModule } from '../modules/contract.js'
import { modules } from '../modules/registry.js'
import { apply, type Change, type EdgeUnit, type PolicyUnit, type UpstreamUnit } from '../plan/plan.js'
import type { Action } from '../policy/action.js'
import { type CompiledPolicy, compilePolicy } from '../policy/compile.js'
import type { Problem } from '../policy/problem.js'
import type { PolicyServices } from '../policy/services.js'
import type { Draft, KeptState } from './kept-state.js'
import { type CompiledEdge, PathTable, type Route } from './routes.js'
import { Snapshot } from './snapshot.js'

/** The problems of one policy document of a plan. */
export interface UnitProblems {
  readonly key: string
  readonly source: string
  readonly text: string
  readonly problems: readonly Problem[]
}

export interface CompileOptions {
  readonly services: PolicyServices
  readonly actions: readonly Action[]
  readonly keptState: KeptState
}

/** A snapshot ready to be swapped in, or what is wrong with the change. */
export type Prepared =
  | { readonly ok: true; readonly snapshot: Snapshot; readonly warnings: readonly UnitProblems[]; commit(): void }
  | { readonly ok: false; readonly problems: readonly UnitProblems[] }

/**
 * Compiles the units of a change beside the running snapshot. Nothing that runs is touched before `commit`, which only
 * makes kept state real and cannot fail; the caller swaps the snapshot in the same turn.
 */
export function prepare(running: Snapshot, change: Change, options: CompileOptions): Prepared {
  const plan = apply(running.plan, change)
  const draft = options.keptState.draft()
  const policies = compilePolicies(change, draft, options)
  if (policies.failed.length > 0) return { ok: false, problems: policies.failed }
  const upstreams: [string, UpstreamUnit][] = []
  const edges: [string, CompiledEdge][] = []
  for (const [key, unit] of change.put) {
    if (unit.kind === 'upstream') upstreams.push([key, unit])
    if (unit.kind === 'edge') edges.push([key, compileEdge(unit)])
  }
  const snapshot = new Snapshot(
    plan,
    running.policies.with(policies.compiled, change.drop),
    running.upstreams.with(upstreams, change.drop),
    running.edges.with(edges, change.drop),
    claimHosts(running, edges, change.drop)
  )
  return { ok: true, snapshot, warnings: policies.doubtful, commit: () => draft.commit(change.drop) }
}

function compilePolicies(change: Change, draft: Draft, { services, actions }: CompileOptions) {
  const compiled: [string, CompiledPolicy][] = []
  const failed: UnitProblems[] = []
  const doubtful: UnitProblems[] = []
  for (const [key, unit] of change.put) {
    if (unit.kind !== 'policy') continue
    const { policy, problems } = compileUnit(unit, draft, key, services, actions)
    const found: UnitProblems = { key, source: unit.source, text: unit.text, problems }
    if (policy === undefined) failed.push(found)
    else {
      compiled.push([key, policy])
      if (problems.length > 0) doubtful.push(found)
    }
  }
  return { compiled, failed, doubtful }
}

function compileUnit(
  unit: PolicyUnit,
  draft: Draft,
  key: string,
  services: PolicyServices,
  actions: readonly Action[]
) {
  return compilePolicy(unit.text, { owner: unit.owner, services, keep: draft.for(key), actions, unavailable: 'refuse' })
}

function compileEdge(edge: EdgeUnit): CompiledEdge {
  const routes = edge.routes.map((route): Route => {
    const compiled: CompiledModule[] = []
    for (const definition of modules) {
      const module = definition.compile(route)
      if (module !== undefined) compiled.push(module)
    }
    return {
      id: route.id,
      edge: edge.id,
      match: route.match,
      path: route.path,
      upstream: route.upstream,
      modules: compiled.length === 0 ? null : compiled
    }
  })
  return { id: edge.id, hosts: edge.hosts, routes: new PathTable(routes), connectPolicy: edge.connectPolicy }
}

/** Hosts that a changed edge gave up are freed before the new claims are entered. */
function claimHosts(
  running: Snapshot,
  edges: readonly (readonly [string, CompiledEdge])[],
  dropped: readonly string[]
): ShardedMap<CompiledEdge> {
  const freed: string[] = []
  for (const key of [...dropped, ...edges.map(([key]) => key)]) freed.push(...(running.edges.get(key)?.hosts ?? []))
  const claims = edges.flatMap(([, edge]) => edge.hosts.map((host) => [host, edge] as const))
  return running.hosts.with([], freed).with(claims)
}
