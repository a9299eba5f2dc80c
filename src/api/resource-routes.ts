import type { FastifyRequest } from 'fastify'
import type { Call, Done, ListRequest, PathValues, RecordPath, WriteMode, Written } from '../control/calls.js'
import type { Json } from '../lib/json.js'
import { isBoundBy } from '../resources/kubernetes-operators.js'
import type { Operation, Resource } from '../resources/resource.js'
import {
  type Account,
  callOf,
  invalidParameter,
  LIMIT,
  listQueryOf,
  queryOf,
  readCount,
  sendDone,
  sendRead,
  sendWritten,
  writeMode
} from './calls.js'
import { type Handler, type Method, parameter, pathOf, type RouteConfig, type Router, route } from './routes.js'

/** Parameters of every list of records. */
export const LIST_PARAMETERS = ['limit', 'before_id', 'filter'] as const

/** Parameters by which older clients select objects of a list, each any number of times, in place of `filter`. */
const SELECTING: Readonly<Record<string, readonly string[]>> = { endpoint: ['id', 'url'] }

const ID = /^[A-Za-z0-9_]{1,100}$/

/** Adds the routes of a resource. */
export function addResourceRoutes(router: Router, resource: Resource, account: Account): void {
  const { records } = account
  const { path } = resource
  const item = `${path}/{id}`
  const add = adder(router, resource)
  const has = (operation: Operation) => resource.operations.includes(operation)
  if (has('list')) add('GET', path, {}, listRecords(resource, account))
  if (has('create')) {
    const create = writing(resource, 'create', account, 201, (asked, call) => records.create(resource, asked, call))
    add('POST', path, { body: 'json' }, create)
  }
  if (has('get')) {
    const get = reading(resource, account, (path, call) => records.get(resource, { path }, call))
    add('GET', item, {}, get)
  }
  if (has('update')) {
    const update = writing(resource, 'update', account, 200, (asked, call) => records.update(resource, asked, call))
    add('PATCH', item, { body: 'json' }, update)
  }
  if (has('delete')) {
    const remove = removing(resource, 'delete', account, (asked, call) => records.remove(resource, asked, call))
    add('DELETE', item, {}, remove)
  }
}

/** Adds routes that read or write this resource. */
function adder(router: Router, { name }: Resource) {
  return (method: Method, path: string, config: RouteConfig, handler: Handler) =>
    route(router, method, path, { ...config, resource: name }, handler)
}

/** Reads the requested page of a list. Throws an ApiError. */
function readPage(request: FastifyRequest, { name }: Resource): Pick<ListRequest, 'limit' | 'beforeId' | 'filter'> {
  const query = listQueryOf(request, LIST_PARAMETERS, SELECTING[name] ?? [])
  const limit = readCount(query, 'limit', LIMIT)
  const beforeId = query.get('before_id')
  if (beforeId !== undefined && !ID.test(beforeId)) throw invalidParameter('before_id', 'must be an id')
  return { limit, beforeId, filter: query.get('filter') }
}

function listRecords(resource: Resource, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'list', call)
    const path = pathOf(request)
    const page = readPage(request, resource)
    const serving = account.configuration.revision
    const body = await account.records.list(resource, { path, ...page }, call)
    return reply.header('service-revision', String(serving)).send(body)
  }
}

type Asked = RecordPath & WriteMode

/** Sends the parts of a resource that the caller may read, and the running revision at that time. */
function reading(
  resource: Resource,
  account: Account,
  read: (path: PathValues, call: Call) => ReturnType<Account['records']['get']>
): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, 'get', call)
    queryOf(request, [])
    const serving = account.configuration.revision
    return sendRead(request, reply, await read(pathOf(request), call), serving)
  }
}

/** Writes a record, if the caller may, and sends it. */
function writing(
  resource: Resource,
  operation: 'create' | 'update',
  account: Account,
  status: 200 | 201,
  write: (asked: Asked & { readonly body: unknown }, call: Call) => Promise<Omit<Written, 'record'>>
): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, operation, call)
    const mode = writeMode(request)
    return sendWritten(reply, await write({ path: pathOf(request), body: request.body, ...mode }, call), status, mode)
  }
}

/** Deletes a record or a part of it, if the caller may. */
function removing(
  resource: Resource,
  operation: 'update' | 'delete',
  account: Account,
  remove: (asked: Asked, call: Call) => Promise<Done>
): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.records.permit(resource, operation, call)
    const mode = writeMode(request)
    return sendDone(reply, await remove({ path: pathOf(request), ...mode }, call), mode)
  }
}

