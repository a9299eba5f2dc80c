import type { ModuleUnits } from '../features/contract.js'
import { type FlowRequest, isInternal, type OwnRequest } from '../flow/flow.js'
import type { OwnPath } from '../flow/reserved-paths.js'
import { ANY_HOST } from '../lib/host.js'
import type { AddressRules } from '../lib/ip.js'
import { ShardedMap } from '../lib/sharded-map.js'
import type { CompiledPolicy } from '../policy/compile.js'
import { type LoginPlace, loginFor } from '../policy/login-selection.js'
import { IpPolicies, Restrictions } from './address-filter.js'
import { Certificates } from './certificates.js'
import { type CompiledEdge, type EdgeAt, Edges, type Route } from './http-edges.js'
import { HttpsRules } from './https.js'
import { UnitNames } from './names.js'
import type { Plan, UpstreamUnit } from './plan.js'
import { emptyPlan } from './plan-changes.js'
import { SecretTable } from './secrets.js'
import { type CompiledTcpEdge, TcpEdges } from './tcp-edges.js'

interface RoutedLogin extends LoginPlace {
  readonly at: EdgeAt
  readonly route: Route
}

/** Login response to a request, with its edge and route. */
interface FoundLogin extends OwnRequest {
  readonly at: EdgeAt
  readonly route: Route
}

/**
 * Logins of the routes of one edge, or of all edges of a pool, by module or policy. Their paths are reserved on every host of the edge,
 * whatever the routes match.
 */
class EdgeLogins {
  /** Sorted by path length, so that the order does not depend on when a route was created. */
  readonly #places: readonly RoutedLogin[]

  constructor(edges: readonly EdgeAt[], units: ModuleUnits) {
    this.#places = edges
      .flatMap((at) => [...at.edge.routes].flatMap((route) => placesOf(at, route, units)))
      .sort((a, b) => a.path.length - b.path.length || (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))
  }

  /** Returns the login that the request names; one of `drawn` if it names none, and undefined if there is none. */
  find(own: OwnPath, request: FlowRequest, drawn: CompiledEdge): FoundLogin | undefined {
    if (this.#places.length === 0) return undefined
    const found = loginFor(own, request, this.#places, (path, among) => {
      const route = drawn.routes.find(path)
      return among.find((place) => place.route === route)
    })
    if (found === undefined) return undefined
    const { place, call } = found
    return { at: place.at, route: place.route, by: place.gate, answer: (flow) => place.gate.answer(flow, call) }
  }
}

function placesOf(at: EdgeAt, route: Route, units: ModuleUnits): RoutedLogin[] {
  const { path, modules } = route
  return (modules ?? []).flatMap(({ logins }) => (logins?.(units) ?? []).map((gate) => ({ gate, at, route, path })))
}

/** Text of a policy. `source`: a file name or URI, for messages. */
export interface PolicySource {
  readonly text: string
  readonly source: string
}

/** Compiled tables of a plan. Immutable; unchanged tables are shared with the previous snapshot. */
interface Tables {
  readonly policies: ShardedMap<CompiledPolicy>
  readonly upstreams: ShardedMap<UpstreamUnit>
  readonly edges: Edges
  readonly https: HttpsRules
  readonly tcpEdges: TcpEdges
  readonly ipPolicies: IpPolicies
  readonly restrictions: Restrictions
  readonly certificates: Certificates
  readonly secrets: SecretTable
}

/** Compiled plan. Immutable. */
export class Snapshot implements ModuleUnits {
  readonly plan: Plan
  readonly tables: Tables
  /** Logins by edge or pool, computed on the first request for a login path. */
  readonly #logins: WeakMap<object, EdgeLogins>
  /** Revision of the store; files of the process do not change it. 0: no revision or no store. */
  readonly revision: number

  constructor(plan: Plan, tables: Tables, revision: number, logins = new WeakMap<object, EdgeLogins>()) {
    this.plan = plan
    this.tables = tables
    this.revision = revision
    this.#logins = logins
  }

