import type { RouteConfig, Unit } from '../plan/plan.js'
import type { ResourceRecord } from '../resources/field.js'
import { HostIndex, hostPorts } from './host-index.js'
import {
  EDGE,
  type EdgeRecord,
  edgeKey,
  edgeUnit,
  policyKey,
  policyUnit,
  ROUTE,
  type RouteRecord,
  routeConfig,
  STATIC,
  type StaticRecord,
  sortedRoutes,
  upstreamKey,
  upstreamUnit
} from './units.js'

export interface DerivedAll {
  readonly units: ReadonlyMap<string, Unit>
  readonly hosts: HostIndex
  /** Route to its edge. */
  readonly edges: Map<string, string>
}

/** The units of all records, from nothing. Routes whose edge is not among them have none. */
export function deriveAll(records: Iterable<ResourceRecord>): DerivedAll {
  const units = new Map<string, Unit>()
  const hosts = new HostIndex()
  const edges = new Map<string, string>()
  const routesOf = new Map<string, RouteConfig[]>()
  const routes: RouteRecord[] = []
  for (const record of records) {
    if (record.kind === STATIC) units.set(upstreamKey(record.id), upstreamUnit(record as StaticRecord))
    if (record.kind === ROUTE) routes.push(record as RouteRecord)
    if (record.kind !== EDGE) continue
    hosts.set(record.id, hostPorts((record as EdgeRecord).body.hostports))
    routesOf.set(record.id, [])
  }
  for (const route of routes) {
    const siblings = routesOf.get(route.body.edge_id)
    if (siblings === undefined) continue
    siblings.push(routeConfig(route))
    edges.set(route.id, route.body.edge_id)
    const policy = policyUnit(route)
    if (policy !== undefined) units.set(policyKey(route.id), policy)
  }
  for (const [id, configs] of routesOf) {
    const own = [...hosts.hostsOf(id)].filter((host) => hosts.winner(host, new Map()) === id)
    units.set(edgeKey(id), edgeUnit(id, own, sortedRoutes(configs)))
  }
  return { units, hosts, edges }
}
