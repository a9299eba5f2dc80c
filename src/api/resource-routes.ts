import type { FastifyRequest } from 'fastify'
import type { PathValues } from '../control/calls.js'
import type { Operation, Part, Resource } from '../resources/resource.js'
import {
  type Account,
  callOf,
  type Handler,
  invalidParameter,
  LIMIT,
  parameter,
  pathOf,
  queryOf,
  type Router,
  readCount,
  route,
  sendDone,
  sendRead,
  sendWritten,
  writeMode
} from './calls.js'

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
function readPage(request: FastifyRequest): { readonly limit: number; readonly beforeId: string | undefined } {
  const query = queryOf(request, ['before_id', 'limit'])
  const limit = readCount(query, 'limit', LIMIT)
  const beforeId = query.get('before_id')
  if (beforeId !== undefined && !ID.test(beforeId)) throw invalidParameter('before_id', 'must be an id')
  return { limit, beforeId }
}

function listRecords(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'list', call)
    const path = pathOf(request)
    const page = readPage(request)
    const serving = account.configuration.revision
    const body = await account.records.list(resource, { path, ...page }, call)
    return reply.header('service-revision', String(serving)).send(body)
  }
}

function createRecord(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'create', call)
    const mode = writeMode(request)
    const written = await account.records.create(resource, { path: pathOf(request), body: request.body, ...mode }, call)
    return sendWritten(reply, written, 201, mode)
  }
}

function getRecord(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'get', call)
    queryOf(request, [])
    const serving = account.configuration.revision
    return sendRead(request, reply, await account.records.get(resource, { path: pathOf(request) }, call), serving)
  }
}

function updateRecord(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'update', call)
    const mode = writeMode(request)
    const written = await account.records.update(resource, { path: pathOf(request), body: request.body, ...mode }, call)
    return sendWritten(reply, written, 200, mode)
  }
}

function removeRecord(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'delete', call)
    const mode = writeMode(request)
    return sendDone(reply, await account.records.remove(resource, { path: pathOf(request), ...mode }, call), mode)
  }
}

/** Sub-paths of the modules of a resource, and of the fields that a DELETE clears. */
export function addModuleRoutes(router: Router, resource: Resource, account: Account): void {
  const item = `${resource.path}/{id}`
  for (const module of resource.modules) {
    const path = `${item}/${module}`
    route(router, 'PUT', path, { body: 'json' }, replaceModule(resource, module, account))
    route(router, 'GET', path, {}, getModule(resource, module, account))
    route(router, 'DELETE', path, {}, removeModule(resource, module, account))
  }
  for (const field of resource.clearable)
    route(router, 'DELETE', `${item}/${field}`, {}, removeModule(resource, field, account))
}

function replaceModule(resource: Resource, module: string, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'update', call)
    const mode = writeMode(request)
    const asked = { path: pathOf(request), module, body: request.body, ...mode }
    return sendWritten(reply, await account.records.replaceModule(resource, asked, call), 200, mode)
  }
}

function getModule(resource: Resource, module: string, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'get', call)
    queryOf(request, [])
    const serving = account.configuration.revision
    return sendRead(
      request,
      reply,
      await account.records.getModule(resource, { path: pathOf(request), module }, call),
      serving
    )
  }
}

function removeModule(resource: Resource, module: string, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'update', call)
    const mode = writeMode(request)
    const done = await account.records.removeModule(resource, { path: pathOf(request), module, ...mode }, call)
    return sendDone(reply, done, mode)
  }
}

/** A collection that can be listed below a record that its entries refer to. */
interface Nested {
  /** Names of the resources. */
  readonly parent: string
  readonly child: string
  /** Field of the child that refers to the parent. */
  readonly field: string
  readonly name: string
}

const NESTED: readonly Nested[] = [{ parent: 'vault', child: 'vault_secret', field: 'vault', name: 'secrets' }]

