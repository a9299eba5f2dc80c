import type { Call, PathValues, WriteMode, Written } from '../control/calls.js'
import { ControlError } from '../control/control-error.js'
import type { Json } from '../resources/field.js'
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
  sendShown,
  sendWritten,
  writeMode
} from './calls.js'

/** Sub-paths of the lists inside a record whose entries have URLs of their own. */
export function addPartRoutes(router: Router, resource: Resource, account: Account): void {
  for (const part of resource.parts) {
    const path = `${resource.path}/{id}/${part.name}`
    const one = `${path}/{${part.key}}`
    route(router, 'GET', path, {}, list(resource, part, account))
    route(router, 'POST', path, { body: 'json' }, add(resource, part, account))
    route(router, 'GET', one, {}, get(resource, part, account))
    route(router, 'PATCH', one, { body: 'json' }, update(resource, part, account))
    route(router, 'DELETE', one, {}, remove(resource, part, account))
  }
}

function list(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'get', call)
    queryOf(request, [])
    const serving = account.revision
    return sendShown(reply, await account.getParts(resource, part, { path: pathOf(request) }, call), serving)
  }
}

function add(resource: Resource, part: Part, account: Account): Handler {
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

function get(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'get', call)
    queryOf(request, [])
    const path = pathOf(request)
    const serving = account.revision
    const asked = { path: { id: parameter(path, 'id') }, key: parameter(path, part.key) }
    return sendShown(reply, await account.getPart(resource, part, asked, call), serving)
  }
}

function remove(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'update', call)
    const mode = writeMode(request)
    const path = pathOf(request)
    const asked = { path: { id: parameter(path, 'id') }, key: parameter(path, part.key), ...mode }
    return sendDone(reply, await account.removePart(resource, part, asked, call), mode)
  }
}

function update(resource: Resource, part: Part, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(resource, 'update', call)
    const mode = writeMode(request)
    const path = withShortName(resource, pathOf(request))
    const written = await updateEntry({ resource, part, account, path, body: request.body, mode, call })
    return sendWritten(reply, written, 200, mode)
  }
}

interface EntryUpdate {
  readonly resource: Resource
  readonly part: Part
  readonly account: Account
  readonly path: PathValues
  readonly body: unknown
  readonly mode: WriteMode
  readonly call: Call
}

const ATTEMPTS = 5

/** The update of the whole list that the change of one entry is; tried again when another writer came in between. */
async function updateEntry(asked: EntryUpdate): Promise<Written> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await tryUpdate(asked)
    } catch (error) {
      const raced = error instanceof ControlError && error.code === 'PRECONDITION_FAILED'
      if (!raced || asked.mode.ifMatch !== undefined || attempt === ATTEMPTS) throw error
    }
  }
}

type Entry = Readonly<Record<string, Json>>

async function tryUpdate({ resource, part, account, path, body, mode, call }: EntryUpdate): Promise<Written> {
  const id = parameter(path, 'id')
  const key = parameter(path, part.key)
  const current = await account.getPart(resource, part, { path: { id }, key }, call)
  const whole = await account.getParts(resource, part, { path: { id } }, call)
  const entries = (whole.body as { readonly [key: string]: readonly Entry[] })[part.name] ?? []
  const place = entries.findIndex((entry) => entry[part.key] === key)
  const changed = merged(current.body as Entry, body, path)
  const list = entries.map((entry, at) => (at === place ? changed : entry))
  const ifMatch = (mode.ifMatch ?? [whole.revision]).filter((revision) => revision === whole.revision)
  try {
    const written = await account.update(
      resource,
      { path: { id }, body: { [part.field]: list }, ...mode, ifMatch },
      call
    )
    const shown = (written.body as { readonly [key: string]: readonly Json[] })[part.field]?.[place] ?? null
    return { ...written, body: shown }
  } catch (error) {
    throw error instanceof ControlError ? ofEntry(error, `${part.field}[${place}]`) : error
  }
}

function merged(current: Entry, body: unknown, path: PathValues): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body
  const given = Object.entries(body).filter(([name, value]) => !(Object.hasOwn(path, name) && path[name] === value))
  return { ...current, ...Object.fromEntries(given) }
}

/** In a request of its own the entry is the body. */
function ofEntry({ code, message, field = '', details, problems }: ControlError, place: string): ControlError {
  if (!field.startsWith(place)) return new ControlError(code, message, { field, details, problems })
  const own = field.slice(place.length).replace(/^\./, '')
  return new ControlError(code, message.replace(field, own).trim(), { details: { ...details, field: own } })
}

/** Existing clients repeat the record's id in the body under the last word of its kind: `subscription_id`. */
function withShortName({ name }: Resource, path: PathValues): PathValues {
  return { ...path, [`${name.slice(name.lastIndexOf('_') + 1)}_id`]: parameter(path, 'id') }
}
