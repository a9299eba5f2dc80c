import type { MappedBackend, TrafficMap } from '../control/traffic-answers.js'
import type { Clock } from '../lib/clock.js'
import { timestampText } from '../lib/json.js'
import { appendTo } from '../lib/lists.js'
import type { ProcessPorts } from '../proxy/ports.js'
import type { UnitServers } from '../proxy/unit-servers.js'
import type { Certificates } from '../runtime/certificates.js'
import { destinationOf, type UnitNames } from '../runtime/names.js'
import type {
  EdgeUnit,
  HostPort,
  ListenerUnit,
  ModuleConfigs,
  RouteUnit,
  TcpEdgeUnit,
  Unit,
  UpstreamUnit
} from '../runtime/plan.js'
import type { Tally, TrafficRates } from '../telemetry/traffic-rates.js'

/** Edges beyond which a map is no map. */
const MOST_EDGES = 2_000
/** Maximum nesting depth of backends. */
const DEEPEST = 4

interface Units extends Iterable<readonly [string, Unit]> {
  get(key: string): Unit | undefined
}

type MappedEdge = TrafficMap['edges'][number]

interface MapParts {
  readonly units: Units
  readonly names: UnitNames
  readonly certificates: Certificates
  readonly rates: TrafficRates
  readonly servers: Pick<UnitServers, 'stateOf' | 'tunnelStatesOf'>
  readonly ports: Pick<ProcessPorts, 'listener'>
  readonly clock: Clock
}

/**
 * Returns the map of the running configuration, from listeners to the servers of backends, with the rates of the last minute. It is built from
 * the plan, so that it includes options, site files and the API. Contains names, addresses and the positions of policies, but no policy text and
 * no secret.
 */
export function trafficMap(parts: MapParts): TrafficMap {
  const all = [...parts.units]
  const listeners = all.flatMap(([key, unit]) => (unit.kind === 'listener' ? [listenerOf(key, unit, parts)] : []))
  const byEdge = new Map<string, RouteUnit[]>()
  for (const [, unit] of all) {
    if (unit.kind === 'route') appendTo(byEdge, unit.edge, unit)
  }
  const edges = all.flatMap(([, unit]) => (unit.kind === 'edge' && unit.passthrough !== true ? [unit] : []))
  const tcpEdges = all.flatMap(([, unit]) => (unit.kind === 'tcp_edge' ? [unit] : []))
  return {
    listeners,
    edges: edges.slice(0, MOST_EDGES).map((edge) => edgeOf(edge, byEdge.get(edge.id) ?? [], parts)),
    tcp_edges: tcpEdges.slice(0, MOST_EDGES).map((edge) => tcpEdgeOf(edge, parts)),
    omitted: Math.max(edges.length - MOST_EDGES, 0) + Math.max(tcpEdges.length - MOST_EDGES, 0)
  }
}

/** The port is the open one, which differs from a configured 0. */
function listenerOf(key: string, unit: ListenerUnit, { ports }: MapParts): TrafficMap['listeners'][number] {
  const { name, host, tls, publicPort } = unit
  return { key, name, host, port: ports.listener(key)?.port ?? unit.port, tls, public_port: publicPort ?? null }
}

function edgeOf({ id, hosts, protocol, onHttp }: EdgeUnit, routes: readonly RouteUnit[], parts: MapParts): MappedEdge {
  const { certificates, units, clock, names } = parts
  const named = hosts === 'every' ? [] : hosts
  return {
    id,
    name: names.siteOf(id) ?? id,
    protocol: protocol ?? 'https',
    hosts: named.map(({ host, port }) => {
      const shown = protocol === undefined ? certificates.find(host, clock.wall()) : undefined
      const unit = shown === undefined ? undefined : units.get(shown.key)
      const certificate = unit?.kind === 'certificate' ? { id: unit.id, not_after: unit.notAfter } : null
      return { host, port, certificate }
    }),
    every_host: hosts === 'every',
    on_http: onHttp ?? null,
    rates: ratesOf(parts, 'edge', id),
    routes: routes.map((route) => routeOf(route, parts))
  }
}

