import type { Resource } from '../resources/resource.js'
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
    account.permit(resource, 'update', call)
    const mode = writeMode(request)
    const asked = { path: pathOf(request), module, body: request.body, ...mode }
    return sendWritten(reply, await account.replaceModule(resource, asked, call), 200, mode)
  }
}

function getModule(resource: Resource, module: string, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'get', call)
    queryOf(request, [])
    const serving = account.revision
    return sendRead(request, reply, await account.getModule(resource, { path: pathOf(request), module }, call), serving)
  }
}

function removeModule(resource: Resource, module: string, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'update', call)
    const mode = writeMode(request)
    const done = await account.removeModule(resource, { path: pathOf(request), module, ...mode }, call)
    return sendDone(reply, done, mode)
  }
}
