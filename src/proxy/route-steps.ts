import { type FailureAnswer, MOST_HOPS, pathErrors, requestErrors } from '../flow/error-codes.js'
import type { EndpointFacts, FlowRequest } from '../flow/flow.js'
import { ownPath } from '../flow/reserved-paths.js'
import { hasParameters, withoutParameters } from '../flow/target.js'
import type { Verdict } from '../flow/verdict.js'
import type { CompiledEdge, EdgeAt, Route } from '../runtime/http-edges.js'
import { routeNameOf } from '../runtime/names.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { type AdmittedFlow, formAt } from './admission.js'

/** Route whose policy forwarded to an internal endpoint. */
interface Hop {
  readonly route: Route | undefined
  readonly site: string | undefined
  readonly endpoint: EndpointFacts
  readonly ran: number
}

/** Internal endpoint requested by a policy. */
export interface InternalPlace {
  /** Snapshot of the requesting flow. */
  readonly snapshot: Snapshot
  readonly host: string
  readonly port: number | undefined
  /** Depth of the new flow. */
  readonly depth: number
}

export const NO_HOPS: readonly Hop[] = []

/** Position of a request in its routes and modules. */
export interface RoutePlace {
  /** Fixed for the life of the exchange. */
  readonly snapshot: Snapshot
  route: Route | undefined
  /** Name of the site of the route, or of the host without a route. */
  site: string | undefined
  /** Number of modules whose request step ran; their response steps run too. */
  ran: number
  /** Routes whose policies forwarded to this one, in order. */
  before: readonly Hop[]
}

/** Returns the name of the route; undefined without one. */
export function namedRoute({ route, site }: Pick<RoutePlace, 'route' | 'site'>): string | undefined {
  return route === undefined || site === undefined ? undefined : routeNameOf(site, route.name)
}

/** Moves a request to its route. Login paths select the edge, in a pool, and the route that have the login. */
export function enterRoute(place: RoutePlace, found: EdgeAt, flow: AdmittedFlow): EdgeAt {
  const own = ownPath(flow.request)
  const login = own === undefined ? undefined : place.snapshot.login(found, own, flow.request)
  flow.reservedPath = login
  const at = login?.at ?? found
  place.site = at.edge.name
  place.route = login?.route ?? routeOf(at.edge, flow.request)
  return at
}

/**
 * Returns the route of a path. Servers with path parameters serve `/admin;x` as `/admin`, so in the strict form the route of `/admin`
 * applies, unless a route has parameters in its own path.
 */
export function routeOf(
  { routes }: CompiledEdge,
  { target, pathForm }: Pick<FlowRequest, 'target' | 'pathForm'>
): Route | undefined {
  const route = routes.find(target.path)
  if (pathForm !== 'strict' || !hasParameters(target.path)) return route
  return route !== undefined && hasParameters(route.path) ? route : routes.find(withoutParameters(target.path))
}

/** Runs the request steps of the remaining modules until one returns a verdict. */
export function requestSteps(
  place: RoutePlace,
  flow: AdmittedFlow
): Verdict | undefined | Promise<Verdict | undefined> {
  const { route, snapshot } = place
  const modules = route?.modules
  if (!modules) return undefined
  while (place.ran < modules.length) {
    const module = modules[place.ran++] as NonNullable<Route['modules']>[number]
    if (flow.explainer !== undefined && module.request !== undefined) {
      if (flow.explainer.imagined && module.unjudged !== undefined) {
        flow.explainer.unjudged(module.name, (route as Route).id, module.unjudged)
        continue
      }
      flow.explainer.step(module.name, (route as Route).id, 'request')
    }
    const verdict = module.request?.(flow, snapshot)
    if (verdict instanceof Promise)
      return verdict.then((late) => {
        flow.explainer?.stepped(late)
        return late ?? requestSteps(place, flow)
      })
    if (flow.explainer !== undefined && module.request !== undefined) flow.explainer.stepped(verdict)
    if (verdict !== undefined) return verdict
  }
  return undefined
}

/** Continues at the internal endpoint of a verdict; returns why that is impossible. */
export function lead(
  place: RoutePlace,
  flow: AdmittedFlow,
  { host, port }: Extract<Verdict, { kind: 'forward' }>
): FailureAnswer | undefined {
  const { snapshot, route, site, ran, before } = place
  if (before.length >= MOST_HOPS) return requestErrors.hops
  const found = snapshot.internalEdge(host, port)
  if (found === undefined) return requestErrors.internalEntry
  const { request } = flow
  request.pathForm = formAt(found.edge, flow.entry)
  const target = request.target.in(request.pathForm)
  if (typeof target === 'string') return pathErrors[target]
  request.target = target
  place.before = [...before, { route, site, ran, endpoint: flow.endpoint }]
  flow.endpoint = found.endpoint ?? flow.endpoint
  enterRoute(place, found, flow)
  place.ran = 0
  return place.route === undefined ? requestErrors.route : undefined
}

function stepBack(place: RoutePlace, flow: AdmittedFlow): void {
  const hop = place.before.at(-1)
  flow.endpoint = hop?.endpoint ?? flow.endpoint
  place.before = place.before.slice(0, -1)
  place.route = hop?.route
  place.site = hop?.site
  place.ran = hop?.ran ?? 0
}

/** Runs the response steps of the modules whose request steps ran, in reverse over all hops, until one returns a verdict. */
export function responseSteps(
  place: RoutePlace,
  flow: AdmittedFlow
): Verdict | undefined | Promise<Verdict | undefined> {
  const { snapshot } = place
  while (place.ran > 0 || place.before.length > 0) {
    if (place.ran === 0) stepBack(place, flow)
    const { route } = place
    const module = route?.modules?.[--place.ran]
    if (module?.response === undefined) continue
    if (flow.explainer?.imagined === true && module.unjudged !== undefined) continue
    flow.explainer?.step(module.name, (route as Route).id, 'response')
    const verdict = module.response(flow, snapshot)
    if (verdict instanceof Promise)
      return verdict.then((late) => {
        flow.explainer?.stepped(late)
        return late ?? responseSteps(place, flow)
      })
    flow.explainer?.stepped(verdict)
    if (verdict !== undefined) return verdict
  }
  return undefined
}
