import type { IncomingHttpHeaders } from 'node:http'
import type { Server, Socket } from 'node:net'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { controlErrors } from '../control/errors.js'
import type { AddressCounts, Crowding } from '../lib/client-limits.js'
import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/errors.js'
import { newId } from '../lib/id.js'
import type { RawQuery } from './calls.js'
import { ApiError, apiErrorOf, apiErrors, errorBody, sendError } from './errors.js'

/** Deepest nesting of a body; no resource needs more than a handful. */
const MAX_DEPTH = 64
/** Most values in a body: a megabyte of empty lists would keep the process busy for a tenth of a second. */
const MAX_VALUES = 20_000
/** Pattern of an unpaired surrogate. */
const HALF_PAIR = /\p{Surrogate}/u

/** Does the request announce a body? */
export function hasBody(headers: IncomingHttpHeaders): boolean {
  const { 'content-length': length, 'transfer-encoding': coding } = headers
  return coding !== undefined || (length !== undefined && Number(length) !== 0)
}

/** The reason to refuse the form of a body that must be JSON, from its headers alone; undefined when it fits. */
export function contentRefusal(headers: IncomingHttpHeaders): ApiError | undefined {
  if (!hasBody(headers)) return new ApiError(apiErrors.BODY_INVALID, 'The request needs a JSON object as its body.')
  const type = headers['content-type']
  if (type === undefined || type.trim() === '') {
    return new ApiError(apiErrors.CONTENT_TYPE_MISSING, 'A request with a body needs Content-Type: application/json.')
  }
  if (!/^application\/json[ \t]*(?:;[ \t]*charset=(?:utf-8|"utf-8")[ \t]*)?;?$/i.test(type.trim())) {
    return new ApiError(apiErrors.CONTENT_TYPE_UNSUPPORTED, 'The body must be application/json in UTF-8.')
  }
  const coding = headers['content-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    return new ApiError(apiErrors.CONTENT_TYPE_UNSUPPORTED, 'The body must not be compressed.')
  }
  return undefined
}

/**
 * Parses a body as strict JSON (RFC 8259): UTF-8 only, no duplicate keys, no number beyond the range of a double, no
 * unpaired surrogate, no `__proto__`, limited depth and number of values. Throws an ApiError `BODY_UNREADABLE` or
 * `BODY_INVALID`, which repeats nothing of the body.
 */
function readJson(bytes: Uint8Array): unknown {
  const text = decode(bytes)
  const colons = scan(text)
  const value = parse(text)
  // Each colon outside of strings belongs to one member, so a surplus means a duplicate key that was overwritten.
  if (colons !== checkedMembers(value)) throw invalid('an object has the same key twice')
  return value
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    // The decoder has one reason to throw.
    throw new ApiError(apiErrors.BODY_UNREADABLE, 'The body is not UTF-8 text.')
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // The message of the parser quotes the body, which may hold a secret.
    throw invalid('it cannot be parsed')
  }
}

function invalid(reason: string): ApiError {
  return new ApiError(apiErrors.BODY_INVALID, `The body is not valid JSON: ${reason}.`)
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPENING = [0x5b, 0x7b]
const CLOSING = [0x5d, 0x7d]

/** Counts colons outside of strings. Rejects a text that is nested too deeply or has too many values, before parsing. */
function scan(text: string): number {
  let colons = 0
  let values = 1
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) at = endOfString(text, at)
    else if (unit === COLON) colons++
    else if (unit === COMMA) values++
    else if (OPENING.includes(unit)) {
      values++
      if (++depth > MAX_DEPTH) throw invalid(`it is nested deeper than ${MAX_DEPTH} levels`)
    } else if (CLOSING.includes(unit)) depth--
  }
  if (values > MAX_VALUES) throw invalid(`it has more than ${MAX_VALUES} values`)
  return colons
}

/** Returns the position of the quote that ends the string starting at `start`; the end of the text without one. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let backslashes = 0
    while (text[at - 1 - backslashes] === '\\') backslashes++
    if (backslashes % 2 === 0) return at
  }
  return text.length
}

/** Counts the members of all objects within `value`, whose depth is bounded. */
function checkedMembers(value: unknown): number {
  if (typeof value === 'string') checkText(value)
  if (typeof value === 'number' && !Number.isFinite(value)) throw invalid('a number is too large')
  if (typeof value !== 'object' || value === null) return 0
  let members = 0
  if (!Array.isArray(value)) {
    for (const key of Object.keys(value)) checkKey(key)
    members = Object.keys(value).length
  }
  for (const inner of Object.values(value)) members += checkedMembers(inner)
  return members
}

function checkKey(key: string): void {
  if (key === '__proto__') throw invalid('the key __proto__ is not allowed')
  checkText(key)
}

function checkText(text: string): void {
  if (HALF_PAIR.test(text)) throw invalid('a text holds half of a surrogate pair')
}

/** Returns whether a body is the bare id of the path: a published client sends that for a command, in place of JSON. */
function repeatsId({ found }: FastifyRequest, bytes: Buffer): boolean {
  const id = found?.values.id
  return id !== undefined && bytes.length === id.length && bytes.toString('latin1') === id
}

/** Largest body of a request, bytes. */
export const BODY_LIMIT = 1024 * 1024

/** Limits of concurrent connections. */
export interface Crowds {
  readonly connections: number
  readonly ofAddress: AddressCounts
  /** Called for each that is closed unread. */
  turnedAway(why: Crowding, address: string): void
}

interface ListenerOptions {
  readonly clock: Clock
  /** Milliseconds for a whole request to arrive; beyond: 408. */
  readonly requestTimeout?: number | undefined
  readonly crowds?: Crowds | undefined
  /** Faults of ours; `error` may hold anything but a secret of a client. */
  fault(error: unknown, operationId: string): void
}

const REQUEST_TIMEOUT = 30_000
/** Number of timeout checks in the time of a timeout, which limits their delay. */
const TIMEOUT_STEPS = 4
/** Maximum length of a path parameter (characters). */
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
    // Its own 503 has a different form than other errors; late requests are answered, and their connections closed.
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
  // The headers were checked for the form of the body before it is read.
  server.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) => {
    request.spend?.(bytes.length)
    return hasBody(request.headers) && !repeatsId(request, bytes) ? readJson(bytes) : undefined
  })
  server.setErrorHandler((error, _request, reply) => answerError(error, reply, fault))
  if (crowds !== undefined) limitConnections(server.server, crowds)
  return server
}

function limitConnections(server: Server, crowds: Crowds): void {
  const { ofAddress, turnedAway } = crowds
  let open = 0
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? ''
    const full = open >= crowds.connections
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

/** Rejects schemas of Fastify: resources validate their own fields, and the schema compilers are not even loaded. */
function noSchemas(): never {
  throw new RangeError('no route of this API has a schema of Fastify')
}

function answerError(error: unknown, reply: FastifyReply, fault: ListenerOptions['fault']): FastifyReply {
  const refused = apiErrorOf(error)
  if (refused !== undefined) return sendError(reply, refused)
  fault(error, reply.request.id)
  return sendError(
    reply,
    new ApiError(controlErrors.INTERNAL, 'The service failed; its log says more under the operation id.')
  )
}

/** Responds to bytes that are no valid or no complete request. */
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
    return new ApiError(apiErrors.REQUEST_TIMEOUT, 'The request did not arrive in time.')
  }
  if (code === 'HPE_HEADER_OVERFLOW') return new ApiError(apiErrors.HEADERS_TOO_LARGE, 'The headers are too large.')
  return new ApiError(apiErrors.REQUEST_INVALID, 'The request could not be understood.')
}
