import type { Server, Socket } from 'node:net'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { AddressCounts } from '../lib/address-counts.js'
import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/coded-error.js'
import { newId } from '../lib/id.js'
import type { Crowding } from '../lib/turned-away.js'
import { ApiError, apiErrorOf, errorBody, sendError } from './errors.js'
import { hasBody, readJson } from './json-body.js'
import type { RawQuery } from './query.js'

/** Largest body of a request, bytes. */
export const BODY_LIMIT = 1024 * 1024

/** How many connections there may be at a time. */
export interface Crowds {
  readonly connections: number
  readonly ofAddress: AddressCounts
  /** Hears of each that is closed unread. */
  turnedAway(why: Crowding, address: string): void
}

export interface ListenerOptions {
  readonly clock: Clock
  /** Milliseconds for a whole request to arrive; beyond: 408. */
  readonly requestTimeout?: number | undefined
  readonly crowds?: Crowds | undefined
  /** Faults of ours; `error` may hold anything but a secret of a client. */
  fault(error: unknown, operationId: string): void
}

const REQUEST_TIMEOUT = 30_000
/** How late a time-out may be seen, as a share of itself. */
const TIMEOUT_STEPS = 4
const MAX_PARAMETER = 100

/** The HTTP server: bodies as strict JSON, every refusal in the one form of errors, queries left as they came. */
export function createListener({
  clock,
  crowds,
  fault,
  requestTimeout = REQUEST_TIMEOUT
}: ListenerOptions): FastifyInstance {
  const server = Fastify({
    logger: false,
    bodyLimit: BODY_LIMIT,
    genReqId: () => newId('op', clock.wall()),
    requestIdHeader: false,
    forceCloseConnections: 'idle',
    // Its own 503 has another form than all errors here; what still arrives is answered and its connection closed.
    return503OnClosing: false,
    requestTimeout,
    http: {
      headersTimeout: requestTimeout,
      connectionsCheckingInterval: Math.ceil(requestTimeout / TIMEOUT_STEPS)
    },
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    routerOptions: {
      maxParamLength: MAX_PARAMETER,
      querystringParser: (text): { [key: string]: unknown } & RawQuery => ({ text })
    },
    frameworkErrors: (error, _request, reply) => answerError(error, reply, fault),
    clientErrorHandler: (error, socket) => answerBytes(error, socket, newId('op', clock.wall()))
  })
  server.removeAllContentTypeParsers()
  // The form of the body has been judged by its headers before it is read.
  server.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) =>
    hasBody(request.headers) ? readJson(bytes) : undefined
  )
  server.setErrorHandler((error, _request, reply) => answerError(error, reply, fault))
  if (crowds !== undefined) limitConnections(server.server, crowds)
  return server
}

function limitConnections(server: Server, { connections, ofAddress, turnedAway }: Crowds): void {
  let open = 0
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? ''
    const full = open >= connections
    const leave = full ? undefined : ofAddress.enter(address)
    if (leave === undefined) {
      socket.destroy()
      turnedAway(full ? 'connections' : 'address-connections', address)
      return
    }
    open++
    socket.once('close', () => {
      open--
      leave()
    })
  })
}

/** What is said and answered here is read by the resources' own fields; the compilers for schemas are not even loaded. */
function noSchemas(): never {
  throw new RangeError('no route of this API has a schema of Fastify')
}

function answerError(error: unknown, reply: FastifyReply, fault: ListenerOptions['fault']): FastifyReply {
  const refused = apiErrorOf(error)
  if (refused !== undefined) return sendError(reply, refused)
  fault(error, reply.request.id)
  return sendError(
    reply,
    new ApiError(500, 'INTERNAL', 'The service failed; its log says more under the operation id.')
  )
}

/** Answers bytes that never became a request, or not in time. */
function answerBytes(error: NodeJS.ErrnoException, socket: Socket, id: string): void {
  if (!socket.writable || codeOf(error) === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const refused = bytesRefusal(codeOf(error))
  const body = errorBody(refused, id)
  socket.end(
    `HTTP/1.1 ${refused.status} ${PHRASES[refused.status]}\r\n` +
      `content-type: application/json; charset=utf-8\r\nservice-operation-id: ${id}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`
  )
}

const PHRASES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large'
}

function bytesRefusal(code: string | undefined): ApiError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ApiError(408, 'REQUEST_TIMEOUT', 'The request did not arrive in time.')
  }
  if (code === 'HPE_HEADER_OVERFLOW') return new ApiError(431, 'HEADERS_TOO_LARGE', 'The headers are too large.')
  return new ApiError(400, 'REQUEST_INVALID', 'The request could not be understood.')
}
