import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import type { Call, Done, PathValues, Read, WriteMode, Written } from '../control/calls.js'
import { unmapIpv4 } from '../lib/ip.js'
import { nothingThere } from './errors.js'
import type { KnownPaths } from './known-paths.js'
import { entityTag, readIfMatch, readIfNoneMatch } from './preconditions.js'
import { type RawQuery, readQuery, readSwitch } from './query.js'

/** Where routes are added. */
export interface Router {
  readonly server: FastifyInstance
  readonly paths: KnownPaths
}

export type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

/** Registers one method of one path. Parameters as in `/edges/https/{edge_id}/routes`. */
export function route(
  { server, paths }: Router,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  config: FastifyContextConfig,
  handler: Handler
): void {
  const url = path.replace(/\{(\w+)\}/g, ':$1')
  const methods: HTTPMethods[] = method === 'GET' ? ['GET', 'HEAD'] : [method]
  paths.add(url, methods)
  server.route({ method, url, config, handler })
}

const NAME = /^[A-Za-z0-9_.-]{1,100}$/

/** Parameters of the path. Ids are letters, digits and few signs; anything else names nothing. Throws an ApiError `NOT_FOUND`. */
export function pathOf(request: FastifyRequest): PathValues {
  const path = request.params as PathValues
  if (!Object.values(path).every((value) => NAME.test(value))) throw nothingThere()
  return path
}

/** The one parameter `name` of a path that has it. */
export function parameter(path: PathValues, name: string): string {
  const value = path[name]
  if (value === undefined) throw new RangeError(`the path has no parameter ${name}`)
  return value
}

export function callOf(request: FastifyRequest): Call {
  const { principal, id } = request
  if (principal === undefined) throw new TypeError('a path of the account is open')
  return { principal, address: addressOf(request), operationId: id }
}

/** Address of the client; an IPv4 one without the form that it has on an IPv6 socket. */
export function addressOf({ socket }: FastifyRequest): string | undefined {
  return socket.remoteAddress === undefined ? undefined : unmapIpv4(socket.remoteAddress)
}

/** The query of a request; throws an ApiError for what is not in `known`. */
export function queryOf(request: FastifyRequest, known: readonly string[]): ReadonlyMap<string, string> {
  return readQuery((request.query as RawQuery).text, known)
}

/** How a write shall be done, from the query and `If-Match`. */
export function writeMode(request: FastifyRequest): WriteMode {
  const query = queryOf(request, ['dry_run', 'force'])
  return {
    dryRun: readSwitch(query, 'dry_run'),
    force: readSwitch(query, 'force'),
    ifMatch: request.method === 'POST' ? undefined : readIfMatch(request.headers['if-match'])
  }
}

/** Answers with what was read, or that the client has it already. */
export function sendRead(request: FastifyRequest, reply: FastifyReply, read: Read, serving: number): FastifyReply {
  const known = readIfNoneMatch(request.headers['if-none-match'])
  const { body, live, revision } = read
  reply.header('service-revision', String(serving))
  if (revision !== null) reply.header('etag', entityTag(revision))
  return revision !== null && live !== true && known(revision) ? reply.code(304).send() : reply.send(body)
}

/** Answers with a record and its version. */
function sendShown(reply: FastifyReply, shown: { body: unknown; revision: number }, serving: number): FastifyReply {
  return reply.header('etag', entityTag(shown.revision)).header('service-revision', String(serving)).send(shown.body)
}

/** Answers with what was written, or with what a dry run would have. */
export function sendWritten(
  reply: FastifyReply,
  written: Written,
  status: 200 | 201,
  { dryRun }: WriteMode
): FastifyReply {
  if (dryRun === true) return sendDryRun(reply, written, status, written.body)
  if (status === 201) reply.header('location', written.uri)
  const { body, warnings = [] } = written
  const shown = warnings.length > 0 && typeof body === 'object' ? { ...body, warnings } : body
  return sendShown(reply.code(status), { body: shown, revision: written.revision }, written.committed)
}

/** Answers that something is gone, or would be. */
export function sendDone(reply: FastifyReply, done: Done, { dryRun }: WriteMode): FastifyReply {
  if (dryRun === true) return sendDryRun(reply, done, 204, null)
  return reply.code(204).header('service-revision', String(done.committed)).send()
}

function sendDryRun(
  reply: FastifyReply,
  { committed, difference, warnings = [] }: Done,
  status: number,
  body: unknown
): FastifyReply {
  const { put, drop, routes = [] } = difference
  return reply.header('service-revision', String(committed)).send({
    dry_run: true,
    status_code: status,
    body,
    difference: { put, drop },
    routes,
    ...(warnings.length > 0 ? { warnings } : {})
  })
}
