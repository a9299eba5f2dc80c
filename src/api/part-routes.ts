import type { PathValues } from '../control/calls.js'
import type { Part, Resource } from '../resources/resource.js'
import type { Account } from './account.js'
import {
  callOf,
  type Handler,
  parameter,
  pathOf,
  queryOf,
  type Router,
  route,
  sendDone,
  sendRead,
  sendWritten,
  writeMode
} from './calls.js'

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
    account.permit(resource, 'get', call)
    queryOf(request, [])
    const serving = account.revision
    return sendRead(request, reply, await account.getParts(resource, part, { path: pathOf(request) }, call), serving)
  }
}

function addPart(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'update', call)
    const mode = writeMode(request)
    const asked = { path: withShortName(resource, pathOf(request)), body: request.body, ...mode }
    const written = await account.addPart(resource, part, asked, call)
    const { uri } = written.body as { readonly uri?: unknown }
    return sendWritten(reply, typeof uri === 'string' ? { ...written, uri } : written, 201, mode)
  }
}

function getPart(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'get', call)
    queryOf(request, [])
    const path = pathOf(request)
    const serving = account.revision
    const asked = { path: { id: parameter(path, 'id') }, key: parameter(path, part.key) }
    return sendRead(request, reply, await account.getPart(resource, part, asked, call), serving)
  }
}

function removePart(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'update', call)
    const mode = writeMode(request)
    const path = pathOf(request)
    const asked = { path: { id: parameter(path, 'id') }, key: parameter(path, part.key), ...mode }
    return sendDone(reply, await account.removePart(resource, part, asked, call), mode)
  }
}

function updatePart(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'update', call)
    const mode = writeMode(request)
    const path = withShortName(resource, pathOf(request))
    const asked = { path, key: parameter(path, part.key), body: request.body, ...mode }
    return sendWritten(reply, await account.updatePart(resource, part, asked, call), 200, mode)
  }
}

/** Existing clients repeat the record's id in the body under the last word of its kind: `subscription_id`. */
function withShortName({ name }: Resource, path: PathValues): PathValues {
  return { ...path, [`${name.slice(name.lastIndexOf('_') + 1)}_id`]: parameter(path, 'id') }
}
