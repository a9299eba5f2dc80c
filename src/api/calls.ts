import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Access } from '../control/access.js'
import type { Call, Done, Read, WriteMode, Written } from '../control/calls.js'
import type { Configuration } from '../control/configuration.js'
import { controlErrors } from '../control/errors.js'
import type { Guard } from '../control/guard-note.js'
import type { Policies } from '../control/policies.js'
import type { RecordOperations } from '../control/record-operations.js'
import type { Reverts } from '../control/reverts.js'
import type { Revisions } from '../control/revisions.js'
import type { Sessions } from '../control/sessions.js'
import type { Traffic } from '../control/traffic.js'
import type { WriteGuards } from '../control/write-guards.js'
import type { ErrorRow } from '../lib/errors.js'
import { canonicalAddress } from '../lib/ip.js'
import { appendTo } from '../lib/lists.js'
import { ApiError, apiErrors, isNgrokClient } from './errors.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads the guard of a write. Fails with a `ControlError`. */
    readGuard(text: string): Guard
  }
}

/** Raw query of a request: `text` is the part after the question mark. */
export interface RawQuery {
  readonly text: string
}

/** Other spellings that clients of this API use. */
const ALIASES: ReadonlyMap<string, string> = new Map([['beforeId', 'before_id']])

/** Bounds of `limit`, the size of a page. */
export const LIMIT = { least: 1, most: 100, absent: 100, error: apiErrors.PAGE_LIMIT }

/** Longest value of a parameter; ids and numbers are much shorter. */
const MAX_VALUE = 256
/** Maximum length of an expression, and of a bucket's key (characters). */
const MAX_LONG_VALUE = 4_096
const LONG_VALUES: readonly string[] = ['where', 'key', 'values', 'filter']

/**
 * The parameters of a query, each at most once and each one of `known`.
 * Throws an ApiError `QUERY_MALFORMED`, `QUERY_UNKNOWN` or `QUERY_REPEATED`.
 */
function readQuery(text: string, known: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const written = decode(equals === -1 ? pair : pair.slice(0, equals))
    const name = ALIASES.get(written) ?? written
    const field = name.slice(0, 64)
    if (!known.includes(name)) {
      const names = known.length === 0 ? 'there are none here' : `there are ${known.join(', ')}`
      throw new ApiError(apiErrors.QUERY_UNKNOWN, `The query has a parameter that is not known; ${names}.`, { field })
    }
    if (found.has(name))
      throw new ApiError(apiErrors.QUERY_REPEATED, `The query has ${name} more than once.`, { field })
    const value = equals === -1 ? '' : decode(pair.slice(equals + 1))
    if (value.length > (LONG_VALUES.includes(name) ? MAX_LONG_VALUE : MAX_VALUE))
      throw invalidParameter(name, 'is too long')
    found.set(name, value)
  }
  return found
}

/** Reads a switch. @default false. Throws an ApiError `QUERY_INVALID`. */
export function readSwitch(query: ReadonlyMap<string, string>, name: string): boolean {
  const value = query.get(name)
  if (value === undefined || value === 'false') return false
  if (value === 'true') return true
  throw invalidParameter(name, 'must be true or false')
}

/** A whole number within bounds. Throws an ApiError with the error `error`. */
export function readCount(
  query: ReadonlyMap<string, string>,
  name: string,
  { least, most, absent, error }: { least: number; most: number; absent: number; error: ErrorRow }
): number {
  const value = query.get(name)
  if (value === undefined) return absent
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
  if (number >= least && number <= most) return number
  throw new ApiError(error, `${name} must be a whole number from ${least} to ${most}.`, { field: name })
}

/** Returns the error `QUERY_INVALID` for a parameter of the query. */
export function invalidParameter(name: string, reason: string): ApiError {
  return new ApiError(controlErrors.QUERY_INVALID, `${name} ${reason}.`, { field: name })
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    // A percent sign without two digits, or bytes that are no UTF-8: one and the same to the client.
    throw new ApiError(apiErrors.QUERY_MALFORMED, 'The query is not percent-encoded UTF-8.')
  }
}

