import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Call, WriteMode } from '../control/calls.js'
import { type ACCOUNT_RIGHTS, type Extent, mustHave } from '../control/rights.js'
import { isObject } from '../lib/json.js'
import type { Shape, ValueOf } from '../schema/answer.js'
import { fieldErrors } from '../schema/errors.js'
import { addressOf, callOf, queryOf, writeMode } from './calls.js'
import { ApiError } from './errors.js'
import { EVENT_STREAM_TYPE, type EventStream } from './event-stream.js'
import { answer, binary, operation, type Paths, parametersOf, plain, withText } from './openapi-parts.js'
import type { Parameters, ParameterValues } from './parameters.js'
import { type Method, pathOf, type RouteConfig, type Router, route } from './routes.js'

/** Names in braces in a path. */
type Placeholders<P extends string> = P extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Placeholders<Rest>
  : never

/** The request as a route sees it. */
export interface Asked<P extends string = string, Q extends Parameters = Parameters> {
  readonly params: Readonly<Record<Placeholders<P>, string>>
  readonly query: ParameterValues<Q>
  /** Parsed but unchecked body; the service validates it. */
  readonly body: unknown
  /** Throws a TypeError for a route without a caller. */
  readonly call: Call
  /** Address of the client. */
  readonly address: string | undefined
  /** Options of a route with `write`. */
  readonly mode: WriteMode
}

interface Definition<P extends string, Q extends Parameters, A, S, R = ValueOf<A>> {
  readonly method: Method
  readonly path: P
  /** `operationId` of the description. */
  readonly id: string
  readonly summary: string
  /** The right that a member needs; checked before `run`. @default none: every caller may */
  readonly right?: keyof typeof ACCOUNT_RIGHTS
  /** The records on which a member may do it, in place of `right`; the service checks it. */
  readonly member?: Extent
  /** `open`: without a key; `unversioned`: without a version header. @default both are needed */
  readonly access?: 'open' | 'unversioned'
  /** IP restriction of the route, in place of that of the API. */
  readonly entrance?: 'dashboard'
  /** Checks rights before anything of the request is read. Throws a ControlError. */
  permit?(call: Call, service: S): void
  readonly query?: Q
  /** True if other parameters of the query are ignored, because probes and scrapers add some. @default they are refused */
  readonly lenient?: true
  /** A write takes `dry_run`, `force`, `If-Match` and `guard`. */
  readonly write?: true
  /** `command`: no body, or an empty object. @default no body */
  readonly body?: { readonly schema: object; readonly optional?: true; readonly limit?: number } | 'command'
  /** @default 200 */
  readonly status?: 200 | 201 | 202 | 204
  /** One sentence about the response. */
  readonly answers: string
  /** Shape of the response. @default no body, for 204 */
  readonly answer?: A
  /** True if the response has the version of a record. */
  readonly etag?: true
  /** Type of a response that is no JSON object of the API. */
  readonly media?: string
  readonly example?: ValueOf<A>
  /** Response of another status that is no error, sent by `send`. */
  readonly otherwise?: { readonly status: 503; readonly answers: string; readonly answer: object }
  /** Another type of the response, sent by `send` to a client that prefers it. */
  readonly also?: 'text/plain' | 'text/html'
  run(asked: Asked<P, Q>, service: S): Promise<R> | R
  /** Sends the result. @default the result as JSON, with the running revision; with 201 also its location */
  send?(reply: FastifyReply, result: R, asked: Asked<P, Q>, request: FastifyRequest): unknown
}

/** A result that does not match the response's shape must be sent by the route itself. */
type Sent<R, A> = [ValueOf<A>] extends [undefined]
  ? unknown
  : [R] extends [ValueOf<A>]
    ? unknown
    : { readonly send: unknown }

/** A route of the API over a service `S`. */
export interface DefinedRoute<S> {
  readonly method: Method
  readonly path: string
  readonly config: RouteConfig
  /** Parameters of the query by their names among the components of the description. */
  readonly parameters: Readonly<Record<string, object>>
  /** Shapes of the body and of the responses. */
  readonly shapes: readonly unknown[]
  describe(group: Pick<RouteGroup<never>, 'tag' | 'revision'>): object
  handle(request: FastifyRequest, reply: FastifyReply, service: S): Promise<unknown>
}

