import { touchedRoutes, touchedTcpEdges, type Units } from '../../control/apply.js'
import type { GuardScope } from '../../control/guard-note.js'
import type { ShardedMap } from '../../lib/sharded-map.js'
import type { Unit } from '../../runtime/plan.js'

const ALL: GuardScope = { all: true, routes: [], edges: [], hosts: [] }
/** A write that touches more is judged by all traffic: notes hold the scope. */
const MOST_NAMES = 1_000
const TRACED: ReadonlySet<Unit['kind']> = new Set(['route', 'edge', 'policy', 'upstream', 'tcp_edge'])

/**
 * Returns the traffic scopes that a change of units can break: the touched routes, and all routes of their edges, because
 * requests may move between routes. Returns all traffic if the change affects other units.
 */
export function scopesOf(before: ShardedMap<Unit>, change: Pick<Units, 'put' | 'drop'>): readonly GuardScope[] {
  const after = before.with(change.put, change.drop)
  const keys = [...change.put.map(([key]) => key), ...change.drop]
  const changed = keys.flatMap((key) => [before.get(key) ?? [], after.get(key) ?? []].flat())
  if (changed.length === 0 || changed.some(({ kind }) => !TRACED.has(kind))) return [ALL]
  const routes = touchedRoutes(before, change)
  const edges = new Set(touchedTcpEdges(before, change))
  const hosts = new Set<string>()
  for (const unit of changed) if (unit.kind === 'edge') edges.add(unit.id)
  for (const units of [before, after]) {
    for (const id of routes) {
      const route = units.get(`route:${id}`)
      if (route?.kind === 'route') edges.add(route.edge)
    }
  }
  for (const units of [before, after]) {
    for (const id of edges) {
      const edge = units.get(`edge:${id}`)
      if (edge?.kind === 'edge' && edge.hosts !== 'every') for (const { host } of edge.hosts) hosts.add(host)
    }
  }
  if (edges.size === 0 || routes.length + edges.size + hosts.size > MOST_NAMES) return [ALL]
  const scopes: GuardScope[] = [{ all: false, routes: [], edges: [...edges], hosts: [...hosts] }]
  if (routes.length > 0) scopes.push({ all: false, routes, edges: [], hosts: [] })
  return scopes
}
