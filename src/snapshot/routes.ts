import type { CompiledModule } from '../modules/contract.js'

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
 */
export class PathTable {
  readonly #exact: ReadonlyMap<string, Route>
  readonly #prefixes: ReadonlyMap<string, Route>
  /** Lengths of the prefixes: where none ends, nothing is cut off and looked up. */
  readonly #lengths: ReadonlySet<number>
  /** The route of `/`, when it is the only one: the lookup then needs no search. */
  readonly #only: Route | undefined

  private constructor(exact: ReadonlyMap<string, Route>, prefixes: ReadonlyMap<string, Route>) {
    this.#exact = exact
    this.#prefixes = prefixes
    this.#lengths = new Set(Array.from(prefixes.keys(), ({ length }) => length))
    this.#only = exact.size === 0 && prefixes.size === 1 ? prefixes.get('') : undefined
  }

  static readonly empty = new PathTable(new Map(), new Map())

  static of(routes: Iterable<Route>): PathTable {
    return PathTable.empty.with(routes, [])
  }

  get size(): number {
    return this.#exact.size + this.#prefixes.size
  }

  /** The table without `drop`, which are routes of its own, and then with `put`. */
  with(put: Iterable<Route>, drop: Iterable<Pick<Route, 'id' | 'match' | 'path'>>): PathTable {
    const exact = new Map(this.#exact)
    const prefixes = new Map(this.#prefixes)
    const placeOf = ({ match, path }: Pick<Route, 'match' | 'path'>): [Map<string, Route>, string] =>
      match === 'exact' ? [exact, path] : [prefixes, withoutSlash(path)]
    for (const route of drop) {
      const [table, path] = placeOf(route)
      if (table.get(path)?.id === route.id) table.delete(path)
    }
    for (const route of put) {
      const [table, path] = placeOf(route)
      table.set(path, route)
    }
    return new PathTable(exact, prefixes)
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
