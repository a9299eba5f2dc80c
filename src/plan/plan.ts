import { isDeepStrictEqual } from 'node:util'
import { ShardedMap } from '../lib/sharded-map.js'

/**
 * The whole running configuration as plain data: keyed, immutable units that refer to each other by key. Whatever can
 * be said about a configuration is a function of this. Secrets are no part of it.
 */
export interface Plan {
  readonly revision: number
  readonly units: ShardedMap<Unit>
}

/** A socket that accepts traffic. Key `listener:<name>`. */
export interface ListenerUnit {
  readonly kind: 'listener'
  readonly name: string
  readonly host: string
  readonly port: number
}

/** Where a route sends traffic. Key `upstream:<name>`. */
export interface UpstreamUnit {
  readonly kind: 'upstream'
  readonly protocol: 'http' | 'https'
  readonly host: string
  readonly port: number
  /** PEM text of the certificate authorities to trust instead of the system's; only for https. */
  readonly certificateAuthorities?: string
}

/** A traffic policy document. Key `policy:<owner>`. */
export interface PolicyUnit {
  readonly kind: 'policy'
  /** Part of the identity of the counters of its actions. */
  readonly owner: string
  readonly text: string
  /** Where the text came from, for messages: a file name or a URI. */
  readonly source: string
}

export interface RouteConfig {
  readonly id: string
  readonly match: 'exact' | 'prefix'
  readonly path: string
  /** Keys of units; absent: nothing to forward to, no policy. */
  readonly upstream?: string
  readonly policy?: string
}

/** An entry for traffic with its routes. Key `edge:<id>`. */
export interface EdgeUnit {
  readonly kind: 'edge'
  readonly id: string
  /** Lower-case host names; `*.example.com` for every name below; `*` for every host that no other edge claims. */
  readonly hosts: readonly string[]
  readonly routes: readonly RouteConfig[]
  /** Key of the policy whose `on_tcp_connect` sees connections; only on the edge of every host. */
  readonly connectPolicy?: string
}

export type Unit = ListenerUnit | UpstreamUnit | PolicyUnit | EdgeUnit

/** The units that a write puts and drops, from one revision to another. */
export interface Change {
  readonly from: number
  readonly to: number
  readonly put: readonly (readonly [key: string, unit: Unit])[]
  readonly drop: readonly string[]
}

export const emptyPlan: Plan = { revision: 0, units: ShardedMap.empty() }

/**
 * The plan after `change`; the plan given stays as it is.
 * Throws a RangeError when the change does not start at the plan's revision: applying it would lose a write.
 */
export function apply(plan: Plan, change: Change): Plan {
  if (change.from !== plan.revision) {
    throw new RangeError(`the change starts at revision ${change.from}, the plan is at ${plan.revision}`)
  }
  return { revision: change.to, units: plan.units.with(change.put, change.drop) }
}

/** The change that leads from a plan to exactly `units`; undefined when there is no difference. */
export function difference(plan: Plan, units: ReadonlyMap<string, Unit>): Change | undefined {
  const put: [string, Unit][] = []
  const drop: string[] = []
  for (const [key, unit] of units) {
    const before = plan.units.get(key)
    if (before === undefined || !isDeepStrictEqual(before, unit)) put.push([key, unit])
  }
  for (const [key] of plan.units) if (!units.has(key)) drop.push(key)
  if (put.length === 0 && drop.length === 0) return undefined
  return { from: plan.revision, to: plan.revision + 1, put, drop }
}
