import type { ShardedMap } from '../lib/sharded-map.js'
import type { RouteUnit, Unit, UpstreamUnit } from '../runtime/plan.js'
import type { Units } from './live.js'

/**
 * Ids of the routes that a change of units touches: routes that change themselves, those of edges that change, and those
 * whose policy or upstream does, directly or through a group. `before`: the units that run. Looks at every route, so it is
 * for telling people, not for each write.
 */
export function touchedRoutes(before: ShardedMap<Unit>, { put, drop }: Pick<Units, 'put' | 'drop'>): string[] {
  const changed = new Set([...put.map(([key]) => key), ...drop])
  const after = before.with(put, drop)
  const touched = new Set<string>()
  for (const units of [before, after]) {
    for (const [key, unit] of units) {
      if (unit.kind === 'route' && concerns(key, unit, changed, units)) touched.add(unit.id)
    }
  }
  return [...touched].sort()
}

function concerns(key: string, route: RouteUnit, changed: ReadonlySet<string>, units: ShardedMap<Unit>): boolean {
  if (changed.has(key) || changed.has(`edge:${route.edge}`) || changed.has(`policy:${route.id}`)) return true
  return route.upstream !== undefined && leadsTo(route.upstream, changed, units)
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
