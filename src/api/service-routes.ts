import type { FastifyRequest } from 'fastify'
import type { Call } from '../control/calls.js'
import type { SessionCommand } from '../control/cluster/live-sources.js'
import { notFound } from '../control/errors.js'
import { diffLines } from '../control/revision-text.js'
import type { Json } from '../lib/json.js'
import { tunnelSession } from '../resources/live.js'
import { fieldErrors } from '../schema/errors.js'
import { type Account, callOf, invalidParameter, LIMIT, queryOf, readCount, sendDryRun, writeMode } from './calls.js'
import { ApiError } from './errors.js'
import { type Handler, parameter, pathOf, type Router, route } from './routes.js'

/** Path of reverting a revision. */
export const REVERT_PATH = '/revisions/{id}/revert'

/** For supervisors: does the process live and serve? No key. */
export function addHealth(router: Router, readiness: () => Readiness): void {
  route(router, 'GET', '/healthz', { open: true }, async (_request, reply) => {
    const status = readiness()
    return reply
      .code(serves(status) ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status: status === 'ready' ? 'ok' : status })
  })
}

/** Adds the readiness check, with the reasons of a degraded state. It needs no key, so its words reveal nothing about the account. */
export function addReadiness(router: Router, readiness: () => Readiness, degradation: () => Degradation): void {
  route(router, 'GET', '/readyz', { open: true }, async (_request, reply) => {
    const status = readiness()
    const { reasons, revisionsBehind } = degradation()
    return reply
      .code(serves(status) ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status, reasons, revisions_behind: revisionsBehind })
  })
}

function serves(status: Readiness): boolean {
  return status === 'ready' || status === 'degraded'
}

/** The text format of Prometheus. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Adds the metrics in the text format of Prometheus, whose scrapers send a key but no version. */
export function addMetrics(router: Router, metrics: () => Promise<string>): void {
  route(router, 'GET', '/metrics', { unversioned: true }, async (_request, reply) =>
    reply.type(METRICS_TYPE).send(await metrics())
  )
}

/** Adds the description of the API; it reveals nothing about the account, and tools fetch it without a key. */
export function addDescription(router: Router, document: () => object): void {
  let text: string | undefined
  route(router, 'GET', '/openapi.json', { open: true }, async (_request, reply) => {
    text ??= JSON.stringify(document())
    return reply.type('application/json; charset=utf-8').header('cache-control', 'no-cache').send(text)
  })
}

export const COMMANDS: readonly SessionCommand[] = ['stop', 'restart', 'update']

/** Commands to connected agents. They change no record, so they make no revision. */
export function addSessionCommands(router: Router, account: Account): void {
  for (const command of COMMANDS) {
    route(router, 'POST', `${tunnelSession.path}/{id}/${command}`, { body: 'optional' }, send(command, account))
  }
}

function send(command: SessionCommand, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    const id = parameter(pathOf(request), 'id')
    mustSayNothing(request.body, id)
    await account.records.commandSession(id, command, call)
    return reply.code(204).send()
  }
}

/** Existing clients send an empty object, or the id once more. */
export function mustSayNothing(body: unknown, id: string): void {
  if (body === undefined || body === null) return
  const fields = typeof body === 'object' ? Object.entries(body) : [['', body]]
  const other = fields.find(([name, value]) => name !== 'id' || value !== id)
  if (other === undefined) return
  const field = String(other[0]).slice(0, 64)
  throw new ApiError(fieldErrors.FIELD_UNKNOWN, 'The body of a command has no fields.', { field })
}

const NUMBER = /^[1-9]\d{0,14}$/

/** The history of the account. */
export function addRevisions(router: Router, account: Account): void {
  route(router, 'GET', '/revisions', {}, list(account))
  route(
    router,
    'GET',
    '/revisions/{id}',
    {},
    one(account, (revision) => account.revisions.get(revision))
  )
  route(router, 'GET', '/revisions/{id}/diff', {}, diff(account))
  route(router, 'POST', REVERT_PATH, { body: 'optional' }, revert(account))
}

/** Returns the changes of a revision, or the differences of two; as text for clients that accept text but no JSON. */
function diff(account: Account): Handler {
  return async (request, reply) => {
    const { principal } = callOf(request)
    const from = queryOf(request, ['from']).get('from')
    if (from !== undefined && from !== '0' && !NUMBER.test(from)) throw invalidParameter('from', 'must be a revision')
    const serving = account.configuration.revision
    const other = from === undefined ? undefined : Number(from)
    const found = await account.revisions.diff(numberOf(request), principal, other)
    reply.header('service-revision', String(serving)).header('vary', 'accept')
    if (!wantsText(request.headers.accept)) return reply.send(found)
    return reply.type(TEXT_TYPE).send(
      `${diffLines(found)
        .map(({ text }) => text)
        .join('\n')}\n`
    )
  }
}

const TEXT_TYPE = 'text/plain; charset=utf-8'

/** Does `Accept` (RFC 9110 12.5.1) name text/plain, and JSON not before it? Weights other than 0 do not count. */
function wantsText(accept = ''): boolean {
  const kinds = accept.toLowerCase().split(',')
  const named = kinds.filter((kind) => !/;\s*q=0(\.0*)?\s*$/.test(kind)).map((kind) => kind.split(';')[0]?.trim())
  return named.find((kind) => kind === 'text/plain' || kind === 'application/json' || kind === '*/*') === 'text/plain'
}

/** Reverts a revision in a new write. */
function revert(account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    const mode = writeMode(request)
    const revision = numberOf(request)
    mustSayNothing(request.body, String(revision))
    const reverted = await account.reverts.revert(revision, mode, call)
    if (mode.dryRun === true) return sendDryRun(reply, reverted, 200, reverted.body)
    const { body, committed, warnings = [] } = reverted
    const shown = warnings.length > 0 ? { ...body, warnings } : body
    return reply.header('service-revision', String(committed)).send(shown)
  }
}

function list(account: Account): Handler {
  return async (request, reply) => {
    callOf(request)
    const query = queryOf(request, ['before_id', 'limit'])
    const limit = readCount(query, 'limit', LIMIT)
    const cursor = query.get('before_id')
    if (cursor !== undefined && !NUMBER.test(cursor)) throw invalidParameter('before_id', 'must be a revision')
    const serving = account.configuration.revision
    const before = cursor === undefined ? undefined : Number(cursor)
    return reply.header('service-revision', String(serving)).send(await account.revisions.list({ limit, before }))
  }
}

function one(account: Account, read: (revision: number, call: Call) => Promise<Json>): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    const serving = account.configuration.revision
    return reply.header('service-revision', String(serving)).send(await read(numberOf(request), call))
  }
}

function numberOf(request: FastifyRequest): number {
  const id = parameter(pathOf(request), 'id')
  if (!NUMBER.test(id)) throw notFound('revision')
  return Number(id)
}

/**
 * Readiness of the process. /healthz and /readyz respond with 200 if it is `ready` or `degraded` (it serves, with problems),
 * otherwise with 503.
 */
export type Readiness = 'starting' | 'ready' | 'degraded' | 'draining'

/** Why a process that serves is degraded. */
export interface Degradation {
  /** Reasons from a closed set of words, in their order; empty if not degraded. */
  readonly reasons: readonly string[]
  /** Number of revisions of the store that are not applied yet. */
  readonly revisionsBehind: number
}