const TAG = /^(?:W\/)?"[\x21\x23-\x7e]*"$/
const STRONG = /^"(\d{1,15})"$/
const ANY = /^(?:W\/)?"(\d{1,15})"$/

/** ETag of a record at a revision (RFC 9110 8.8.3). */
function entityTag(revision: number): string {
  return `"${revision}"`
}

/**
 * Returns the revisions that `If-Match` (RFC 9110 13.1.1) accepts; undefined for any. Tags compare strongly, so a weak one
 * names no revision. Throws an ApiError `PRECONDITION_INVALID`.
 */
function readIfMatch(header: string | undefined): readonly number[] | undefined {
  return header === undefined ? undefined : revisionsOf(header, STRONG, 'If-Match')
}

/**
 * Returns a check whether the client has a revision, by `If-None-Match` (RFC 9110 13.1.2), which compares weakly. Throws an
 * ApiError `PRECONDITION_INVALID`.
 */
function readIfNoneMatch(header: string | undefined): (revision: number) => boolean {
  if (header === undefined) return () => false
  const revisions = revisionsOf(header, ANY, 'If-None-Match')
  return (revision) => revisions?.includes(revision) ?? true
}

/** Returns the revisions that a header names; undefined for `*`, which means all. */
function revisionsOf(header: string, form: RegExp, name: string): readonly number[] | undefined {
  if (header.trim() === '*') return undefined
  const tags = header
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '')
  if (tags.length === 0 || !tags.every((tag) => TAG.test(tag))) {
    throw new ApiError(
      apiErrors.PRECONDITION_INVALID,
      `${name} must be an ETag in double quotes, several of them, or *.`
    )
  }
  return tags.flatMap((tag) => {
    const revision = form.exec(tag)?.[1]
    return revision === undefined ? [] : [Number(revision)]
  })
}

export function callOf(request: FastifyRequest): Call {
  const { principal, id, spend } = request
  const nullIsUnset = isNgrokClient(request)
  if (principal === undefined) throw new TypeError('a path of the account is open')
  return { principal, address: addressOf(request), operationId: id, spend, nullIsUnset }
}

/** Address of the client; an IPv4 one without the form that it has on an IPv6 socket. */
export function addressOf({ socket }: FastifyRequest): string | undefined {
  return socket.remoteAddress === undefined ? undefined : canonicalAddress(socket.remoteAddress)
}

/** Returns the query of a request; throws an ApiError for parameters other than `known`. */
export function queryOf(request: FastifyRequest, known: readonly string[]): ReadonlyMap<string, string> {
  return readQuery((request.query as RawQuery).text, known)
}

/**
 * Returns the query of a list of objects. Of parameters in `selecting`, which may be repeated, objects must have one of the values: they
 * are part of the filter. Throws an ApiError for parameters other than those and `known`.
 */
export function listQueryOf(
  request: FastifyRequest,
  known: readonly string[],
  selecting: readonly string[]
): ReadonlyMap<string, string> {
  const chosen = new Map<string, string[]>()
  const others = (request.query as RawQuery).text.split('&').filter((pair) => {
    const [name = '', value = ''] = pair.split('=', 2)
    if (!selecting.includes(name)) return true
    appendTo(chosen, name, decode(value))
    return false
  })
  const query = new Map(readQuery(others.join('&'), known))
  const given = query.get('filter')
  const conditions = [...chosen].map(([name, values]) => `obj.${name} in ${JSON.stringify(values)}`)
  if (conditions.length > 0)
    query.set('filter', [...(given === undefined ? [] : [`(${given})`]), ...conditions].join(' && '))
  return query
}

