import type { CompiledModule } from '../features/contract.js'
import type { EndpointFacts } from '../flow/flow.js'
import type { PathForm } from '../flow/target.js'
import { ANY_HOST, hostPatterns } from '../lib/host.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { atOnce, Passes, type Steps } from '../lib/slices.js'
import { compileModules, type ModuleCompilation } from './modules.js'
import type { EdgeTls, EdgeUnit, HostPort, Hsts, OnHttp, RouteUnit } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'

/** An edge's routes, ready for lookup. */
export interface CompiledEdge {
  readonly id: string
  readonly hosts: EdgeUnit['hosts']
  readonly routes: PathTable
  /** Key of the policy whose `on_tcp_connect` sees connections. */
  readonly connectPolicy: string | undefined
  readonly tls: EdgeTls | undefined
  /** What clients speak to it. */
  readonly protocol: 'http' | 'https'
  /** Gives way to every edge that does not. */
  readonly yields: boolean
  /** TLS of its names is not ended: the TCP edge of the same id carries their connections. */
  readonly passthrough?: true | undefined
  /** The form of paths; absent: that of the listener. */
  readonly pathForm?: PathForm | undefined
  /** What clients without TLS get; absent: what the process says. */
  readonly onHttp?: OnHttp | undefined
  /** Value of Strict-Transport-Security; absent: that of the process. */
  readonly hsts?: string | undefined
}

/** An edge at the hostport that was asked for. */
export interface EdgeAt {
  readonly edge: CompiledEdge
  /** How policies see it; undefined for the edge that takes every host, which is seen as its listener. */
  readonly endpoint: EndpointFacts | undefined
}

interface Holder extends EdgeAt {
  readonly endpoint: EndpointFacts
}

/** The edges that serve one host, in the order of `precedence`: the first is meant when the request names no port, and of one port. */
type Holders = readonly Holder[]

/** The port of TLS by default: an edge with it is what a host without a port means. */
const DEFAULT_PORT = 443
/** Ports that URLs leave out: a host without a port has them. */
const USUAL_PORTS = { http: 80, https: DEFAULT_PORT } as const

/**
 * Host and port → edge: the exact name first, then those with a star in the order of `hostPatterns`, then the edge that takes every host. A
 * wildcard holds the names below its suffix, at any depth, and not the suffix itself; a star behind other labels stands for one. Immutable.
 *
 * Edges hold `host:port` pairs. One with the port that URLs of its protocol leave out is found at every listener that knows no
 * public port; another one only at the listener whose port it is. A lookup without any port finds the edge on 443, else the one on
 * the lowest port. An edge that yields serves what no other edge asks for, by name or wildcard. What is found follows from the
 * edges alone, in whatever order they came: an edge that stands behind another comes forward when that one has gone.
 */
export class HostTable {
  readonly #holders: ShardedMap<Holders>
  readonly #every: EdgeAt | undefined
  /** Number of hosts with a star behind other labels. */
  readonly #inner: number

  private constructor(holders: ShardedMap<Holders>, every: EdgeAt | undefined, inner: number) {
    this.#holders = holders
    this.#every = every
    this.#inner = inner
  }

  static readonly empty = new HostTable(ShardedMap.empty(), undefined, 0)

  /** The edge that takes every host that no other edge claims. */
  get every(): CompiledEdge | undefined {
    return this.#every?.edge
  }

  /** The table without what `drop` held, and then with what `put` holds. */
  with(put: Iterable<CompiledEdge>, drop: Iterable<CompiledEdge>): HostTable {
    return atOnce(this.editing(put, drop))
  }

