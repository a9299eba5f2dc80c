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

/** An edge's routes, ready for lookup. */
export interface CompiledEdge {
  readonly id: string
  readonly hosts: readonly string[]
  readonly routes: PathTable
  /** Key of the policy whose `on_tcp_connect` sees connections. */
  readonly connectPolicy: string | undefined
}

/**
 * Path → route: an exact match first, then the longest prefix that ends on a segment border (`/a` holds `/a` and `/a/b`,
 * not `/ab`). Cost grows with the segments of the request's path, not with the number of routes.
 */
export class PathTable {
  readonly #exact = new Map<string, Route>()
  readonly #prefixes = new Map<string, Route>()
  /** The route of `/`, when it is the only one: the lookup then needs no search. */
  readonly #only: Route | undefined

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      if (route.match === 'exact') this.#exact.set(route.path, route)
      else this.#prefixes.set(withoutSlash(route.path), route)
    }
    this.#only = routes.length === 1 ? this.#prefixes.get('') : undefined
  }

  find(path: string): Route | undefined {
    if (this.#only !== undefined) return this.#only
    const exact = this.#exact.get(path)
    if (exact !== undefined) return exact
    let end = path.length
    while (end > 0) {
      const route = this.#prefixes.get(path.slice(0, end))
      if (route !== undefined) return route
      end = path.lastIndexOf('/', end - 1)
    }
    return this.#prefixes.get('')
  }
}

function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

/**
 * Host → edge: the exact name first, then the longest wildcard, then the edge that takes every host.
 * A wildcard holds the names below its suffix, at any depth, and not the suffix itself.
 */
export interface HostTable {
  get(host: string): CompiledEdge | undefined
}

export function findEdge(table: HostTable, host: string): CompiledEdge | undefined {
  const exact = table.get(host)
  if (exact !== undefined) return exact
  let dot = host.indexOf('.')
  while (dot !== -1) {
    const edge = table.get(`*${host.slice(dot)}`)
    if (edge !== undefined) return edge
    dot = host.indexOf('.', dot + 1)
  }
  return table.get('*')
}