/** Routes of one subject. */
export interface RouteGroup<S> {
  readonly tag: string
  /** @default none: the tag is that of a resource */
  readonly description?: string
  /** False if responses do not have the running revision. @default true */
  readonly revision?: false
  readonly routes: readonly DefinedRoute<S>[]
}

/** A group with its service. */
export interface BoundGroup extends Omit<RouteGroup<never>, 'routes'> {
  readonly routes: readonly BoundRoute[]
}

interface BoundRoute extends Omit<DefinedRoute<never>, 'handle'> {
  handle(request: FastifyRequest, reply: FastifyReply): Promise<unknown>
}

/** Defines a route: its handler, its description and the check of its right follow from the definition. */
export function defineRoute<
  const P extends string,
  S,
  Q extends Parameters = Record<never, never>,
  A = Shape<undefined>,
  R = ValueOf<A>
>(definition: Definition<P, Q, A, S, R> & Sent<R, A>): DefinedRoute<S> {
  const { access, body, entrance, media, method, path, query = {}, status = 200 } = definition
  const config: RouteConfig = {
    ...(access === undefined ? {} : { [access]: true }),
    ...(entrance === undefined ? {} : { entrance }),
    ...(body === undefined ? {} : { body: body === 'command' || body.optional === true ? 'optional' : 'json' }),
    ...(body === undefined || body === 'command' || body.limit === undefined ? {} : { limit: body.limit }),
    ...(media === EVENT_STREAM_TYPE ? { stream: true } : {})
  }
  return {
    method,
    path,
    config,
    parameters: Object.fromEntries(components(query)),
    shapes: [typeof body === 'object' ? body.schema : undefined, definition.answer, definition.otherwise?.answer],
    describe: (group) => describe(group, definition),
    async handle(request, reply, service) {
      definition.permit?.(callOf(request), service)
      const asked = read(request, definition)
      if (definition.right !== undefined) mustHave(asked.call.principal, definition.right)
      const result = await definition.run(asked, service)
      if (definition.send !== undefined) return definition.send(reply, result, asked, request)
      reply.code(status)
      if (status === 201 && isObject(result) && typeof result.uri === 'string') reply.header('location', result.uri)
      return media === undefined ? reply.send(result) : reply.type(media).send(JSON.stringify(result))
    }
  }
}

/** Defines a route that responds with server-sent events (HTML 9.2). */
export function defineStream<const P extends string, S, Q extends Parameters = Record<never, never>>(
  definition: Omit<Definition<P, Q, Shape<string>, S>, 'method' | 'answer' | 'run' | 'send' | 'media'> & {
    /** Opens the stream; a HEAD request opens none. */
    open(asked: Asked<P, Q>, service: S): EventStream
  }
): DefinedRoute<S> {
  const { open, ...rest } = definition
  const shape: Shape<string> & object = { type: 'string' } as never
  return defineRoute<P, S, Q, typeof shape, () => EventStream>({
    ...rest,
    method: 'GET',
    answer: shape,
    media: EVENT_STREAM_TYPE,
    run: (asked, service) => () => open(asked, service),
    send(reply, opening, _asked, request) {
      reply.header('cache-control', 'no-store').type(EVENT_STREAM_TYPE)
      // A response without a body would never end the stream.
      return reply.send(request.method === 'HEAD' ? undefined : opening())
    }
  })
}

/** Reads the query, the path and the body of a request. Throws an ApiError. */
function read<P extends string, Q extends Parameters>(
  request: FastifyRequest,
  {
    query = {} as Q,
    lenient,
    write,
    body
  }: Pick<Definition<P, Q, unknown, never>, 'query' | 'lenient' | 'write' | 'body'>
): Asked<P, Q> {
  const mode = write === true ? writeMode(request) : {}
  const unread = write === true || lenient === true
  const given: ReadonlyMap<string, string> = unread ? new Map() : queryOf(request, Object.keys(query))
  const values = Object.entries(query).map(([name, parameter]) => [name, parameter.read(given, name)])
  const params = pathOf(request)
  if (body === 'command') mustSayNothing(request.body, Object.values(params).at(-1) ?? '')
  return {
    params,
    query: Object.fromEntries(values) as ParameterValues<Q>,
    body: request.body,
    address: addressOf(request),
    mode,
    get call() {
      return callOf(request)
    }
  } as Asked<P, Q>
}

