import Type, { type TSchema } from 'typebox'
import type { Fields } from './field.js'
import { nullable } from './fields.js'

/** What a schema is made from: the fields of a resource with the names that its documents use. */
interface Described {
  readonly name: string
  readonly description: string
  readonly listKey: string
  readonly fields: Fields
}

/** Schema of what a client sends: every field that it may give now, and nothing else. */
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

/** Schema of an answer's object: every documented key, always. */
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

/** JSON Schema of the body of a create. */
export function createSchema({ name, fields }: Pick<Described, 'name' | 'fields'>): TSchema {
  return requestSchema(fields, 'create', { title: `${title(name)}Create` })
}

/** JSON Schema of the body of an update: every field may be absent. */
export function updateSchema({ name, fields }: Pick<Described, 'name' | 'fields'>): TSchema {
  return requestSchema(fields, 'update', { title: `${title(name)}Update` })
}

/** JSON Schema of one record in answers. */
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

/** Envelope of a page of the collection. `item` stands for one resource: its schema, or a `$ref` to it. */
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

/** Both forms of a module, by the name of its field. Throws a RangeError when the resource has no such module. */
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

/** `ip_policy_rule` to `IpPolicyRule`. */
export function title(name: string): string {
  return name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