function routeOf({ id, match, path, modules, upstream }: RouteUnit, parts: MapParts): MappedEdge['routes'][number] {
  return {
    id,
    name: parts.names.routeOf(id) ?? id,
    match,
    path,
    modules: Object.keys(modules),
    policies: policiesOf(modules, parts),
    rates: ratesOf(parts, 'route', id),
    backend: upstream === undefined ? null : backendOf(upstream, parts, 0)
  }
}

function tcpEdgeOf({ id, ports, modules, upstream }: TcpEdgeUnit, parts: MapParts): TrafficMap['tcp_edges'][number] {
  const passed = passedHosts(parts.units, id)
  return {
    id,
    name: parts.names.siteOf(id) ?? id,
    protocol: passed === undefined ? 'tcp' : 'tls',
    ports: (passed ?? ports).map(({ host, port }) => ({ host, port })),
    modules: Object.keys(modules),
    policies: policiesOf(modules, parts),
    rates: ratesOf(parts, 'edge', id),
    backend: upstream === undefined ? null : backendOf(upstream, parts, 0)
  }
}

/** The hosts of a TCP edge that takes connections of TLS listeners. */
function passedHosts(units: Units, id: string): readonly HostPort[] | undefined {
  const edge = units.get(`edge:${id}`)
  return edge?.kind === 'edge' && edge.hosts !== 'every' ? edge.hosts : undefined
}

/** The policies that run, in their order; the text of one is at `GET /explain/policies/{owner}`. */
function policiesOf(modules: ModuleConfigs, { units }: MapParts): MappedEdge['routes'][number]['policies'] {
  return [modules.traffic_policy ?? []].flat().flatMap((named) => {
    const unit = units.get((named as { readonly policy: string }).policy)
    if (unit?.kind !== 'policy') return []
    const { owner, source, text } = unit
    return [{ owner, source, lines: text.trimEnd().split('\n').length }]
  })
}

function backendOf(key: string, parts: MapParts, depth: number): MappedBackend {
  const unit = parts.units.get(key)
  const id = key.slice(key.indexOf(':') + 1)
  if (unit?.kind !== 'upstream') return { id, name: id, form: 'missing', to: null, servers: [], members: [] }
  return {
    id,
    name: unit.name ?? id,
    form: unit.form,
    to: destinationOf(unit) ?? null,
    servers: serversOf(unit, parts),
    members: membersOf(unit, parts, depth)
  }
}

/** Returns the state of each server known here. */
function serversOf(unit: UpstreamUnit, { servers }: MapParts): MappedBackend['servers'] {
  const tunnels = servers.tunnelStatesOf(unit)
  if (tunnels !== undefined) return tunnels.map(([name, { state, reason, since }]) => shown(name, state, reason, since))
  const known = servers.stateOf(unit)
  if (known === undefined) return []
  const named = known.servers ?? [{ name: destinationOf(unit) ?? '', state: known }]
  return named.map(({ name, state: { state, reason, since } }) => shown(name, state, reason, since))
}

function shown(
  server: string,
  status: string,
  reason: string | null,
  since: number | undefined
): MappedBackend['servers'][number] {
  return { server, status, reason, since: since === undefined ? null : timestampText(since) }
}

function membersOf(unit: UpstreamUnit, parts: MapParts, depth: number): MappedBackend['members'] {
  if (depth === DEEPEST) return []
  if (unit.form === 'weighted') {
    return unit.members.map(({ upstream, weight }) => ({ weight, backend: backendOf(upstream, parts, depth + 1) }))
  }
  if (unit.form !== 'failover') return []
  return unit.members.map((upstream) => ({ weight: null, backend: backendOf(upstream, parts, depth + 1) }))
}

function ratesOf({ rates, clock }: MapParts, kind: 'route' | 'edge', id: string): MappedEdge['rates'] {
  const { requests, failed, refused, clientErrors }: Tally = rates.lastMinute(kind, id, clock.monotonic())
  return { requests, failed, refused, client_errors: clientErrors }
}
