import type { CompiledModule } from '../features/contract.js'
import type { EndpointFacts } from '../flow/flow.js'
import type { PathForm } from '../flow/target.js'
import { ANY_HOST, hostPatterns } from '../lib/host.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { atOnce, Passes, type Steps } from '../lib/slices.js'
import { compileModules, type ModuleCompilation } from './modules.js'
import { compileRouteName, type RouteName, siteNameOf } from './names.js'
import type { EdgeTls, EdgeUnit, HostPort, Hsts, OnHttp, RouteUnit } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'
import { type Pool, type Pooled, withPools } from './pools.js'

/** Edge with its routes, ready for lookup. */
export interface CompiledEdge extends Pooled {
  readonly id: string
  /** Name of the site for people. */
  readonly name: string
  readonly hosts: EdgeUnit['hosts']
  readonly routes: PathTable
  /** Key of the policy whose `on_tcp_connect` runs for connections. */
  readonly connectPolicy: string | undefined
  readonly tls: EdgeTls | undefined
  /** Protocol of its clients. */
  readonly protocol: 'http' | 'https'
  /** Any other edge with a matching host takes precedence. */
  readonly yields: boolean
  /** TLS is passed through: the TCP edge of the same id carries the connections. */
  readonly passthrough?: true | undefined
  /** Form of paths. @default that of the listener */
  readonly pathForm?: PathForm | undefined
  /** Action for clients without TLS. @default that of the process */
  readonly onHttp?: OnHttp | undefined
  /** Strict-Transport-Security value. @default that of the process */
  readonly hsts?: string | undefined
}

/** Edge with the host and port that matched. */
export interface EdgeAt {
  readonly edge: CompiledEdge
  /** Endpoint that policies see; undefined for the catch-all edge, whose policies see the listener. */
  readonly endpoint: EndpointFacts | undefined
  /** Edges that share the URL with this one. */
  readonly pool?: Pool<EdgeAt> | undefined
}

type Holder = EdgeAt & { readonly endpoint: EndpointFacts }

/** Edges of one host in the order of `precedence`. The first serves requests without a port, and requests for its port. */
type Holders = readonly Holder[]

/** Default port of TLS; preferred for a host without a port. */
const DEFAULT_PORT = 443
/** Default ports that URLs omit. */
const USUAL_PORTS = { http: 80, https: DEFAULT_PORT } as const

/**
 * Host and port → edge. Order: exact name, patterns in the order of `hostPatterns`, catch-all edge. A leading wildcard matches names at any
 * depth below its suffix, not the suffix itself; a star after other labels matches one label. Immutable.
 *
 * Edges have `host:port` pairs. A pair with the default port of its protocol matches at every listener without a public port; any other
 * pair matches only at the listener of that port. A lookup without a port prefers the edge on 443, then the lowest port. A yielding edge
 * serves only requests that no other edge matches by name or wildcard. The result depends on the edges alone, not on their order: if an
 * edge is removed, the one that it shadowed takes its place.
 */
export class HostTable {
  readonly #holders: ShardedMap<Holders>
  readonly #every: EdgeAt | undefined
  /** Number of hosts with a star after other labels. */
  readonly #inner: number

  private constructor(holders: ShardedMap<Holders>, every: EdgeAt | undefined, inner: number) {
    this.#holders = holders
    this.#every = every
    this.#inner = inner
  }

  static readonly empty = new HostTable(ShardedMap.empty(), undefined, 0)

  /** Catch-all edge: serves every host that no other edge matches. */
  get every(): CompiledEdge | undefined {
    return this.#every?.edge
  }

  /** Returns the table without `drop` and with `put`. */
  with(put: Iterable<CompiledEdge>, drop: Iterable<CompiledEdge>): HostTable {
    return atOnce(this.editing(put, drop))
  }

  /** Does the work of `with` in steps. */
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

  /** Returns the edge that `at` finds. */
  find(host: string, publicPort?: number, ownPort?: number): CompiledEdge | undefined {
    return this.at(host, publicPort, ownPort)?.edge
  }

