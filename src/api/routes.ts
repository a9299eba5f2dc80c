import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { PathValues } from '../control/calls.js'
import { nothingThere } from './errors.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** Matched route; undefined if no route has its path and method. */
    found: Found | undefined
  }
}

/** Requirements of one method of a path, checked before a body is read. */
export interface RouteConfig {
  /** Answered without a key. */
  readonly open?: boolean
  /** Name of the resource that it reads or writes. @default none */
  readonly resource?: string
  /** Answered without a version header. */
  readonly unversioned?: boolean
  /** Required or optional body. @default a body is rejected */
  readonly body?: 'json' | 'optional'
  /** Maximum bytes of its body. @default `BODY_LIMIT` */
  readonly limit?: number
  /** True if the response is an event stream; their number is limited for each caller. */
  readonly stream?: boolean
  /** IP restriction of an open route: that of the dashboard's pages. */
  readonly entrance?: 'dashboard'
}

export type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

export type Method = (typeof METHODS)[number]

/** One method of one path. */
interface Route {
  readonly config: RouteConfig
  readonly handler: Handler
  /** Names of the parameters of the path, in their order. */
  readonly names: readonly string[]
}

/** A matched route, with the values of its path parameters. */
export interface Found extends Route {
  readonly values: PathValues
}

/** A path in the tree of routes, and its continuations. */
class Place {
  readonly routes = new Map<string, Route>()
  readonly literal = new Map<string, Place>()
  parameter: Place | undefined = undefined
}

/**
 * The paths of the API and their methods. Fastify has one route for all of them: it creates a context and compiled functions for each route,
 * which for hundreds of routes took a fifth of the start. The other methods of a path must be known here as well, for 405 and for preflights.
 */
export class Routes {
  readonly #root = new Place()

  /** Adds one method of one path, with parameters as in `/edges/https/{edge_id}/routes`. Throws a RangeError where there is one already. */
  add(method: Method, path: string, config: RouteConfig, handler: Handler): void {
    let place = this.#root
    const names: string[] = []
    for (const segment of path.split('/')) {
      const name = /^\{(\w+)\}$/.exec(segment)?.[1]
      if (name !== undefined) {
        names.push(name)
        place.parameter ??= new Place()
        place = place.parameter
        continue
      }
      let next = place.literal.get(segment)
      if (next === undefined) {
        next = new Place()
        place.literal.set(segment, next)
      }
      place = next
    }
    if (place.routes.has(method)) throw new RangeError(`${method} ${path} is there already`)
    place.routes.set(method, { config, handler, names })
  }

  /** Returns the route for `method` and the path of `url`; a literal path wins over one with parameters. */
  find(method: string, url: string): Found | undefined {
    const wanted = method === 'HEAD' ? 'GET' : method
    for (const { place, values } of placesAt(this.#root, segmentsOf(url))) {
      const route = place.routes.get(wanted)
      if (route !== undefined)
        return { ...route, values: Object.fromEntries(route.names.map((name, at) => [name, values[at] ?? ''])) }
    }
    return undefined
  }

  /** Returns the methods of every path that matches `url`, sorted; empty if there is none. */
  methodsOf(url: string): readonly string[] {
    const found = new Set<string>()
    for (const { place } of placesAt(this.#root, segmentsOf(url))) {
      for (const method of place.routes.keys()) found.add(method)
    }
    if (found.has('GET')) found.add('HEAD')
    return [...found].sort()
  }
}

/** Yields every place that matches `segments`, with the values of its parameters. */
function* placesAt(
  place: Place,
  segments: readonly string[],
  values: readonly string[] = []
): Generator<{ readonly place: Place; readonly values: readonly string[] }> {
  const [segment, ...rest] = segments
  if (segment === undefined) {
    yield { place, values }
    return
  }
  const literal = place.literal.get(segment)
  if (literal !== undefined) yield* placesAt(literal, rest, values)
  if (segment !== '' && place.parameter !== undefined) yield* placesAt(place.parameter, rest, [...values, segment])
}

/** Returns the decoded segments of the path of a request target (RFC 9112 3.2); empty if it is not percent-encoded UTF-8. */
function segmentsOf(url: string): readonly string[] {
  const path = url.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '')
  try {
    return path.split('/').map(decodeURIComponent)
  } catch {
    return []
  }
}

/** Registry of routes. */
export interface Router {
  readonly server: FastifyInstance
  readonly routes: Routes
}

/** Creates a router whose routes `server` serves: the match is in `request.found` before any hook runs. */
export function createRouter(server: FastifyInstance): Router {
  const routes = new Routes()
  server.decorateRequest('found', undefined)
  server.addHook('onRequest', async (request) => {
    request.found = routes.find(request.method, request.url)
  })
  server.route({ method: [...METHODS], url: '*', handler: serve })
  return { server, routes }
}

/** Runs the matched route; the guard has rejected requests without one. */
async function serve(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  if (request.found === undefined) throw nothingThere()
  return request.found.handler(request, reply)
}

/** Registers one method of one path. Parameters as in `/edges/https/{edge_id}/routes`. */
export function route(
  { server, routes }: Router,
  method: Method,
  path: string,
  config: RouteConfig,
  handler: Handler
): void {
  routes.add(method, path, config, handler)
  // Fastify limits the bytes of a body by route.
  const url = path.replace(/\{(\w+)\}/g, ':$1')
  if (config.limit !== undefined) server.route({ method, url, bodyLimit: config.limit, handler: serve })
}

const NAME = /^[A-Za-z0-9_.-]{1,100}$/

/**
 * Returns the parameters of the path. Ids have letters, digits and few punctuation marks; other values name nothing. Throws an ApiError
 * `NOT_FOUND`.
 */
export function pathOf({ found }: FastifyRequest): PathValues {
  const values = found?.values ?? {}
  if (!Object.values(values).every((value) => NAME.test(value))) throw nothingThere()
  return values
}

/** The one parameter `name` of a path that has it. */
export function parameter(path: PathValues, name: string): string {
  const value = path[name]
  if (value === undefined) throw new RangeError(`the path has no parameter ${name}`)
  return value
}
