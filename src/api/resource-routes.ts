import type { FastifyRequest } from 'fastify'
import type { Operation, Resource } from '../resources/resource.js'
import type { Account } from './account.js'
import {
  callOf,
  type Handler,
  pathOf,
  queryOf,
  type Router,
  route,
  sendDone,
  sendRead,
  sendWritten,
  writeMode
} from './calls.js'
import { invalidParameter, LIMIT, readCount } from './query.js'

const ID = /^[A-Za-z0-9_]{1,100}$/

/** The operations of a resource, whichever it is. */
export function addResourceRoutes(router: Router, resource: Resource, account: Account): void {
  const { path } = resource
  const item = `${path}/{id}`
  const has = (operation: Operation) => resource.operations.includes(operation)
  if (has('list')) route(router, 'GET', path, {}, listRecords(resource, account))
  if (has('create')) route(router, 'POST', path, { body: 'json' }, createRecord(resource, account))
  if (has('get')) route(router, 'GET', item, {}, getRecord(resource, account))
  if (has('update')) route(router, 'PATCH', item, { body: 'json' }, updateRecord(resource, account))
  if (has('delete')) route(router, 'DELETE', item, {}, removeRecord(resource, account))
}

/** Which page of a list the query asks for. Throws an ApiError. */
export function readPage(request: FastifyRequest): { readonly limit: number; readonly beforeId: string | undefined } {
  const query = queryOf(request, ['before_id', 'limit'])
  const limit = readCount(query, 'limit', LIMIT)
  const beforeId = query.get('before_id')
  if (beforeId !== undefined && !ID.test(beforeId)) throw invalidParameter('before_id', 'must be an id')
  return { limit, beforeId }
}

function listRecords(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'list', call)
    const path = pathOf(request)
    const page = readPage(request)
    const serving = account.revision
    const body = await account.list(resource, { path, ...page }, call)
    return reply.header('service-revision', String(serving)).send(body)
  }
}

function createRecord(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'create', call)
    const mode = writeMode(request)
    const written = await account.create(resource, { path: pathOf(request), body: request.body, ...mode }, call)
    return sendWritten(reply, written, 201, mode)
  }
}

function getRecord(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'get', call)
    queryOf(request, [])
    const serving = account.revision
    return sendRead(request, reply, await account.get(resource, { path: pathOf(request) }, call), serving)
  }
}

function updateRecord(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'update', call)
    const mode = writeMode(request)
    const written = await account.update(resource, { path: pathOf(request), body: request.body, ...mode }, call)
    return sendWritten(reply, written, 200, mode)
  }
}

function removeRecord(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'delete', call)
    const mode = writeMode(request)
    return sendDone(reply, await account.remove(resource, { path: pathOf(request), ...mode }, call), mode)
  }
}