/** Refuses the body of a command; existing clients send an empty object, or the id once more. */
function mustSayNothing(body: unknown, id: string): void {
  if (body === undefined || body === null) return
  const fields = typeof body === 'object' ? Object.entries(body) : [['', body]]
  const other = fields.find(([name, value]) => name !== 'id' || value !== id)
  if (other === undefined) return
  const field = String(other[0]).slice(0, 64)
  throw new ApiError(fieldErrors.FIELD_UNKNOWN, 'The body of a command has no fields.', { field })
}

function components(query: Parameters): (readonly [string, object])[] {
  return Object.entries(query).map(([name, { component = name, description, schema }]) => {
    return [component, { name, in: 'query', description, schema }]
  })
}

function describe<P extends string, Q extends Parameters, A, S, R>(
  { tag, revision }: Pick<RouteGroup<never>, 'tag' | 'revision'>,
  { id, summary, right, member, query = {} as Q, write, body, status = 200, ...rest }: Definition<P, Q, A, S, R>
): object {
  const { access, answers, answer: shape, also, media, example, etag, method, otherwise } = rest
  const match = method === 'POST' ? [] : ['if_match']
  const written = write === true ? [...match, 'force', 'dry_run'] : []
  const shown = (text: string, schema: object | undefined) => {
    if ((schema as { readonly format?: string } | undefined)?.format === 'binary') return binary(text, String(media))
    if (media !== undefined) return plain(text, schema, media.replace(/^([^;]+); charset=[^;]+$/, '$1'))
    if (revision === false) return plain(text, schema)
    return answer(text, schema, etag === true ? ['etag'] : [], example)
  }
  const about = shown(answers, shape as object | undefined)
  // The body of an open route brings the key.
  const bare = access === 'open' && body !== undefined ? undefined : access
  return operation(id, tag, summary, {
    ...(right === undefined ? {} : { right }),
    ...(member === undefined ? {} : { member }),
    ...(bare === undefined ? {} : { bare }),
    parameters: [...components(query).map(([component]) => component), ...written],
    ...(typeof body === 'object' ? { body: body.schema } : {}),
    responses: {
      [status]: also === undefined ? about : withText(about, also),
      ...(otherwise === undefined ? {} : { [otherwise.status]: shown(otherwise.answers, otherwise.answer) })
    }
  })
}

/** Binds a group to the service of its routes. */
export function bindRoutes<S>(group: RouteGroup<S>, service: S): BoundGroup {
  const routes = group.routes.map((one) => ({
    ...one,
    handle: (request: FastifyRequest, reply: FastifyReply) => one.handle(request, reply, service)
  }))
  return { ...group, routes }
}

/** Adds the routes of a group to the listener. `serving` adds the running revision to a response. */
export function addGroup(router: Router, group: BoundGroup, serving: (reply: FastifyReply) => FastifyReply): void {
  const begin = group.revision === false ? (reply: FastifyReply) => reply : serving
  for (const { method, path, config, handle } of group.routes)
    route(router, method, path, config, (request, reply) => handle(request, begin(reply)))
}

/** Components of the API's description. */
export interface Components {
  readonly paths: Paths
  readonly schemas: Record<string, object>
  readonly parameters: Record<string, object>
}

/**
 * Describes the routes of a group, and adds each schema with a title as a component. Returns the tag if it is new. Throws a RangeError for two
 * different parameters of one name.
 */
export function describeGroup(group: RouteGroup<never>, into: Components): readonly object[] {
  const { tag, description, routes } = group
  for (const { method, path, parameters, shapes, describe: described } of routes) {
    const item = into.paths[path] ?? { ...parametersOf(path) }
    into.paths[path] = { ...item, [method.toLowerCase()]: described(group) } as Paths[string]
    for (const [name, parameter] of Object.entries(parameters)) {
      const known = into.parameters[name]
      if (known !== undefined && JSON.stringify(known) !== JSON.stringify(parameter))
        throw new RangeError(`${method} ${path}: the parameter ${name} is described otherwise; give it a component`)
      into.parameters[name] = parameter
    }
    for (const schema of titledIn(shapes)) into.schemas[schema.title] = schema
  }
  return description === undefined ? [] : [{ name: tag, description }]
}

function* titledIn(schema: unknown): Generator<{ readonly title: string }> {
  if (typeof schema !== 'object' || schema === null) return
  const { title } = schema as { readonly title?: unknown }
  if (typeof title === 'string') yield schema as { readonly title: string }
  for (const value of Object.values(schema)) yield* titledIn(value)
}