/** Reads the options of a write from the query, `If-Match` and `guard`. */
export function writeMode(request: FastifyRequest): WriteMode {
  const query = queryOf(request, ['dry_run', 'force'])
  const { guard } = request.headers
  return {
    dryRun: readSwitch(query, 'dry_run'),
    force: readSwitch(query, 'force'),
    // Several fields come as one, with commas between.
    ...(guard === undefined ? {} : { guard: request.server.readGuard(String(guard)) }),
    ifMatch: request.method === 'POST' ? undefined : readIfMatch(request.headers['if-match'])
  }
}

/** Does `Accept` (RFC 9110 12.5.1) name this type, and neither JSON nor any type before it? Weights other than 0 do not count. */
export function prefers(type: 'text/plain' | 'text/html', accept = ''): boolean {
  const kinds = accept.toLowerCase().split(',')
  const named = kinds.filter((kind) => !/;\s*q=0(\.0*)?\s*$/.test(kind)).map((kind) => kind.split(';')[0]?.trim())
  return named.find((kind) => kind === type || kind === 'application/json' || kind === '*/*') === type
}

/** Sends the read object, or 304 if the client has it already. `serving`: the running revision; undefined if the response names it. */
export function sendRead(
  request: FastifyRequest,
  reply: FastifyReply,
  read: Omit<Read, 'record'>,
  serving?: number
): FastifyReply {
  const known = readIfNoneMatch(request.headers['if-none-match'])
  const { body, live, revision } = read
  if (serving !== undefined) reply.header('service-revision', String(serving))
  if (revision !== null) reply.header('etag', entityTag(revision))
  return revision !== null && live !== true && known(revision) ? reply.code(304).send() : reply.send(body)
}

/** Adds the running revision to a response. */
export function serving(reply: FastifyReply, { configuration }: Pick<Account, 'configuration'>): FastifyReply {
  return reply.header('service-revision', String(configuration.revision))
}

/** Sends a record and its version. */
function sendShown(reply: FastifyReply, shown: { body: unknown; revision: number }, serving: number): FastifyReply {
  return reply.header('etag', entityTag(shown.revision)).header('service-revision', String(serving)).send(shown.body)
}

/** Sends the written record, or the result of a dry run. */
export function sendWritten(
  reply: FastifyReply,
  written: Omit<Written, 'record' | 'body'> & { readonly body: unknown },
  status: 200 | 201 | 202,
  { dryRun }: WriteMode
): FastifyReply {
  if (dryRun === true) return sendDryRun(reply, written, status, written.body)
  if (status === 201) reply.header('location', written.uri)
  const { body, warnings = [] } = written
  const shown = warnings.length > 0 && typeof body === 'object' ? { ...body, warnings } : body
  return sendShown(reply.code(status), { body: shown, revision: written.revision }, written.committed)
}

/** Sends the response to a deletion, or to its dry run. */
export function sendDone(reply: FastifyReply, done: Done, { dryRun }: WriteMode): FastifyReply {
  if (dryRun === true) return sendDryRun(reply, done, 204, null)
  return reply.code(204).header('service-revision', String(done.committed)).send()
}

/** Sends the result of a dry run. */
export function sendDryRun(
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

/** Operations of the control plane that the API needs. */
export interface Account {
  readonly records: Pick<RecordOperations, keyof RecordOperations>
  readonly access: Pick<Access, 'authenticate' | 'otherThanKey' | 'admits' | 'keepsOut'>
  readonly configuration: Pick<Configuration, 'revision' | 'processes'>
  readonly guards: Pick<WriteGuards, 'read'>
  readonly revisions: Pick<Revisions, 'list' | 'get' | 'diff'>
  readonly reverts: Pick<Reverts, 'revert'>
  readonly traffic: Pick<Traffic, 'day' | 'history' | 'follow' | 'map'>
  readonly policies: Policies
  readonly sessions: Pick<Sessions, 'name' | 'open' | 'resume' | 'watching' | 'end' | 'shown'>
}
