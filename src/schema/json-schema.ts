import Type, { type TSchema } from 'typebox'
import type { Fields } from './field.js'
import { nullable } from './fields.js'

/** Source of a schema: a resource's fields and names. */
interface Described {
  readonly name: string
  readonly description: string
  readonly listKey: string
  readonly fields: Fields
}

/** Schema of a request: every field that the client may set in this mode, and no others. */
export function requestSchema(fields: Fields, mode: 'create' | 'update', options: object = {}): TSchema {
  const properties: Record<string, TSchema> = {}
  const required: string[] = []
  for (const [name, field] of Object.entries(fields)) {
    if (field.request === undefined || (field.settable !== 'always' && field.settable !== mode)) continue
    const key = field.requestName(name)
    const clears = mode === 'update' && field.onNull !== 'refused' && !field.required
    properties[key] = clears ? nullable(field.request) : field.request
    if (mode === 'create' && field.required) required.push(key)
  }
  return Type.Unsafe({
    type: 'object',
    ...options,
    properties,
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false
  })
}

/** Schema of an object in a response: every documented key is always present. */
export function responseMembers(fields: Fields, options: object = {}): TSchema {
  const shown = Object.entries(fields).flatMap(([name, { response }]): [string, TSchema][] =>
    response === undefined ? [] : [[name, response]]
  )
  return Type.Unsafe({
    type: 'object',
    ...options,
    properties: Object.fromEntries(shown),
    required: shown.map(([name]) => name)
  })
}

/** JSON Schema of a create request's body. */
export function createSchema({ name, fields }: Pick<Described, 'name' | 'fields'>): TSchema {
  return requestSchema(fields, 'create', { title: `${title(name)}Create` })
}

/** JSON Schema of an update request's body; every field is optional. */
export function updateSchema({ name, fields }: Pick<Described, 'name' | 'fields'>): TSchema {
  return requestSchema(fields, 'update', { title: `${title(name)}Update` })
}

/** JSON Schema of one record in responses. */
export function responseSchema({ name, description, fields }: Omit<Described, 'listKey'>): TSchema {
  const standard = {
    id: Type.String({ description: 'Its id.' }),
    uri: Type.String({ description: 'Its URL.' }),
    created_at: Type.String({ description: 'When it was created (RFC 3339).', format: 'date-time' })
  }
  const { properties, required } = responseMembers(fields) as unknown as {
    properties: Record<string, TSchema>
    required: readonly string[]
  }
  return Type.Unsafe({
    type: 'object',
    title: title(name),
    description,
    properties: { ...standard, ...properties },
    required: [...Object.keys(standard), ...required]
  })
}

/** Envelope of a page of the collection. `item` is a resource's schema or a `$ref` to it. */
export function listSchema({ name, listKey }: Pick<Described, 'name' | 'listKey'>, item: TSchema): TSchema {
  return Type.Object(
    {
      [listKey]: Type.Array(item, { description: 'The records of this page.' }),
      uri: Type.String({ description: 'URL of the collection.' }),
      next_page_uri: nullable(Type.String({ description: 'URL of the next page; null at the end.' }))
    },
    { title: `${title(name)}List` }
  )
}

/** Returns both forms of a module by its field name. Throws a RangeError if the resource has no such module. */
export function moduleSchemas(
  resource: Pick<Described, 'name' | 'fields'>,
  name: string
): { request: TSchema; response: TSchema } {
  const field = resource.fields[name]
  if (field?.module !== true || field.request === undefined || field.response === undefined) {
    throw new RangeError(`${resource.name} has no module ${name}`)
  }
  const [response] = (field.response as TSchema & { readonly anyOf: readonly TSchema[] }).anyOf
  return { request: field.request, response: response as TSchema }
}

/** Converts `ip_policy_rule` to `IpPolicyRule`. */
export function title(name: string): string {
  return name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
