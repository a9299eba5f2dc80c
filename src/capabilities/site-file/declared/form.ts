import { isObject } from '../../../lib/json.js'
import type { Resource } from '../../../resources/resource.js'

export type Schema = Readonly<Record<string, unknown>>
/** Members of a map by their keys, in the order in which messages list them. */
export type Fields = Readonly<Record<string, Form>>

/** A value of a site file. */
export interface Form {
  /** JSON Schema for editors. */
  readonly schema: Schema
  /** Name of the map in messages, with its article. */
  readonly what?: string
  /** Members of a map with known keys. */
  readonly fields?: Fields
  /** Entries of a map whose keys are names of the user. */
  readonly entries?: Form
  /** Items of a list. */
  readonly items?: Form
  /** True if environment variables are inserted: into a text, or into the keys of `entries`. */
  readonly variables?: boolean
  /** Schema of the field of the same name in API requests, which takes the value as it is. */
  readonly request?: object | undefined
  /** True for a module: `true` switches it on with its defaults, `false` overrides the site. */
  readonly module?: boolean
}

/** A map with known keys. */
export interface MapForm extends Form {
  readonly what: string
  readonly fields: Fields
}

/** Lists of ids in requests that are lists of names in the file, with the name of the field in requests. */
export const NAMED_LISTS: Readonly<
  Record<string, { readonly request: string; readonly names: 'ipPolicies' | 'authorities' }>
> = {
  ip_policies: { request: 'ip_policy_ids', names: 'ipPolicies' },
  certificate_authorities: { request: 'certificate_authority_ids', names: 'authorities' }
}

/** Names in API requests of keys with other names in the file. */
export const RENAMED: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(NAMED_LISTS).map(([key, { request }]) => [key, request])
)

/** Returns a message about a request with the field names of the file. */
export function inFileWords(message: string): string {
  let text = message
  for (const [key, { request }] of Object.entries(NAMED_LISTS)) text = text.replaceAll(request, key)
  return text
}

/** Keys of descriptive fields. */
export const ABOUT = ['description', 'metadata']

export const text = (description: string): Form => ({ schema: { type: 'string', minLength: 1, description } })
/** Returns the form of a text with environment variables. */
export const variable = (description: string): Form => ({ ...text(description), variables: true })
/** Returns the form of one of fixed values. */
export const choice = (values: readonly unknown[], description?: string): Form => ({
  schema: { enum: values, ...(description === undefined ? {} : { description }) }
})

/** Returns the form of a map with known keys. `what`: its name in messages, with its article. */
export function map(what: string, fields: Fields, about: Schema = {}): MapForm {
  const properties = Object.fromEntries(Object.entries(fields).map(([key, { schema }]) => [key, schema]))
  return { what, fields, schema: { type: 'object', ...about, properties, additionalProperties: false } }
}

/** Returns the form of a map whose keys are names of the user. */
export function named(entries: Form, description: string, about: Pick<Form, 'variables'> = {}): Form {
  const schema = { type: ['object', 'null'], description, additionalProperties: entries.schema }
  return { ...about, entries, schema }
}

/** Returns the form of a list. */
export function list(items: Form, about: Schema = {}): Form {
  return { items, schema: { type: 'array', items: items.schema, ...about } }
}

/** Returns the form of a value with several notations, such as a text or a map. */
export function either(forms: readonly Form[], description?: string): Form {
  const schema = { anyOf: forms.map((form) => form.schema), ...(description === undefined ? {} : { description }) }
  return Object.assign({}, ...forms, { schema }) as Form
}

/** Returns the form of a reference to a secret. */
export function secret(description: string): Form {
  const ways = ['env', 'file', 'vault'].map((key) => {
    return map('a secret', { [key]: { schema: { type: 'string', minLength: 1 } } }, { required: [key] }).schema
  })
  return { schema: { description, oneOf: ways } }
}

/** Returns the names of the fields of a resource that requests set, without those in `except`. */
export function settable({ fields }: Resource, except: readonly string[] = []): string[] {
  return Object.entries(fields).flatMap(([name, { request, settable, module }]) => {
    const isOwn = request !== undefined && module !== true && (settable === 'always' || settable === 'create')
    return isOwn && !except.includes(name) ? [name] : []
  })
}

const OWN_MODULES = ['backend', 'traffic_policy']
/** Names of the modules of a resource that are written by their own names. */
const modulesOf = ({ modules }: Resource) => modules.filter((name) => !OWN_MODULES.includes(name))

/** Returns the forms of fields that are written as in API requests. */
export function requests({ fields }: Resource, names: readonly string[]): Fields {
  return Object.fromEntries(
    names.map((name) => [name, { schema: inFile(fields[name]?.request, name), request: fields[name]?.request ?? {} }])
  )
}

/** Returns the forms of the members of a field that is an object in API requests. */
export function members({ fields }: Resource, name: string): Fields {
  const { properties = {} } = (fields[name]?.request ?? {}) as {
    readonly properties?: Readonly<Record<string, object>>
  }
  return Object.fromEntries(
    Object.entries(properties).map(([key, request]) => [key, { schema: inFile(request, key), request }])
  )
}

/** Returns the forms of the modules of routes or TCP edges. */
export function modules(resource: Resource): Fields {
  const all = Object.entries(requests(resource, modulesOf(resource))).map(([name, { schema, request }]) => {
    return [name, { schema: { anyOf: [{ type: ['boolean', 'null'] }, schema] }, request, module: true }] as const
  })
  return Object.fromEntries(all)
}

/** Returns a schema of requests in the form of files: names in place of ids, references in place of secrets. */
function inFile(schema: unknown, name: string): Schema {
  if (NAMED_LISTS[name] !== undefined) return { type: 'array', items: { type: 'string' } }
  if (!isObject(schema)) return {}
  if (schema.writeOnly === true) return secret(String(schema.description ?? '')).schema
  const { properties, required } = schema
  if (!isObject(properties)) return schema
  const known = new Map(Object.entries(NAMED_LISTS).map(([key, { request }]) => [request, key]))
  const inner = Object.entries(properties).map(([key, inner]) => {
    const written = known.get(key) ?? key
    return [written, inFile(inner, written)]
  })
  const needed = Array.isArray(required) ? { required: required.map((key) => known.get(String(key)) ?? key) } : {}
  return { ...schema, properties: Object.fromEntries(inner), ...needed }
}
