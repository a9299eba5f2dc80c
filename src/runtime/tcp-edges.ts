import type { CompiledModule } from '../features/contract.js'
import { formatAuthority } from '../lib/host.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import { compileModules, type ModuleCompilation } from './modules.js'
import { siteNameOf } from './names.js'
import type { TcpEdgeUnit } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'

/** Compiled TCP edge. The object stays the same while its unit is unchanged. */
export interface CompiledTcpEdge {
  readonly id: string
  /** Name of the site for people. */
  readonly name: string
  readonly ports: TcpEdgeUnit['ports']
  /** Key of a unit. */
  readonly upstream: string | undefined
  /** In order of execution; null for none. */
  readonly modules: readonly CompiledModule[] | null
}

/** TCP edges by id. Immutable. */
export class TcpEdges {
  readonly #edges: ShardedMap<CompiledTcpEdge>
  /** `host:port` → edge. */
  readonly #places: ShardedMap<CompiledTcpEdge>

  private constructor(edges: ShardedMap<CompiledTcpEdge>, places: ShardedMap<CompiledTcpEdge>) {
    this.#edges = edges
    this.#places = places
  }

  static readonly empty = new TcpEdges(ShardedMap.empty(), ShardedMap.empty())

  get(id: string): CompiledTcpEdge | undefined {
    return this.#edges.get(id)
  }

  /** Returns the edge with exactly this host and port. */
  at(host: string, port: number): CompiledTcpEdge | undefined {
    return this.#places.get(formatAuthority(host, port))
  }

  *[Symbol.iterator](): Iterator<CompiledTcpEdge> {
    for (const [, edge] of this.#edges) yield edge
  }

  *editing(changes: readonly UnitChange[], compilation: ModuleCompilation): Steps<TcpEdges> {
    const put: [string, CompiledTcpEdge][] = []
    const drop: string[] = []
    const left = new Set<string>()
    const passes = new Passes()
    for (const { key, before, after } of changes) {
      if (passes.due() || after?.kind === 'tcp_edge') yield
      const former = asKind(before, 'tcp_edge')
      if (former !== undefined && after === undefined) drop.push(former.id)
      for (const { host, port } of former?.ports ?? []) left.add(formatAuthority(host, port))
      const edge = asKind(after, 'tcp_edge')
      if (edge === undefined) continue
      const { id, ports, upstream } = edge
      const name = siteNameOf(ports, edge.name)
      put.push([id, { id, name, ports, upstream, modules: compileModules(edge.modules, key, id, compilation) }])
    }
    if (put.length === 0 && drop.length === 0) return this
    // Removed first: one change may move a host and port between edges.
    const freed = yield* this.#places.editing([], left)
    return new TcpEdges(yield* this.#edges.editing(put, drop), yield* freed.editing(placesOf(put)))
  }
}

function* placesOf(
  edges: Iterable<readonly [id: string, edge: CompiledTcpEdge]>
): Generator<[string, CompiledTcpEdge]> {
  for (const [, edge] of edges) for (const { host, port } of edge.ports) yield [formatAuthority(host, port), edge]
}
