import { isDeepStrictEqual } from 'node:util'
import type { ShardedMap } from '../lib/sharded-map.js'
import type { EdgeUnit, RouteConfig, Unit } from '../plan/plan.js'
import type { ResourceRecord } from '../resources/field.js'
import { deriveAll } from './derive-all.js'
import { HostIndex, type HostPorts, hostPorts } from './host-index.js'
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

/** A record after a write; undefined when it is gone. */
export interface Touched {
  readonly kind: string
  readonly id: string
  readonly after: ResourceRecord | undefined
}

/** What a write means for the plan. Nothing remembers it before `commit`. */
export interface Derived {
  readonly put: readonly (readonly [key: string, unit: Unit])[]
  readonly drop: readonly string[]
  commit(): void
}

interface Edits {
  /** Hosts of touched edges; empty: the edge is gone. */
  readonly hosts: Map<string, HostPorts>
  /** Touched routes by edge; null: gone. */
  readonly routes: Map<string, Map<string, RouteConfig | null>>
  readonly edgeOf: Map<string, string | null>
  readonly gone: Set<string>
  /** Other units; null: gone. */
  readonly units: Map<string, Unit | null>
}

const NO_HOSTS: HostPorts = new Map()
const NO_EDITS: ReadonlyMap<string, HostPorts> = new Map()

/**
 * Changed records to changed units. Costs what the change touches: beside it stands who has which host and which route
 * belongs to which edge, so that neither all records nor the store are asked.
 */
export class Derivation {
  #hosts = new HostIndex()
  #edges = new Map<string, string>()

  /** Starts again from all records and answers their units. */
  reset(records: Iterable<ResourceRecord>): ReadonlyMap<string, Unit> {
    const { units, hosts, edges } = deriveAll(records)
    this.#hosts = hosts
    this.#edges = edges
    return units
  }

  /** The edge that serves a host, as far as this process has followed. */
  edgeOn(host: string): string | undefined {
    return this.#hosts.winner(host, NO_EDITS)
  }

  /** `running`: the units of the plan that the change starts from. */
  derive(running: ShardedMap<Unit>, touched: readonly Touched[]): Derived {
    const edits: Edits = { hosts: new Map(), routes: new Map(), edgeOf: new Map(), gone: new Set(), units: new Map() }
    for (const { kind, id, after } of touched) {
      if (kind === EDGE) touchEdge(edits, id, after as EdgeRecord | undefined)
      if (kind === STATIC)
        edits.units.set(upstreamKey(id), after === undefined ? null : upstreamUnit(after as StaticRecord))
    }
    for (const { kind, id, after } of touched) {
      if (kind === ROUTE) this.#touchRoute(running, edits, id, after as RouteRecord | undefined)
    }
    for (const id of edits.gone) edits.units.set(edgeKey(id), null)
    for (const id of this.#affectedEdges(running, edits)) edits.units.set(edgeKey(id), this.#edge(running, edits, id))
    return { ...difference(running, edits.units), commit: () => this.#commit(edits) }
  }

  #touchRoute(running: ShardedMap<Unit>, edits: Edits, id: string, after: RouteRecord | undefined): void {
    const edge = after?.body.edge_id ?? this.#edges.get(id)
    const known = edge !== undefined && !edits.gone.has(edge) && (edits.hosts.has(edge) || running.has(edgeKey(edge)))
    const route = known ? after : undefined
    edits.units.set(policyKey(id), (route === undefined ? undefined : policyUnit(route)) ?? null)
    edits.edgeOf.set(id, route === undefined ? null : (edge as string))
    if (!known) return
    const routes = edits.routes.get(edge) ?? new Map<string, RouteConfig | null>()
    edits.routes.set(edge, routes.set(id, route === undefined ? null : routeConfig(route)))
  }

  /** Edges with a change of their own, and those whose share of a host may move with it. */
  #affectedEdges(running: ShardedMap<Unit>, edits: Edits): Set<string> {
    const affected = new Set(edits.routes.keys())
    for (const [edge, after] of edits.hosts) {
      affected.add(edge)
      for (const host of new Set([...this.#hosts.hostsOf(edge), ...after.keys()])) {
        for (const winner of [this.#hosts.winner(host, NO_EDITS), this.#hosts.winner(host, edits.hosts)]) {
          if (winner !== undefined) affected.add(winner)
        }
      }
    }
    for (const edge of affected) {
      if (edits.gone.has(edge) || !(edits.hosts.has(edge) || running.has(edgeKey(edge)))) affected.delete(edge)
    }
    return affected
  }

  #edge(running: ShardedMap<Unit>, edits: Edits, id: string): Unit {
    const before = running.get(edgeKey(id)) as EdgeUnit | undefined
    const hosts = [...(edits.hosts.get(id)?.keys() ?? this.#hosts.hostsOf(id))]
    const own = hosts.filter((host) => this.#hosts.winner(host, edits.hosts) === id)
    const changed = edits.routes.get(id)
    if (changed === undefined) return edgeUnit(id, own, before?.routes ?? [])
    const routes = (before?.routes ?? []).filter((route) => !changed.has(route.id))
    const put = [...changed.values()].filter((route) => route !== null)
    return edgeUnit(id, own, put.length === 0 ? routes : sortedRoutes([...routes, ...put]))
  }

  #commit({ hosts, edgeOf }: Edits): void {
    for (const [edge, ports] of hosts) this.#hosts.set(edge, ports)
    for (const [route, edge] of edgeOf) {
      if (edge === null) this.#edges.delete(route)
      else this.#edges.set(route, edge)
    }
  }
}

function touchEdge(edits: Edits, id: string, after: EdgeRecord | undefined): void {
  edits.hosts.set(id, after === undefined ? NO_HOSTS : hostPorts(after.body.hostports))
  if (after === undefined) edits.gone.add(id)
}

function difference(running: ShardedMap<Unit>, units: ReadonlyMap<string, Unit | null>): Omit<Derived, 'commit'> {
  const put: [string, Unit][] = []
  const drop: string[] = []
  for (const [key, unit] of units) {
    const before = running.get(key)
    if (unit === null) {
      if (before !== undefined) drop.push(key)
    } else if (!isDeepStrictEqual(before, unit)) put.push([key, unit])
  }
  return { put, drop }
}
