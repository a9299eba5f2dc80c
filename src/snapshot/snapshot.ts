import { ShardedMap } from '../lib/sharded-map.js'
import type { ModuleUnits } from '../modules/contract.js'
import { emptyPlan, type Plan, type UpstreamUnit } from '../plan/plan.js'
import type { CompiledPolicy } from '../policy/compile.js'
import { type CompiledEdge, findEdge, type Route } from './routes.js'

/** A plan compiled for execution. Immutable; its tables are shared with the snapshot before. */
export class Snapshot implements ModuleUnits {
  readonly plan: Plan
  readonly policies: ShardedMap<CompiledPolicy>
  readonly upstreams: ShardedMap<UpstreamUnit>
  readonly edges: ShardedMap<CompiledEdge>
  /** Host pattern → edge. */
  readonly hosts: ShardedMap<CompiledEdge>
  readonly #everyHost: CompiledEdge | undefined

  constructor(
    plan: Plan,
    policies: ShardedMap<CompiledPolicy>,
    upstreams: ShardedMap<UpstreamUnit>,
    edges: ShardedMap<CompiledEdge>,
    hosts: ShardedMap<CompiledEdge>
  ) {
    this.plan = plan
    this.policies = policies
    this.upstreams = upstreams
    this.edges = edges
    this.hosts = hosts
    this.#everyHost = hosts.size === 1 ? hosts.get('*') : undefined
  }

  static empty(): Snapshot {
    return new Snapshot(emptyPlan, ShardedMap.empty(), ShardedMap.empty(), ShardedMap.empty(), ShardedMap.empty())
  }

  get revision(): number {
    return this.plan.revision
  }

  policy(key: string): CompiledPolicy | undefined {
    return this.policies.get(key)
  }

  upstream(key: string): UpstreamUnit | undefined {
    return this.upstreams.get(key)
  }

  /** The route of a request, by lower-case host and normal path. */
  route(host: string, path: string): Route | undefined {
    const edge = this.#everyHost ?? findEdge(this.hosts, host)
    return edge?.routes.find(path)
  }

  /** The policy that sees a connection before its first byte: that of the edge that takes every host. */
  connectPolicy(): CompiledPolicy | undefined {
    const key = this.hosts.get('*')?.connectPolicy
    return key === undefined ? undefined : this.policies.get(key)
  }
}
