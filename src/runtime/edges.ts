import { ShardedMap } from '../lib/sharded-map.js'
import type { Steps } from '../lib/slices.js'
import { compileModules, type ModuleCompilation } from './compile-modules.js'
import { type CompiledEdge, HostTable } from './hosts.js'
import type { RouteUnit } from './plan.js'
import { PathTable, type Route } from './routes.js'
import { asKind, type UnitChange } from './unit-change.js'

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

  /** Compiles what changed: cost grows with the routes of the edges that are touched, not with all. */
  *editing(changes: readonly UnitChange[], compilation: ModuleCompilation): Steps<Edges> {
    const routes = yield* this.#changedRoutes(changes, compilation)
    const put = new Map<string, CompiledEdge>()
    const gone = new Map<string, CompiledEdge>()
    const routesOf = (id: string) => routes.get(id) ?? this.#routes.get(id) ?? PathTable.empty
    for (const { before, after } of changes) {
      yield
      const former = asKind(before, 'edge')
      const running = former === undefined ? undefined : this.#edges.get(former.id)
      if (running !== undefined) gone.set(running.id, running)
      const edge = asKind(after, 'edge')
      if (edge === undefined) continue
      const { id, hosts, connectPolicy, tls, pathForm, protocol = 'https', yields = false } = edge
      put.set(id, { id, hosts, connectPolicy, tls, pathForm, protocol, yields, routes: routesOf(id) })
    }
    for (const [id, table] of routes) {
      yield
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
    for (const { key, before, after } of changes) {
      yield
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