/** The nested lists whose resources are both there. */
export function nestedLists(resources: readonly Resource[]): { parent: Resource; child: Resource; nested: Nested }[] {
  return NESTED.flatMap((nested) => {
    const parent = resources.find(({ name }) => name === nested.parent)
    const child = resources.find(({ name }) => name === nested.child)
    return parent === undefined || child === undefined ? [] : [{ parent, child, nested }]
  })
}

export function addNestedRoutes(
  router: Router,
  resources: readonly Resource[],
  account: Account,
  baseUrl: () => string
): void {
  for (const { parent, child, nested } of nestedLists(resources)) {
    route(router, 'GET', `${parent.path}/{id}/${nested.name}`, {}, listNested(parent, child, nested, account, baseUrl))
  }
}

function listNested(
  parent: Resource,
  child: Resource,
  nested: Nested,
  account: Account,
  baseUrl: () => string
): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(child, 'list', call)
    const path = pathOf(request)
    const id = parameter(path, 'id')
    const page = readPage(request)
    await account.records.get(parent, { path }, call)
    const serving = account.configuration.revision
    const referring = { field: nested.field, kind: parent.name, id }
    const body = (await account.records.list(child, { path: {}, ...page, referring }, call)) as Readonly<
      Record<string, unknown>
    >
    const uri = `${baseUrl()}${parent.path}/${id}/${nested.name}`
    const next = typeof body.next_page_uri === 'string' ? `${uri}${new URL(body.next_page_uri).search}` : null
    return reply.header('service-revision', String(serving)).send({ ...body, uri, next_page_uri: next })
  }
}

/** Sub-paths of the lists inside a record whose entries have URLs of their own. */
export function addPartRoutes(router: Router, resource: Resource, account: Account): void {
  for (const part of resource.parts) {
    const path = `${resource.path}/{id}/${part.name}`
    const one = `${path}/{${part.key}}`
    route(router, 'GET', path, {}, listParts(resource, part, account))
    route(router, 'POST', path, { body: 'json' }, addPart(resource, part, account))
    route(router, 'GET', one, {}, getPart(resource, part, account))
    route(router, 'PATCH', one, { body: 'json' }, updatePart(resource, part, account))
    route(router, 'DELETE', one, {}, removePart(resource, part, account))
  }
}

function listParts(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'get', call)
    queryOf(request, [])
    const serving = account.configuration.revision
    return sendRead(
      request,
      reply,
      await account.records.getParts(resource, part, { path: pathOf(request) }, call),
      serving
    )
  }
}

function addPart(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'update', call)
    const mode = writeMode(request)
    const asked = { path: withShortName(resource, pathOf(request)), body: request.body, ...mode }
    const written = await account.records.addPart(resource, part, asked, call)
    const { uri } = written.body as { readonly uri?: unknown }
    return sendWritten(reply, typeof uri === 'string' ? { ...written, uri } : written, 201, mode)
  }
}

function getPart(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'get', call)
    queryOf(request, [])
    const path = pathOf(request)
    const serving = account.configuration.revision
    const asked = { path: { id: parameter(path, 'id') }, key: parameter(path, part.key) }
    return sendRead(request, reply, await account.records.getPart(resource, part, asked, call), serving)
  }
}

function removePart(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'update', call)
    const mode = writeMode(request)
    const path = pathOf(request)
    const asked = { path: { id: parameter(path, 'id') }, key: parameter(path, part.key), ...mode }
    return sendDone(reply, await account.records.removePart(resource, part, asked, call), mode)
  }
}

function updatePart(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'update', call)
    const mode = writeMode(request)
    const path = withShortName(resource, pathOf(request))
    const asked = { path, key: parameter(path, part.key), body: request.body, ...mode }
    return sendWritten(reply, await account.records.updatePart(resource, part, asked, call), 200, mode)
  }
}

/** Existing clients repeat the record's id in the body under the last word of its kind: `subscription_id`. */
function withShortName({ name }: Resource, path: PathValues): PathValues {
  return { ...path, [`${name.slice(name.lastIndexOf('_') + 1)}_id`]: parameter(path, 'id') }
}
