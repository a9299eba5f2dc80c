import type { EndpointFacts } from '../flow/flow.js'
import type { PathForm } from '../flow/target.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { atOnce, type Steps } from '../lib/slices.js'
import type { EdgeTls, EdgeUnit, HostPort } from './plan.js'
import type { PathTable } from './routes.js'

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
  /** The form of paths; absent: that of the listener. */
  readonly pathForm?: PathForm | undefined
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

/** Who asks for one host, in the order of `precedence`: the first is meant when no port is told, and of one port. */
type Holders = readonly Holder[]

/** The port of TLS by default: an edge with it is what a host without a port means. */
const DEFAULT_PORT = 443

/**
 * Host and port → edge: the exact name first, then the longest wildcard, then the edge that takes every host. A wildcard
 * holds the names below its suffix, at any depth, and not the suffix itself. Immutable.
 *
 * Edges hold `host:port` pairs. A request without a port gets the edge on 443, else the one on the lowest port. An edge that
 * yields serves what no other edge asks for, by name or wildcard. What is found follows from the edges alone, in whatever
 * order they came: an edge that stands behind another comes forward when that one has gone.
 */
export class HostTable {
  readonly #holders: ShardedMap<Holders>
  readonly #every: EdgeAt | undefined

  private constructor(holders: ShardedMap<Holders>, every: EdgeAt | undefined) {
    this.#holders = holders
    this.#every = every
  }

  static readonly empty = new HostTable(ShardedMap.empty(), undefined)

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
    for (const edge of drop) {
      yield
      if (edge.hosts === 'every') every = every?.edge.id === edge.id ? undefined : every
      else for (const { host } of edge.hosts) changed.set(host, without(of(host), edge))
    }
    for (const edge of put) {
      yield
      if (edge.hosts === 'every') every = { edge, endpoint: undefined }
      else for (const at of edge.hosts) changed.set(at.host, including(of(at.host), at, edge))
    }
    return new HostTable(yield* this.#holders.editing(held(changed), free(changed)), every)
  }

  /** The edge of `at`. */
  find(host: string, publicPort?: number, ownPort?: number): CompiledEdge | undefined {
    return this.at(host, publicPort, ownPort)?.edge
  }

  /** `publicPort`: the port that clients know; then only edges with it are found. `ownPort` is preferred where the host stands on several. */
  at(host: string, publicPort?: number, ownPort?: number): EdgeAt | undefined {
    if (this.#holders.size === 0) return this.#every
    const exact = chosen(this.#holders.get(host), publicPort, ownPort)
    if (exact !== undefined && !exact.edge.yields) return exact
    return this.#above(host, publicPort, ownPort) ?? exact ?? this.#every
  }

  #above(host: string, publicPort: number | undefined, ownPort: number | undefined): EdgeAt | undefined {
    let dot = host.indexOf('.')
    while (dot !== -1) {
      const above = chosen(this.#holders.get(`*${host.slice(dot)}`), publicPort, ownPort)
      if (above !== undefined) return above
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
  if (publicPort !== undefined) return holders.find(({ endpoint }) => endpoint.port === publicPort)
  const own = holders.length > 1 ? holders.find(({ endpoint }) => endpoint.port === ownPort) : undefined
  return own ?? holders[0]
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