/** Sub-paths of the modules of a resource, and of the fields that a DELETE clears. */
export function addModuleRoutes(router: Router, resource: Resource, account: Account): void {
  const { records } = account
  const add = adder(router, resource)
  const item = `${resource.path}/{id}`
  const remove = (module: string) =>
    removing(resource, 'update', account, (asked, call) => records.removeModule(resource, { ...asked, module }, call))
  for (const module of resource.modules) {
    const path = `${item}/${module}`
    const replace = writing(resource, 'update', account, 200, (asked, call) =>
      records.replaceModule(resource, { ...asked, module }, call)
    )
    const get = reading(resource, account, (path, call) => records.getModule(resource, { path, module }, call))
    add('PUT', path, { body: 'json' }, replace)
    add('GET', path, {}, get)
    add('DELETE', path, {}, remove(module))
  }
  for (const field of resource.clearable) add('DELETE', `${item}/${field}`, {}, remove(field))
}

/** A collection that can be listed below a record: of the entries that refer to it, or that it selects. */
interface Nested {
  /** Names of the resources. */
  readonly parent: string
  readonly child: string
  /** Field of the child that refers to the parent. @default the parent selects entries */
  readonly field?: string
  /** Returns whether the parent selects an entry; both as the API shows them. @default every entry that refers to it */
  readonly selects?: (parent: Json) => (shown: unknown) => boolean
  readonly name: string
}

const NESTED: readonly Nested[] = [
  { parent: 'vault', child: 'vault_secret', field: 'vault', name: 'secrets' },
  { parent: 'kubernetes_operator', child: 'endpoint', selects: isBoundBy, name: 'bound_endpoints' }
]

/** Returns the nested lists whose parent and child resources both exist. */
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
    const page = readPage(request, child)
    const shown = await account.records.get(parent, { path }, call)
    const serving = account.configuration.revision
    const { field, selects } = nested
    const referring = field === undefined ? undefined : { field, kind: parent.name, id }
    const asked = { path: {}, ...page, referring, passes: selects?.(shown.body) }
    const body = (await account.records.list(child, asked, call)) as Readonly<Record<string, unknown>>
    const uri = `${baseUrl()}${parent.path}/${id}/${nested.name}`
    const next = typeof body.next_page_uri === 'string' ? `${uri}${new URL(body.next_page_uri).search}` : null
    return reply.header('service-revision', String(serving)).send({ ...body, uri, next_page_uri: next })
  }
}

/** Adds sub-paths for the lists within a record whose entries have their own URLs. */
export function addPartRoutes(router: Router, resource: Resource, account: Account): void {
  const { records } = account
  const route = adder(router, resource)
  for (const part of resource.parts) {
    const all = `${resource.path}/{id}/${part.name}`
    const one = `${all}/{${part.key}}`
    const entry = (path: PathValues) => ({ path: { id: parameter(path, 'id') }, key: parameter(path, part.key) })
    const list = reading(resource, account, (path, call) => records.getParts(resource, part, { path }, call))
    const add = writing(resource, 'update', account, 201, async (asked, call) => {
      const path = withShortName(resource, asked.path)
      const written = await records.addPart(resource, part, { ...asked, path }, call)
      const { uri } = written.body as { readonly uri?: unknown }
      return typeof uri === 'string' ? { ...written, uri } : written
    })
    const get = reading(resource, account, (path, call) => records.getPart(resource, part, entry(path), call))
    const update = writing(resource, 'update', account, 200, (asked, call) => {
      const path = withShortName(resource, asked.path)
      // A published client has no body for it.
      const body = asked.body === undefined ? {} : asked.body
      return records.updatePart(resource, part, { ...asked, body, path, key: parameter(path, part.key) }, call)
    })
    const remove = removing(resource, 'update', account, (asked, call) =>
      records.removePart(resource, part, { ...asked, ...entry(asked.path) }, call)
    )
    route('GET', all, {}, list)
    route('POST', all, { body: 'json' }, add)
    route('GET', one, {}, get)
    route('PATCH', one, { body: 'optional' }, update)
    route('DELETE', one, {}, remove)
  }
}

/** Existing clients repeat the record's id in the body under the last word of its kind: `subscription_id`. */
function withShortName({ name }: Resource, path: PathValues): PathValues {
  return { ...path, [`${name.slice(name.lastIndexOf('_') + 1)}_id`]: parameter(path, 'id') }
}