  /** As `with`, in steps. */
  *editing(put: Iterable<CompiledEdge>, drop: Iterable<CompiledEdge>): Steps<HostTable> {
    const changed = new Map<string, Holders>()
    let every = this.#every
    const of = (host: string): Holders => changed.get(host) ?? this.#holders.get(host) ?? []
    const passes = new Passes()
    for (const edge of drop) {
      if (passes.due()) yield
      if (edge.hosts === 'every') every = every?.edge.id === edge.id ? undefined : every
      else for (const { host } of edge.hosts) changed.set(host, without(of(host), edge))
    }
    for (const edge of put) {
      if (passes.due()) yield
      if (edge.hosts === 'every') every = { edge, endpoint: undefined }
      else for (const at of edge.hosts) changed.set(at.host, including(of(at.host), at, edge))
    }
    let inner = this.#inner
    for (const [host, holders] of changed) {
      if (host.indexOf('*') > 0) inner += Number(holders.length > 0) - Number(this.#holders.get(host) !== undefined)
    }
    return new HostTable(yield* this.#holders.editing(held(changed), free(changed)), every, inner)
  }

  /** The edge of `at`. */
  find(host: string, publicPort?: number, ownPort?: number): CompiledEdge | undefined {
    return this.at(host, publicPort, ownPort)?.edge
  }

  /** `publicPort`: the port that clients know; then only edges with it are found. `ownPort`: that of the listener. */
  at(host: string, publicPort?: number, ownPort?: number): EdgeAt | undefined {
    if (this.#holders.size === 0) return this.#every
    const exact = chosen(this.#holders.get(host), publicPort, ownPort)
    if (exact !== undefined && !exact.edge.yields) return exact
    const above = this.#above(host, publicPort, ownPort) ?? exact
    return above ?? chosen(this.#holders.get(ANY_HOST), publicPort, ownPort) ?? this.#every
  }

  /** The ports on which edges have the host, by its name or a wildcard. */
  portsOf(host: string): readonly number[] {
    const ports = new Set<number>()
    for (const name of hostPatterns(host))
      for (const { endpoint } of this.#holders.get(name) ?? []) ports.add(endpoint.port)
    return [...ports]
  }

  #above(host: string, publicPort: number | undefined, ownPort: number | undefined): EdgeAt | undefined {
    let dot = host.indexOf('.')
    let before = -1
    while (dot !== -1) {
      const behind = host.slice(dot)
      if (this.#inner > 0 && before !== -1) {
        const inner = chosen(this.#holders.get(`${host.slice(0, before)}.*${behind}`), publicPort, ownPort)
        if (inner !== undefined) return inner
      }
      const above = chosen(this.#holders.get(`*${behind}`), publicPort, ownPort)
      if (above !== undefined) return above
      before = dot
      dot = host.indexOf('.', dot + 1)
    }
    return undefined
  }
}

function chosen(
  holders: Holders | undefined,
  publicPort: number | undefined,
  ownPort: number | undefined
): EdgeAt | undefined {
  if (holders === undefined) return undefined
  const port = publicPort ?? ownPort
  if (port === undefined) return holders[0]
  let usual: Holder | undefined
  for (const holder of holders) {
    const { endpoint } = holder
    if (endpoint.port === port) return holder
    if (usual === undefined && publicPort === undefined && endpoint.port === USUAL_PORTS[holder.edge.protocol])
      usual = holder
  }
  return usual
}

function* held(hosts: ReadonlyMap<string, Holders>): Generator<[string, Holders]> {
  for (const [host, holders] of hosts) if (holders.length > 0) yield [host, holders]
}

function* free(hosts: ReadonlyMap<string, Holders>): Generator<string> {
  for (const [host, holders] of hosts) if (holders.length === 0) yield host
}

const without = (holders: Holders, { id }: CompiledEdge): Holders => holders.filter(({ edge }) => edge.id !== id)

function including(holders: Holders, { host, port }: HostPort, edge: CompiledEdge): Holders {
  const others = holders.filter(({ edge: other, endpoint }) => other.id !== edge.id || endpoint.port !== port)
  const holder: Holder = { edge, endpoint: { id: edge.id, protocol: edge.protocol, host, port } }
  return [...others, holder].sort(precedence)
}

/** Edges that yield last; then by port; of two on one port the one with the lower id has it. */
function precedence(a: Holder, b: Holder): number {
  if (a.edge.yields !== b.edge.yields) return a.edge.yields ? 1 : -1
  return rank(a.endpoint.port) - rank(b.endpoint.port) || (a.edge.id < b.edge.id ? -1 : 1)
}

function rank(port: number): number {
  return port === DEFAULT_PORT ? 0 : port
}

/** A route as the pipeline uses it. */
export interface Route {
  readonly id: string
  readonly edge: string
  readonly match: 'exact' | 'prefix'
  readonly path: string
  readonly upstream: string | undefined
  /** In order of execution; null for none. */
  readonly modules: readonly CompiledModule[] | null
}

/**
 * Path → route: an exact match first, then the longest prefix that ends on a segment border (`/a` holds `/a` and `/a/b`,
 * not `/ab`). Cost grows with the segments of the request's path, not with the number of routes. Immutable.
 *
 * What it finds follows from its routes alone, in whatever order they came: of two in one place the one with the lower id
 * has it, and the other as soon as that one has gone.
 */
export class PathTable {
  /** By id, those that stand behind another included. */
  readonly #routes: ReadonlyMap<string, Route>
  readonly #exact = new Map<string, Route>()
  readonly #prefixes = new Map<string, Route>()
  /** Lengths of the prefixes: where none ends, nothing is cut off and looked up. */
  readonly #lengths: ReadonlySet<number>
  /** The route of `/`, when it is the only one: the lookup then needs no search. */
  readonly #only: Route | undefined

  private constructor(routes: ReadonlyMap<string, Route>) {
    this.#routes = routes
    for (const route of routes.values()) {
      const { match, path } = route
      const [table, place] = match === 'exact' ? [this.#exact, path] : [this.#prefixes, withoutSlash(path)]
      const other = table.get(place)
      if (other === undefined || route.id < other.id) table.set(place, route)
    }
    this.#lengths = new Set(Array.from(this.#prefixes.keys(), ({ length }) => length))
    this.#only = this.#exact.size === 0 && this.#prefixes.size === 1 ? this.#prefixes.get('') : undefined
  }

  static readonly empty = new PathTable(new Map())

  static of(routes: Iterable<Route>): PathTable {
    return PathTable.empty.with(routes, [])
  }

  /** Number of its routes. */
  get size(): number {
    return this.#routes.size
  }

  /** The table without the routes of these ids, and then with `put`. */
  with(put: Iterable<Route>, drop: Iterable<Pick<Route, 'id'>>): PathTable {
    const routes = new Map(this.#routes)
    for (const { id } of drop) routes.delete(id)
    for (const route of put) routes.set(route.id, route)
    return new PathTable(routes)
  }

  *[Symbol.iterator](): Iterator<Route> {
    yield* this.#exact.values()
    yield* this.#prefixes.values()
  }

  find(path: string): Route | undefined {
    if (this.#only !== undefined) return this.#only
    const exact = this.#exact.size === 0 ? undefined : this.#exact.get(path)
    if (exact !== undefined) return exact
    let end = path.length
    while (end > 0) {
      const route = this.#lengths.has(end) ? this.#prefixes.get(path.slice(0, end)) : undefined
      if (route !== undefined) return route
      end = path.lastIndexOf('/', end - 1)
    }
    return this.#prefixes.get('')
  }
}

function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

/** HTTP edges with their routes. A route waits for its edge, whichever comes first. Immutable. */
export class Edges {
  readonly hosts: HostTable
  readonly #edges: ShardedMap<CompiledEdge>
  /** Edge's id → its routes. */
  readonly #routes: ShardedMap<PathTable>

  static readonly empty = new Edges(ShardedMap.empty(), ShardedMap.empty(), HostTable.empty)

  private constructor(edges: ShardedMap<CompiledEdge>, routes: ShardedMap<PathTable>, hosts: HostTable) {
    this.#edges = edges
    this.#routes = routes
    this.hosts = hosts
  }

  *[Symbol.iterator](): Iterator<CompiledEdge> {
    for (const [, edge] of this.#edges) yield edge
  }

  /** The routes of an edge; none when there is no such edge. */
  routesOf(id: string): PathTable {
    return this.#edges.get(id)?.routes ?? PathTable.empty
  }

  /** Compiles what changed: cost grows with the routes of the edges that are touched, not with all. */
  *editing(changes: readonly UnitChange[], compilation: ModuleCompilation): Steps<Edges> {
    const routes = yield* this.#changedRoutes(changes, compilation)
    const put = new Map<string, CompiledEdge>()
    const gone = new Map<string, CompiledEdge>()
    const routesOf = (id: string) => routes.get(id) ?? this.#routes.get(id) ?? PathTable.empty
    const passes = new Passes()
    for (const { before, after } of changes) {
      if (passes.due()) yield
      const former = asKind(before, 'edge')
      const running = former === undefined ? undefined : this.#edges.get(former.id)
      if (running !== undefined) gone.set(running.id, running)
      const edge = asKind(after, 'edge')
      if (edge === undefined) continue
      const { id, hosts, connectPolicy, tls, pathForm, onHttp, protocol = 'https', yields = false } = edge
      const hsts = edge.hsts === undefined ? undefined : hstsValue(edge.hsts)
      const { passthrough } = edge
      const asked = { connectPolicy, tls, pathForm, onHttp, hsts, yields, passthrough }
      put.set(id, { id, hosts, protocol, ...asked, routes: routesOf(id) })
    }
    for (const [id, table] of routes) {
      if (passes.due()) yield
      const running = this.#edges.get(id)
      if (running === undefined || put.has(id) || gone.has(id)) continue
      gone.set(id, running)
      put.set(id, { ...running, routes: table })
    }
    if (put.size === 0 && gone.size === 0 && routes.size === 0) return this
    return new Edges(
      yield* this.#edges.editing(put, leaving(gone, put)),
      yield* this.#routes.editing(filled(routes), emptied(routes)),
      yield* this.hosts.editing(put.values(), gone.values())
    )
  }

  *#changedRoutes(
    changes: readonly UnitChange[],
    compilation: ModuleCompilation
  ): Steps<ReadonlyMap<string, PathTable>> {
    const edits = new Map<string, { put: Route[]; drop: RouteUnit[] }>()
    const editsOf = (edge: string) => {
      const known = edits.get(edge) ?? { put: [], drop: [] }
      edits.set(edge, known)
      return known
    }
    const passes = new Passes()
    for (const { key, before, after } of changes) {
      if (passes.due() || after?.kind === 'route') yield
      const former = asKind(before, 'route')
      if (former !== undefined) editsOf(former.edge).drop.push(former)
      const route = asKind(after, 'route')
      if (route !== undefined) editsOf(route.edge).put.push(compileRoute(key, route, compilation))
    }
    const routes = new Map<string, PathTable>()
    for (const [edge, { put, drop }] of edits) {
      routes.set(edge, (this.#routes.get(edge) ?? PathTable.empty).with(put, drop))
      yield
    }
    return routes
  }
}

// Walked through as they are used: a list of all of them, made in one go, would hold up the loop.

function* leaving(gone: ReadonlyMap<string, unknown>, put: ReadonlyMap<string, unknown>): Generator<string> {
  for (const id of gone.keys()) if (!put.has(id)) yield id
}

function* filled(routes: ReadonlyMap<string, PathTable>): Generator<[string, PathTable]> {
  for (const [id, table] of routes) if (table.size > 0) yield [id, table]
}

function* emptied(routes: ReadonlyMap<string, PathTable>): Generator<string> {
  for (const [id, table] of routes) if (table.size === 0) yield id
}

function compileRoute(key: string, route: RouteUnit, compilation: ModuleCompilation): Route {
  const { id, edge, match, path, upstream } = route
  return { id, edge, match, path, upstream, modules: compileModules(route.modules, key, id, compilation) }
}

/** RFC 6797 6.1; `preload` is a word of the lists that browsers come with (hstspreload.org). */
export function hstsValue({ maxAge, includeSubdomains, preload }: Hsts): string {
  return `max-age=${maxAge}${includeSubdomains ? '; includeSubDomains' : ''}${preload ? '; preload' : ''}`
}