  /** Returns the same snapshot with another revision number. */
  at(revision: number): Snapshot {
    return revision === this.revision ? this : new Snapshot(this.plan, this.tables, revision, this.#logins)
  }

  static empty(): Snapshot {
    return new Snapshot(
      emptyPlan,
      {
        policies: ShardedMap.empty(),
        upstreams: ShardedMap.empty(),
        edges: Edges.empty,
        https: HttpsRules.empty,
        tcpEdges: TcpEdges.empty,
        ipPolicies: IpPolicies.empty,
        restrictions: Restrictions.empty,
        certificates: Certificates.empty,
        secrets: SecretTable.empty
      },
      0
    )
  }

  policy(key: string): CompiledPolicy | undefined {
    return this.tables.policies.get(key)
  }

  /** Returns the text of a policy as it was compiled, and its origin. */
  policySource(key: string): PolicySource | undefined {
    const unit = this.plan.units.get(key)
    return unit?.kind === 'policy' ? { text: unit.text, source: unit.source } : undefined
  }

  upstream(key: string): UpstreamUnit | undefined {
    return this.tables.upstreams.get(key)
  }

  ipPolicy(id: string): AddressRules | undefined {
    return this.tables.ipPolicies.get(id)
  }

  secret(vault: string, name: string): string | undefined {
    return this.tables.secrets.get(vault, name)
  }

  hasInternal(layer: 'http' | 'tcp', host: string, port: number | undefined): boolean {
    return layer === 'http'
      ? this.internalEdge(host, port) !== undefined
      : this.internalTcpEdge(host, port) !== undefined
  }

  /** Returns the edge with an internal host, drawn from its pool; undefined also if the host is not internal. */
  internalEdge(host: string, port: number | undefined): EdgeAt | undefined {
    const found = isInternal(host) ? this.claimant(host, port) : undefined
    return found?.pool?.draw() ?? found
  }

  internalTcpEdge(host: string, port: number | undefined): CompiledTcpEdge | undefined {
    return isInternal(host) && port !== undefined ? this.tables.tcpEdges.at(host, port) : undefined
  }

  /** Returns the edge of a lower-case host. For the ports see `HostTable.find`. */
  edge(host: string, publicPort?: number, ownPort?: number): CompiledEdge | undefined {
    return this.edgeAt(host, publicPort, ownPort)?.edge
  }

  /** Returns the edge with the host and port that matched. */
  edgeAt(host: string, publicPort?: number, ownPort?: number): EdgeAt | undefined {
    return this.tables.edges.hosts.at(host, publicPort, ownPort)
  }

  /** Returns the edge for one connection: of a pool, a member drawn at random. */
  drawnAt(host: string, publicPort?: number, ownPort?: number): EdgeAt | undefined {
    const found = this.edgeAt(host, publicPort, ownPort)
    return found?.pool?.draw() ?? found
  }

  /**
   * Returns the edge for a request of a client; undefined for an internal host. `serves`: whether an upstream has servers; a member of a pool
   * whose upstreams have none is passed over.
   */
  clientEdge(
    host: string,
    { publicPort, port }: { readonly publicPort?: number | undefined; readonly port?: number | undefined },
    serves: ((upstream: UpstreamUnit) => boolean) | undefined
  ): EdgeAt | undefined {
    if (isInternal(host)) return undefined
    const found = this.edgeAt(host, publicPort, port)
    if (found?.pool === undefined) return found
    return found.pool.draw(serves && (({ edge }) => this.#isServed(edge, serves)))
  }

  /** Returns false if no upstream of the edge's routes has a server. */
  #isServed({ routes }: CompiledEdge, serves: (upstream: UpstreamUnit) => boolean): boolean {
    for (const { upstream } of routes) {
      const unit = upstream === undefined ? undefined : this.upstream(upstream)
      if (unit === undefined || serves(unit)) return true
    }
    return false
  }

  /** Returns the edge that matches a host by name or wildcard; undefined for the catch-all edge. */
  claimant(host: string, port?: number): EdgeAt | undefined {
    const found = this.edgeAt(host, port)
    return found?.endpoint === undefined || found.endpoint.host === ANY_HOST ? undefined : found
  }

  /** Returns the route of a request, by lower-case host and normalized path. */
  route(host: string, path: string, publicPort?: number, ownPort?: number): Route | undefined {
    return this.edge(host, publicPort, ownPort)?.routes.find(path)
  }

  /** Returns the login for a request with a login path: a member of a pool may have begun what comes back to another one. */
  login(found: EdgeAt, own: OwnPath, request: FlowRequest): FoundLogin | undefined {
    const key = found.pool ?? found.edge
    let logins = this.#logins.get(key)
    if (logins === undefined) {
      logins = new EdgeLogins(found.pool?.members ?? [found], this)
      this.#logins.set(key, logins)
    }
    return logins.find(own, request, found.edge)
  }

  /** Returns the policy that runs before the first byte of a connection: that of the catch-all edge. */
  connectPolicy(): CompiledPolicy | undefined {
    const key = this.tables.edges.hosts.every?.connectPolicy
    return key === undefined ? undefined : this.policy(key)
  }
}

/** Holds the current snapshot. Readers read it once per exchange and keep it. */
export class SnapshotHolder {
  /** Names of the units of the current snapshot. */
  readonly names = new UnitNames(() => this.#current.plan.units)
  #current: Snapshot

  constructor(first: Snapshot) {
    this.#current = first
  }

  current(): Snapshot {
    return this.#current
  }

  /** Replaces the snapshot by one assignment; running exchanges keep theirs. */
  swap(next: Snapshot): void {
    this.#current = next
  }
}
