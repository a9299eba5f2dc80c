import type { ModuleUnits } from '../features/contract.js'
import { type LoginPlace, loginFor } from '../features/login/selection.js'
import type { FlowRequest, OwnRequest } from '../flow/flow.js'
import type { OwnPath } from '../flow/reserved-paths.js'
import type { PathTable, Route } from './routes.js'

interface RoutedLogin extends LoginPlace {
  readonly route: Route
}

/** The route that answers a request for a path of logins, and how. */
export interface FoundLogin extends OwnRequest {
  readonly route: Route
}

/**
 * The logins that the routes of one edge ask for, by a module or in a policy. Their paths belong to them on every host of the
 * edge, whatever the routes match.
 */
export class EdgeLogins {
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
