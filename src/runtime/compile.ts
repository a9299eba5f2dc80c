import { isDeepStrictEqual } from 'node:util'
import type { DocumentLimits } from '../lib/caller-limits.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import { atOnce, Passes, type Steps } from '../lib/slices.js'
import type { Action } from '../policy/action.js'
import { type CompiledPolicy, compilingPolicy } from '../policy/compile.js'
import type { UnitProblems } from '../policy/problems.js'
import type { PolicyServices } from '../policy/services.js'
import type { Draft, PersistentState } from './persistent-state.js'
import type { PolicyUnit, SecretValues, Unit, UpstreamUnit } from './plan.js'
import { applying, asKind, type Change, type UnitChange, unitChanges } from './plan-changes.js'
import { Snapshot } from './snapshot.js'

/** Services and limits of the policies of one kind of author. */
export interface PolicyRights {
  readonly services: PolicyServices
  readonly actions: readonly Action[]
  /** Limits of their documents. @default the limits of every document */
  readonly limits?: DocumentLimits
}

/** Rights of policies and the state that outlives a snapshot. */
export interface CompileOptions extends PolicyRights {
  readonly persistentState: PersistentState
  /** Rights of policies that agents send. Without them a change with such a policy is invalid. */
  readonly guests?: PolicyRights
}

/** Steps that keep and release the state of a snapshot; the snapshot is swapped in between them. Neither fails. */
interface Commit {
  /** Keeps the state that the snapshot uses. */
  taking(): Steps<void>
  /** Releases state that is no longer used. */
  sweeping(): Steps<void>
  /** Runs both steps at once. */
  commit(): void
}

/** Snapshot that is ready to be swapped in, or the problems of the change. */
export type Prepared =
  | ({ readonly ok: true; readonly snapshot: Snapshot; readonly warnings: readonly UnitProblems[] } & Commit)
  | { readonly ok: false; readonly problems: readonly UnitProblems[] }

/**
 * Compiles the units of a change beside the running snapshot. Running state is unchanged before `taking`; nothing else may be prepared
 * until `sweeping` has finished. `secrets`: the values that units of the change refer to.
 */
export function prepare(running: Snapshot, change: Change, secrets: SecretValues, options: CompileOptions): Prepared {
  return atOnce(preparing(running, change, secrets, options))
}

/** Does the work of `prepare` in steps of one policy rule or one other unit. */
export function* preparing(
  running: Snapshot,
  change: Change,
  secrets: SecretValues,
  options: CompileOptions
): Steps<Prepared> {
  const { services, persistentState } = options
  const plan = yield* applying(running.plan, change)
  const draft = persistentState.draft()
  const changes = yield* unitChanges(running.plan, change)
  const policies = yield* compilePolicies(changes, draft, running, options)
  if (policies.failed.length > 0) return { ok: false, problems: policies.failed }
  const { tables } = running
  const compilation = { services, draft, secrets }
  const compiled = {
    policies: yield* tables.policies.editing(policies.compiled, change.drop),
    upstreams: yield* changedUpstreams(tables.upstreams, changes),
    edges: yield* tables.edges.editing(changes, compilation),
    https: yield* tables.https.editing(changes),
    tcpEdges: yield* tables.tcpEdges.editing(changes, compilation),
    ipPolicies: yield* tables.ipPolicies.editing(changes),
    restrictions: yield* tables.restrictions.editing(changes),
    certificates: yield* tables.certificates.editing(changes, secrets),
    secrets: yield* tables.secrets.editing(changes, secrets)
  }
  return {
    ok: true,
    snapshot: new Snapshot(plan, compiled, running.revision),
    warnings: policies.doubtful,
    taking: () => draft.taking(),
    sweeping: () => draft.sweeping(change.drop),
    commit: () => draft.commit(change.drop)
  }
}

function* compilePolicies(changes: readonly UnitChange[], draft: Draft, running: Snapshot, options: CompileOptions) {
  const compiled: [string, CompiledPolicy][] = []
  const failed: UnitProblems[] = []
  const doubtful: UnitProblems[] = []
  const passes = new Passes()
  for (const { key, before, after } of changes) {
    const unit = asKind(after, 'policy')
    if (passes.due() || unit !== undefined) yield
    // A unit that only moved within its file keeps its compiled policy and state.
    if (unit === undefined || (running.policy(key) !== undefined && saysTheSame(before, unit))) continue
    const { policy, problems } = yield* compilingUnit(unit, draft, key, options)
    const found: UnitProblems = { key, source: unit.source, text: unit.text, problems }
    if (policy === undefined) failed.push(found)
    else {
      compiled.push([key, policy])
      if (problems.length > 0) doubtful.push(found)
    }
  }
  return { compiled, failed, doubtful }
}

function saysTheSame(before: Unit | undefined, { source, ...after }: PolicyUnit): boolean {
  return before?.kind === 'policy' && isDeepStrictEqual(before, { ...after, source: before.source })
}

function compilingUnit(unit: PolicyUnit, draft: Draft, key: string, options: CompileOptions) {
  const { owner, text, carrier = 'http', author } = unit
  const rights = author === 'agent' ? options.guests : options
  if (rights === undefined) throw new RangeError('the policies of agents have no rights here')
  const { services, actions, limits } = rights
  const keep = draft.for(key)
  // No record has `on_tcp_connect` there; listeners run that of the default entry.
  const connections = carrier === 'http' ? 'http' : 'edge'
  return compilingPolicy(text, { owner, services, keep, actions, unavailable: 'refuse', carrier, connections, limits })
}

function* changedUpstreams(
  running: ShardedMap<UpstreamUnit>,
  changes: readonly UnitChange[]
): Steps<ShardedMap<UpstreamUnit>> {
  const put: [string, UpstreamUnit][] = []
  const drop: string[] = []
  const passes = new Passes()
  for (const { key, before, after } of changes) {
    const unit = asKind(after, 'upstream')
    if (unit !== undefined) put.push([key, unit])
    else if (before?.kind === 'upstream' && after === undefined) drop.push(key)
    if (passes.due()) yield
  }
  return put.length === 0 && drop.length === 0 ? running : yield* running.editing(put, drop)
}
