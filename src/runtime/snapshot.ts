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
import { type CompiledEdge, type EdgeAt, Edges, type PathTable, type Route } from './http-edges.js'
import { HttpsRules } from './https.js'
import type { Plan, UpstreamUnit } from './plan.js'
import { emptyPlan } from './plan-changes.js'
import { SecretTable } from './secrets.js'
import { type CompiledTcpEdge, TcpEdges } from './tcp-edges.js'

interface RoutedLogin extends LoginPlace {
  readonly route: Route
}

/** The route that answers a request for a path of logins, and how. */
interface FoundLogin extends OwnRequest {
  readonly route: Route
}

/**
 * The logins that the routes of one edge ask for, by a module or in a policy. Their paths belong to them on every host of the
 * edge, whatever the routes match.
 */
class EdgeLogins {
  readonly #routes: PathTable
  /** The shortest path first, so that the order says nothing about when a route was made. */
  readonly #places: readonly RoutedLogin[]

  constructor(routes: PathTable, units: ModuleUnits) {
    this.#routes = routes
    this.#places = [...routes]
      .flatMap((route) => placesOf(route, units))
      .sort((a, b) => a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
  }

  /** Undefined: the edge asks for no login, or not for the one that the request names. */
  find(own: OwnPath, request: FlowRequest): FoundLogin | undefined {
    if (this.#places.length === 0) return undefined
    const found = loginFor(own, request, this.#places, (path, among) => {
      const route = this.#routes.find(path)
      return among.find((place) => place.route === route)
    })
    if (found === undefined) return undefined
    const { place, call } = found
    return { route: place.route, by: place.gate, answer: (flow) => place.gate.answer(flow, call) }
  }
}

function placesOf(route: Route, units: ModuleUnits): RoutedLogin[] {
  const { path, modules } = route
  return (modules ?? []).flatMap(({ logins }) => (logins?.(units) ?? []).map((gate) => ({ gate, route, path })))
}

/** The text of a policy. `source`: a file name or a URI, for people. */
export interface PolicySource {
  readonly text: string
  readonly source: string
}

/** What a plan is compiled to. Each table is immutable and shared with the snapshot before where nothing changed. */
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

/** A plan compiled for execution. Immutable. */
export class Snapshot implements ModuleUnits {
  readonly plan: Plan
  readonly tables: Tables
  /** By the id of the edge, worked out when the first path of a login is asked for there. */
  readonly #logins: Map<string, EdgeLogins>
  /** The revision of the store that this is; the files of the process leave it as it is. 0: none yet, or there is no store. */
  readonly revision: number

  constructor(plan: Plan, tables: Tables, revision: number, logins = new Map<string, EdgeLogins>()) {
    this.plan = plan
    this.tables = tables
    this.revision = revision
    this.#logins = logins
  }

  /** The same under the number of another revision. */
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

  /** The text of a policy, as it was compiled, and where it comes from. */
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

  /** The edge with an internal host; undefined also when the host is not internal. */
  internalEdge(host: string, port: number | undefined): EdgeAt | undefined {
    return isInternal(host) ? this.claimant(host, port) : undefined
  }

  internalTcpEdge(host: string, port: number | undefined): CompiledTcpEdge | undefined {
    return isInternal(host) && port !== undefined ? this.tables.tcpEdges.at(host, port) : undefined
  }

  /** The edge of a lower-case host. For the ports see `HostTable.find`. */
  edge(host: string, publicPort?: number, ownPort?: number): CompiledEdge | undefined {
    return this.edgeAt(host, publicPort, ownPort)?.edge
  }

  /** As `edge`, with the hostport that was found. */
  edgeAt(host: string, publicPort?: number, ownPort?: number): EdgeAt | undefined {
    return this.tables.edges.hosts.at(host, publicPort, ownPort)
  }

  /** The edge that has a host by its name or a wildcard; undefined where it is that of every other host at best. */
  claimant(host: string, port?: number): EdgeAt | undefined {
    const found = this.edgeAt(host, port)
    return found?.endpoint === undefined || found.endpoint.host === ANY_HOST ? undefined : found
  }

  /** The route of a request, by lower-case host and normal path. */
  route(host: string, path: string, publicPort?: number, ownPort?: number): Route | undefined {
    return this.edge(host, publicPort, ownPort)?.routes.find(path)
  }

  /** The login of an edge that a request for a path of logins is for. */
  login({ id, routes }: CompiledEdge, own: OwnPath, request: FlowRequest): FoundLogin | undefined {
    let logins = this.#logins.get(id)
    if (logins === undefined) {
      logins = new EdgeLogins(routes, this)
      this.#logins.set(id, logins)
    }
    return logins.find(own, request)
  }

  /** The policy that sees a connection before its first byte: that of the edge that takes every host. */
  connectPolicy(): CompiledPolicy | undefined {
    const key = this.tables.edges.hosts.every?.connectPolicy
    return key === undefined ? undefined : this.policy(key)
  }
}

/** The one place that says which snapshot is current. Readers take it once per exchange and keep it. */
export class SnapshotHolder {
  #current: Snapshot

  constructor(first: Snapshot) {
    this.#current = first
  }

  current(): Snapshot {
    return this.#current
  }

  /** One assignment: exchanges that began before keep the snapshot they have. */
  swap(next: Snapshot): void {
    this.#current = next
  }
}
