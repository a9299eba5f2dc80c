import type { FastifyRequest } from 'fastify'
import type { Call } from '../control/calls.js'
import { notFound } from '../control/control-error.js'
import type { Json } from '../lib/json.js'
import type { Account } from './account.js'
import { callOf, type Handler, parameter, pathOf, queryOf, type Router, route } from './calls.js'
import { invalidParameter, LIMIT, readCount } from './query.js'

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
  route(
    router,
    'GET',
    '/revisions/{id}/diff',
    {},
    one(account, (revision, { principal }) => account.revisions.diff(revision, principal))
  )
}

function list(account: Account): Handler {
  return async (request, reply) => {
    callOf(request)
    const query = queryOf(request, ['before_id', 'limit'])
    const limit = readCount(query, 'limit', LIMIT)
    const cursor = query.get('before_id')
    if (cursor !== undefined && !NUMBER.test(cursor)) throw invalidParameter('before_id', 'must be a revision')
    const serving = account.revision
    const before = cursor === undefined ? undefined : Number(cursor)
    return reply.header('service-revision', String(serving)).send(await account.revisions.list({ limit, before }))
  }
}

function one(account: Account, read: (revision: number, call: Call) => Promise<Json>): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    const serving = account.revision
    return reply.header('service-revision', String(serving)).send(await read(numberOf(request), call))
  }
}

function numberOf(request: FastifyRequest): number {
  const id = parameter(pathOf(request), 'id')
  if (!NUMBER.test(id)) throw notFound('revision')
  return Number(id)
}
