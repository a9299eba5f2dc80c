import { newLinks, type Resource } from '../resources/resource.js'
import type { Link, ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import { ControlError } from './control-error.js'

/**
 * Fails with `REF_NOT_FOUND` when `after` names a record that is not there. What `before` named already may be gone: its
 * reference stays where it was.
 */
export async function mustLeadSomewhere(
  reader: StoreReader,
  resource: Resource,
  before: ResourceRecord | undefined,
  after: ResourceRecord
): Promise<void> {
  const links = newLinks(resource, before, after)
  if (links.length === 0) return
  const found = new Set((await reader.getMany(links)).map(({ kind, id }) => `${kind} ${id}`))
  const missing = links.filter(({ kind, id }) => !found.has(`${kind} ${id}`))
  const [first] = missing
  if (first === undefined) return
  const problems = missing.map((link) => {
    return { field: requestPath(resource, link), code: 'REF_NOT_FOUND', message: `there is no ${link.kind} ${link.id}` }
  })
  const field = requestPath(resource, first)
  throw new ControlError('REF_NOT_FOUND', `there is no ${first.kind} ${first.id}`, { field, problems })
}

/** The path of a link's field as requests have it: `backend.backend` is `backend.backend_id` there. */
function requestPath(resource: Resource, { field, position }: Link): string {
  const [first = '', ...rest] = field.split('.')
  const declared = resource.fields[first]
  if (declared === undefined) return field
  const names = [declared.requestName(first)]
  let schema: RequestSchema | undefined = declared.request
  for (const name of rest) {
    const members = schema?.properties ?? {}
    const key = requestForms(name).find((form) => Object.hasOwn(members, form)) ?? name
    names.push(key)
    schema = members[key]
  }
  return `${names.join('.')}${schema?.type === 'array' ? `[${position}]` : ''}`
}

/** As much of a request's JSON Schema as leads to a field. */
interface RequestSchema {
  readonly type?: unknown
  readonly properties?: Readonly<Record<string, RequestSchema>>
}

/** Names that a reference may have in requests, the likeliest first. */
function requestForms(name: string): string[] {
  const singular = name.endsWith('ies') ? `${name.slice(0, -3)}y` : name.replace(/s$/, '')
  return [`${name}_id`, `${singular}_ids`, name]
}
