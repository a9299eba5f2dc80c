import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json } from '../../lib/json.js'
import type { Resource } from '../../resources/resource.js'
import { type Body, type Field, noContext, type ResourceRecord } from '../../schema/field.js'

/** What the service has put into a record: `shown` stands in its answers, `hidden` (hashes of tokens) never does. */
export interface MadeValues {
  readonly shown: Readonly<Record<string, Json>>
  readonly hidden: Readonly<Record<string, Json>>
}

/** The fields that no client gives and the record holds. */
export function madeFields({ fields }: Resource): [string, Field][] {
  return Object.entries(fields).filter(([, { kept, settable }]) => kept && settable === 'never')
}

export function madeValues(resource: Resource, record: ResourceRecord): MadeValues {
  const shown: Record<string, Json> = {}
  const hidden: Record<string, Json> = {}
  for (const [name, field] of madeFields(resource)) {
    const stored = record.body[name] as Json
    if (stored === undefined || isDeepStrictEqual(stored, field.initial)) continue
    const isHidden = field.present(stored, name, record, noContext) === null
    if (isHidden) hidden[name] = stored
    else shown[name] = stored
  }
  return { shown, hidden }
}

/** Can this be what a made field holds? Answers with what is wrong. */
export function madeRefusal(resource: Resource, name: string, value: unknown): string | undefined {
  const field = new Map(madeFields(resource)).get(name)
  if (field === undefined) {
    const names = madeFields(resource).map(([known]) => known)
    return `is nothing that the service makes; made are ${names.length === 0 ? 'none' : names.join(', ')}`
  }
  const fits = typeof field.initial === 'string' ? typeof value === 'string' : matches(field.response ?? {}, value)
  return fits ? undefined : 'is not what the service makes here'
}

/** The body with made values. What reading has found out anew from the other fields stays: it cannot contradict them. */
export function withMade(resource: Resource, read: Readonly<Body>, made: Readonly<Record<string, unknown>>): Body {
  const body = { ...read }
  for (const [name, field] of madeFields(resource)) {
    if (Object.hasOwn(made, name) && isDeepStrictEqual(body[name], field.initial)) body[name] = made[name]
  }
  return body
}

interface AnswerSchema {
  readonly type?: string
  readonly anyOf?: readonly AnswerSchema[]
  readonly properties?: Readonly<Record<string, AnswerSchema>>
  readonly required?: readonly string[]
  readonly items?: AnswerSchema
}

function matches(schema: AnswerSchema, value: unknown): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some((one) => matches(one, value))
  switch (schema.type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value) && value.every((item) => matches(schema.items ?? {}, item))
    case 'object':
      return (
        isObject(value) &&
        (schema.required ?? []).every((name) => Object.hasOwn(value, name)) &&
        Object.entries(schema.properties ?? {}).every(
          ([name, inner]) => !Object.hasOwn(value, name) || matches(inner, value[name])
        )
      )
    case 'integer':
      return Number.isSafeInteger(value)
    case undefined:
      return true
    default:
      return typeof value === schema.type
  }
}
