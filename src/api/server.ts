import Fastify, { type FastifyInstance, type FastifyReply, type HTTPMethods, type RouteHandlerMethod } from 'fastify'
import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/coded-error.js'
import { newId } from '../lib/id.js'
import { ApiError, errorBody, frameworkError, sendError } from './errors.js'
import type { ApiKeys } from './keys.js'
import { TrustedHosts } from './trusted-hosts.js'

/** Whether the process can carry traffic: `ready` is the only state that /healthz answers with 200. */
export type Readiness = 'starting' | 'ready' | 'draining'

export interface ApiOptions {
  readonly keys: ApiKeys
  /** Names beside the loopback ones under which clients reach the API; hosts without ports. */
  readonly hosts: readonly string[]
  readonly clock: Clock
  /** Asked for each GET /healthz. */
  readiness(): Readiness
  /** The metrics in the text format of Prometheus; absent: there is no /metrics. */
  metrics?: (() => Promise<string>) | undefined
  /** Faults of ours; `error` may hold anything but a secret of a client. */
  fault(error: unknown, operationId: string): void
}

export interface ApiServer {
  /** Binds and resolves with the address; rejects with the system's error when it cannot. */
  listen(at: { readonly host: string; readonly port: number }): Promise<{ host: string; port: number }>
  /** Answers what is under way and closes. */
  close(): Promise<void>
}

const BODY_LIMIT = 1024 * 1024
const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered without a key. */
    open?: boolean
  }
}

const OPEN = { open: true }

type Handlers = Partial<Record<'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', RouteHandlerMethod>>

/** The management listener: names checked against DNS rebinding, a key for everything but /healthz, one form of errors. */
export function createApi(options: ApiOptions): ApiServer {
  const server = createServer(options)
  protect(server, options)
  const health: RouteHandlerMethod = async (_request, reply) => {
    const status = options.readiness()
    const ready = status === 'ready'
    return reply
      .code(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status: ready ? 'ok' : status })
  }
  route(server, '/healthz', { GET: health }, OPEN)
  const { metrics } = options
  if (metrics !== undefined) {
    route(server, '/metrics', {
      GET: async (_request, reply) => reply.type('text/plain; version=0.0.4; charset=utf-8').send(await metrics())
    })
  }
  return {
    async listen(at) {
      await server.listen({ host: at.host, port: at.port })
      const address = server.server.address()
      if (address === null || typeof address === 'string') throw new TypeError('the API listens on no TCP port')
      return { host: address.address, port: address.port }
    },
    close: () => server.close()
  }
}

function createServer({ clock, fault }: ApiOptions): FastifyInstance {
  const server = Fastify({
    logger: false,
    bodyLimit: BODY_LIMIT,
    genReqId: () => newId('op', clock.wall()),
    requestIdHeader: false,
    forceCloseConnections: 'idle',
    requestTimeout: 30_000,
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false } },
    frameworkErrors: (error, _request, reply) => answerError(error, reply, fault),
    clientErrorHandler: (error, socket) => {
      if (!socket.writable || codeOf(error) === 'ECONNRESET') {
        socket.destroy()
        return
      }
      const refused = new ApiError(400, 'REQUEST_INVALID', 'The request could not be understood.')
      const id = newId('op', clock.wall())
      const body = errorBody(refused, id)
      socket.end(
        `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\nservice-operation-id: ${id}\r\n` +
          `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`
      )
    }
  })
  server.setErrorHandler((error, _request, reply) => answerError(error, reply, fault))
  server.setNotFoundHandler((_request, reply) =>
    sendError(reply, new ApiError(404, 'NOT_FOUND', 'There is nothing under this path.'))
  )
  return server
}

function answerError(error: unknown, reply: FastifyReply, fault: ApiOptions['fault']): FastifyReply {
  if (error instanceof ApiError) return sendError(reply, error)
  const status =
    typeof error === 'object' && error !== null && 'statusCode' in error ? Number(error.statusCode) : undefined
  const refused = frameworkError(codeOf(error), status)
  if (refused !== undefined) return sendError(reply, refused)
  fault(error, reply.request.id)
  return sendError(
    reply,
    new ApiError(500, 'INTERNAL', 'The service failed; its log says more under the operation id.')
  )
}

/** Name, then path and method, then key: a foreign page learns nothing, not even which paths exist. */
function protect(server: FastifyInstance, { keys, hosts }: ApiOptions): void {
  const trusted = new TrustedHosts(hosts)
  server.addHook('onRequest', async (request, reply) => {
    reply.header('service-operation-id', request.id)
    const { host, origin } = request.headers
    const refusal = trusted.refusal({ host, origin, localAddress: request.socket.localAddress })
    if (refusal !== undefined) throw refusal
    if (request.is404 || request.routeOptions.config.open === true) return
    await authorize(keys, request.headers.authorization)
  })
}

async function authorize(keys: ApiKeys, authorization: string | undefined): Promise<void> {
  const challenge = { 'www-authenticate': 'Bearer' }
  if (authorization === undefined) {
    throw new ApiError(401, 'AUTH_MISSING', 'The request needs an API key: Authorization: Bearer <key>.', {}, challenge)
  }
  const key = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization)?.[1]
  if (key === undefined)
    throw new ApiError(401, 'AUTH_MALFORMED', 'Authorization must be: Bearer <key>.', {}, challenge)
  if (!(await keys.accepts(key))) throw new ApiError(401, 'AUTH_INVALID', 'The API key is not valid.', {}, challenge)
}

/** Registers the handlers of one path; every other method on it is 405 with `Allow`. */
function route(server: FastifyInstance, url: string, handlers: Handlers, config: { open?: boolean } = {}): void {
  const present = Object.keys(handlers) as (keyof Handlers)[]
  const allowed = new Set<HTTPMethods>(present.includes('GET') ? ['HEAD', ...present] : present)
  for (const method of present) server.route({ method, url, config, handler: handlers[method] as RouteHandlerMethod })
  const refuse = async () => {
    throw new ApiError(
      405,
      'METHOD_NOT_ALLOWED',
      'The path does not have this method.',
      {},
      { allow: [...allowed].sort().join(', ') }
    )
  }
  server.route({
    method: METHODS.filter((method) => !allowed.has(method)),
    url,
    config: OPEN,
    onRequest: refuse,
    handler: refuse
  })
}