  /** Finds an edge. `publicPort`: the port that clients use; only edges with this port match. `ownPort`: the listener's port. */
  at(host: string, publicPort?: number, ownPort?: number): EdgeAt | undefined {
    if (this.#holders.size === 0) return this.#every
    const exact = chosen(this.#holders.get(host), publicPort, ownPort)
    if (exact !== undefined && !exact.edge.yields) return exact
    const above = this.#above(host, publicPort, ownPort) ?? exact
    return above ?? chosen(this.#holders.get(ANY_HOST), publicPort, ownPort) ?? this.#every
  }

  /** Returns the edges with exactly this host, on any port. */
  exactly(host: string): readonly EdgeAt[] {
    return this.#holders.get(host) ?? []
  }

  /** Returns the ports on which edges match the host by name or wildcard. */
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
  for (const [host, holders] of hosts) if (holders.length > 0) yield [host, withPools(holders, urlOf)]
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

function urlOf({ edge: { protocol, passthrough }, endpoint: { port } }: Holder): string {
  return `${passthrough === true ? 'tls' : protocol} ${port}`
}

/** Sorts yielding edges last, then by port, then by id. */
function precedence(a: Holder, b: Holder): number {
  if (a.edge.yields !== b.edge.yields) return a.edge.yields ? 1 : -1
  return rank(a.endpoint.port) - rank(b.endpoint.port) || (a.edge.id < b.edge.id ? -1 : 1)
}

function rank(port: number): number {
  return port === DEFAULT_PORT ? 0 : port
}

/** Route as the pipeline uses it. */
export interface Route {
  readonly id: string
  readonly edge: string
  readonly match: 'exact' | 'prefix'
  readonly path: string
  readonly upstream: string | undefined
  /** In order of execution; null for none. */
  readonly modules: readonly CompiledModule[] | null
  /** Name for people: its own, or the end of the name that the site begins. */
  readonly name: RouteName
}

/**
 * Path → route: an exact match first, then the longest prefix that ends at a segment boundary (`/a` matches `/a` and `/a/b`, not `/ab`).
 * The cost depends on the segments of the request path, not on the number of routes. Immutable.
 *
 * The result depends on the routes alone, not on their order: of two with the same path the lower id is used, and the other once that one
 * is removed.
 */
export class PathTable {
  /** Routes by id, shadowed ones included. */
  readonly #routes: ReadonlyMap<string, Route>
  readonly #exact = new Map<string, Route>()
  readonly #prefixes = new Map<string, Route>()
  /** Lengths of all prefixes; other lengths need no lookup. */
  readonly #lengths: ReadonlySet<number>
  /** Route of `/` if it is the only route; needs no search. */
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

  /** Number of routes. */
  get size(): number {
    return this.#routes.size
  }

  /** Returns the table without the routes of these ids and with `put`. */
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

/** HTTP edges with their routes. A route without an edge waits for its edge. Immutable. */
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

  /** Returns the routes of an edge; an empty table if the edge does not exist. */
  routesOf(id: string): PathTable {
    return this.#edges.get(id)?.routes ?? PathTable.empty
  }

  /** Compiles the changes. The cost depends on the routes of the changed edges alone. */
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
      const { passthrough, pool } = edge
      const asked = { connectPolicy, tls, pathForm, onHttp, hsts, yields, passthrough, pool }
      const name = siteNameOf(hosts, edge.name)
      put.set(id, { id, name, hosts, protocol, ...asked, routes: routesOf(id) })
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

// Iterates lazily: a complete list would block the event loop.

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
  const modules = compileModules(route.modules, key, id, compilation)
  return { id, edge, match, path, upstream, modules, name: compileRouteName(route) }
}

/** Returns the header value (RFC 6797 6.1); `preload` belongs to the preload lists of browsers (hstspreload.org). */
export function hstsValue({ maxAge, includeSubdomains, preload }: Hsts): string {
  return `max-age=${maxAge}${includeSubdomains ? '; includeSubDomains' : ''}${preload ? '; preload' : ''}`
}
