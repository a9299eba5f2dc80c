import type { CompiledModule } from '../features/contract.js'
import { formatAuthority } from '../lib/host.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import { compileModules, type ModuleCompilation } from './modules.js'
import { siteNameOf } from './names.js'
import type { HostPort, TcpEdgeUnit } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'
import { makePool, type Pool, type Pooled } from './pools.js'

/** Compiled TCP edge. The object stays the same while its unit is unchanged. */
export interface CompiledTcpEdge extends Pooled {
  readonly id: string
  /** Name of the site for people. */
  readonly name: string
  readonly ports: TcpEdgeUnit['ports']
  /** Key of a unit. */
  readonly upstream: string | undefined
  /** In order of execution; null for none. */
  readonly modules: readonly CompiledModule[] | null
}

/** Edges of one host and port, by id; several only in a pool. */
interface Place {
  readonly edges: readonly CompiledTcpEdge[]
  readonly pool: Pool<CompiledTcpEdge> | undefined
}

/** TCP edges by id. Immutable. */
export class TcpEdges {
  readonly #edges: ShardedMap<CompiledTcpEdge>
  /** `host:port` → edges. */
  readonly #places: ShardedMap<Place>

  private constructor(edges: ShardedMap<CompiledTcpEdge>, places: ShardedMap<Place>) {
    this.#edges = edges
    this.#places = places
  }

  static readonly empty = new TcpEdges(ShardedMap.empty(), ShardedMap.empty())

  get(id: string): CompiledTcpEdge | undefined {
    return this.#edges.get(id)
  }

  /** Returns the edge with exactly this host and port; of a pool, a member drawn at random. */
  at(host: string, port: number): CompiledTcpEdge | undefined {
    const place = this.#places.get(formatAuthority(host, port))
    return place?.pool?.draw() ?? place?.edges[0]
  }

  /** Returns the edges at this host and port that share it, or would. */
  sharing({ host, port }: HostPort): readonly CompiledTcpEdge[] {
    const place = this.#places.get(formatAuthority(host, port))
    return place?.edges.filter(({ pool }) => pool !== undefined) ?? []
  }

  *[Symbol.iterator](): Iterator<CompiledTcpEdge> {
    for (const [, edge] of this.#edges) yield edge
  }

  *editing(changes: readonly UnitChange[], compilation: ModuleCompilation): Steps<TcpEdges> {
    const put: [string, CompiledTcpEdge][] = []
    const drop: string[] = []
    const places = new Map<string, readonly CompiledTcpEdge[]>()
    const edgesAt = (place: string) => places.get(place) ?? this.#places.get(place)?.edges ?? []
    const passes = new Passes()
    for (const { key, before, after } of changes) {
      if (passes.due() || after?.kind === 'tcp_edge') yield
      const former = asKind(before, 'tcp_edge')
      if (former !== undefined && after === undefined) drop.push(former.id)
      for (const place of placesOf(former)) {
        places.set(
          place,
          edgesAt(place).filter(({ id }) => id !== former?.id)
        )
      }
      const edge = asKind(after, 'tcp_edge')
      if (edge === undefined) continue
      const { id, ports, upstream, pool } = edge
      const name = siteNameOf(ports, edge.name)
      put.push([id, { id, name, ports, upstream, pool, modules: compileModules(edge.modules, key, id, compilation) }])
    }
    if (put.length === 0 && drop.length === 0) return this
    // Put after all removals: one change may move a host and port between edges.
    for (const [, edge] of put) {
      for (const place of placesOf(edge)) places.set(place, including(edgesAt(place), edge))
    }
    return new TcpEdges(yield* this.#edges.editing(put, drop), yield* this.#places.editing(held(places), free(places)))
  }
}

function placesOf(edge: Pick<TcpEdgeUnit, 'ports'> | undefined): readonly string[] {
  return edge?.ports.map(({ host, port }) => formatAuthority(host, port)) ?? []
}

/** An edge that does not share its place takes it over. */
function including(edges: readonly CompiledTcpEdge[], edge: CompiledTcpEdge): readonly CompiledTcpEdge[] {
  if (edge.pool === undefined) return [edge]
  const others = edges.filter(({ id, pool }) => id !== edge.id && pool !== undefined)
  return [...others, edge].sort((a, b) => (a.id < b.id ? -1 : 1))
}

// Iterates lazily: a complete list would block the event loop.

function* held(places: ReadonlyMap<string, readonly CompiledTcpEdge[]>): Generator<[string, Place]> {
  for (const [place, edges] of places) {
    if (edges.length > 0) yield [place, { edges, pool: makePool(edges, ({ pool }) => pool) }]
  }
}

function* free(places: ReadonlyMap<string, readonly CompiledTcpEdge[]>): Generator<string> {
  for (const [place, { length }] of places) if (length === 0) yield place
}
