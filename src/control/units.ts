import type { PolicyUnit, RouteConfig, Unit, UpstreamUnit } from '../plan/plan.js'
import { staticBackend } from '../resources/backends.js'
import { httpsEdge } from '../resources/https-edge.js'
import { httpsEdgeRoute } from '../resources/https-edge-route.js'
import { pathOf } from '../resources/present.js'
import type { RecordOf } from '../resources/resource.js'
import { splitHostport } from './host-index.js'

export type EdgeRecord = RecordOf<typeof httpsEdge>
export type RouteRecord = RecordOf<typeof httpsEdgeRoute>
export type StaticRecord = RecordOf<typeof staticBackend>

export const EDGE = httpsEdge.name
export const ROUTE = httpsEdgeRoute.name
export const STATIC = staticBackend.name
/** The kinds of records that traffic depends on. A tunnel group is no unit: its tunnels are not configuration. */
export const PLANNED_KINDS: readonly string[] = [STATIC, EDGE, ROUTE]

export const edgeKey = (id: string) => `edge:${id}`
export const policyKey = (route: string) => `policy:${route}`
export const upstreamKey = (backend: string) => `upstream:${backend}`

/** A route as its edge's unit holds it. */
export function routeConfig({ id, body }: RouteRecord): RouteConfig {
  const { backend, match, match_type, traffic_policy } = body
  const forwards = backend?.enabled === true && backend.backend?.startsWith(`${staticBackend.idPrefix}_`) === true
  return {
    id,
    match: match_type === 'exact_path' ? 'exact' : 'prefix',
    path: match,
    ...(forwards ? { upstream: upstreamKey(backend.backend as string) } : {}),
    ...(traffic_policy?.enabled === true ? { policy: policyKey(id) } : {})
  }
}

/** The unit of a route's policy; undefined when none runs. */
export function policyUnit(route: RouteRecord): PolicyUnit | undefined {
  const policy = route.body.traffic_policy
  if (policy?.enabled !== true) return undefined
  const source = `${pathOf(httpsEdgeRoute, route)}/traffic_policy`
  return { kind: 'policy', owner: route.id, text: policy.value, source }
}

export function upstreamUnit({ body }: StaticRecord): UpstreamUnit {
  const { host, port } = splitHostport(body.address)
  return { kind: 'upstream', protocol: body.tls?.enabled === true ? 'https' : 'http', host, port }
}

/** In an order of their own, so that two ways to the same set give the same unit. */
export function sortedRoutes(routes: Iterable<RouteConfig>): RouteConfig[] {
  return [...routes].sort((a, b) => (a.id < b.id ? -1 : 1))
}

export function edgeUnit(id: string, hosts: Iterable<string>, routes: readonly RouteConfig[]): Unit {
  return { kind: 'edge', id, hosts: [...hosts].sort(), routes }
}
