import { isObject, type Json } from '../../lib/json.js'
import type { Resource } from '../../resources/resource.js'
import { checkValue } from '../../schema/check.js'
import type { Field, Reading, ResourceRecord } from '../../schema/field.js'

/** As much of a request's JSON Schema as says how its values are written. */
export interface RequestSchema {
  readonly type?: unknown
  readonly properties?: Readonly<Record<string, RequestSchema>>
  readonly writeOnly?: boolean
  readonly minProperties?: number
  readonly maxProperties?: number
}

/** A record as a request that would make it, without what no answer shows. */
export interface RequestForm {
  readonly fields: Readonly<Record<string, Json>>
  /** Paths of secrets that are set and left out. */
  readonly secrets: readonly string[]
}

/** The inverse of reading a creation: what is unset is left out, ids of parents stand beside the other fields. */
export function requestForm(resource: Resource, { body }: Pick<ResourceRecord, 'body'>): RequestForm {
  const fields: Record<string, Json> = {}
  const secrets: string[] = []
  for (const [name, field] of Object.entries(resource.fields)) {
    const stored = Object.hasOwn(body, name) ? body[name] : field.initial
    if (!isGiven(field) || isUnset(field, name, stored)) continue
    const written =
      field.request === undefined ? stored : asWritten(field.request as RequestSchema, stored, name, secrets)
    if (written !== undefined) fields[field.requestName(name)] = written as Json
  }
  return { fields, secrets }
}

/** Names that a member of a stored object may have in requests, the likeliest first. */
function requestNames(name: string): string[] {
  const singular = name.endsWith('ies') ? `${name.slice(0, -3)}y` : name.replace(/s$/, '')
  return [name, `${name}_id`, `${singular}_ids`]
}

/** Is it what a client gives, in the body or in the path? */
export function isGiven({ kept, settable }: Field): boolean {
  return kept && (settable === 'always' || settable === 'create' || settable === 'path')
}

/** Unset is what a creation without the field has, as long as it means nothing, or what a request cannot even say. */
function isUnset(field: Field, name: string, stored: unknown): boolean {
  if (stored === null || stored === undefined) return true
  if (JSON.stringify(stored) !== JSON.stringify(field.initial)) return false
  if (stored === '' || (typeof stored === 'object' && Object.keys(stored).length === 0)) return true
  if (field.request === undefined || (field.request as RequestSchema).writeOnly === true) return false
  let refused = false
  const reading: Reading = { checkPolicy: () => undefined, secret: () => undefined, report: () => (refused = true) }
  field.read(stored, name, name, reading)
  return refused
}

function asWritten(schema: RequestSchema, stored: unknown, path: string, secrets: string[]): unknown {
  if (schema.writeOnly === true) {
    if (stored !== true) return ''
    secrets.push(path)
    return undefined
  }
  if (schema.properties === undefined || !isObject(stored)) return stored
  if (isChoice(schema, stored)) {
    const { name, value } = stored
    const inner = schema.properties[name]
    return inner === undefined ? {} : { [name]: asWritten(inner, value, `${path}.${name}`, secrets) }
  }
  const members: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(stored)) {
    const key = requestNames(name).find((form) => Object.hasOwn(schema.properties ?? {}, form))
    const inner = key === undefined ? undefined : schema.properties[key]
    if (key === undefined || inner === undefined || value === null || isUnsayable(inner, value)) continue
    const written = asWritten(inner, value, `${path}.${name}`, secrets)
    if (written !== undefined) members[key] = written
  }
  return members
}

/** An object of which exactly one member is given is stored as that member with its name. */
function isChoice(
  { minProperties, maxProperties, properties }: RequestSchema,
  stored: Record<string, unknown>
): stored is { name: string; value: unknown } {
  return properties !== undefined && minProperties === 1 && maxProperties === 1 && typeof stored.name === 'string'
}

/** An empty text where none can be given: the member is unset. */
function isUnsayable(schema: RequestSchema, value: unknown): boolean {
  if (value !== '' || schema.writeOnly === true || schema.type !== 'string') return false
  return checkValue(schema as object, value, '', () => undefined) === undefined
}
