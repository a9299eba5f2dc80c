import type { CompiledModule } from '../features/contract.js'

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
