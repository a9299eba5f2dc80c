import Type, { type TSchema } from 'typebox'
import { isObject } from '../lib/json.js'
import { type Body, type BodyOf, defineField, type Field, type Fields, type Reading } from './field.js'
import { boolean, type FieldOptions, nullable, optionsOf } from './fields.js'
import { linksOfMembers, presentMembers, type Rule, readMembers } from './members.js'
import { requestSchema, responseMembers } from './schemas.js'

interface ObjectOptions extends FieldOptions {
  readonly rules?: readonly Rule[]
}

/** The stored form of an object of fields, or null when unset. */
export type ObjectOf<F extends Fields> = Readonly<BodyOf<F>> | null

/** An object with fields of its own; null when unset. A given one replaces the whole. */
export function object<const F extends Fields>(fields: F, options: ObjectOptions): Field<ObjectOf<F>> {
  const { description, rules = [] } = options
  return defineField<ObjectOf<F>>({
    description,
    initial: null,
    onNull: 'clears',
    ...optionsOf<ObjectOf<F>>(options),
    request: requestSchema(fields, 'create', { description }),
    response: nullable(responseMembers(fields, { description })),
    read: (value, at, path, reading) => readObject(fields, rules, value, at, path, reading) as ObjectOf<F> | undefined,
    present: (stored, path, record, context) =>
      stored === null ? null : presentMembers(fields, stored as Body, path, record, context),
    links: (stored, path) => (stored === null ? [] : linksOfMembers(fields, stored as Body, path))
  })
}

function readObject(
  fields: Fields,
  rules: readonly Rule[],
  value: unknown,
  at: string,
  path: string,
  reading: Reading
): Body | undefined {
  const secrets = new Map<string, string>()
  const within: Reading = {
    ...reading,
    report: (problem) => reading.report(problem),
    secret(secretPath, text) {
      secrets.set(secretPath, text)
      reading.secret(secretPath, text)
    }
  }
  const source = { fields, rules, mode: 'create' as const, at, path, secrets: (name: string) => secrets.get(name) }
  return readMembers(source, value, within)?.body
}

/**
 * A module: an object with `enabled`, addressed by a sub-path. Null when not configured; `null` in an update leaves it
 * alone, because only its own DELETE removes it.
 */
export function module<const F extends Fields>(
  description: string,
  fields: F,
  rules: readonly Rule[] = []
): Field<ObjectOf<F & { enabled: Field<boolean> }>> {
  const enabled = boolean({ description: 'false switches the module off and keeps its configuration.', default: true })
  return { ...object({ enabled, ...fields }, { description, rules }), onNull: 'unchanged', module: true } as Field<
    ObjectOf<F & { enabled: Field<boolean> }>
  >
}

/** The one member that a `oneOf` object has, with its name. */
export interface Chosen {
  readonly name: string
  readonly value: Body
}

/** An object of which exactly one member is given. Answers have every member, null but for the one. */
export function oneOf(members: Fields, options: FieldOptions): Field<Chosen | null> {
  const { description } = options
  const names = Object.keys(members)
  return defineField<Chosen | null>({
    description,
    initial: null,
    onNull: 'clears',
    ...optionsOf<Chosen | null>(options),
    request: oneOfSchema(members, description),
    response: nullable(responseMembers(members, { description })),
    read(value, at, path, reading) {
      const given = isObject(value) ? names.filter((name) => value[name] !== undefined && value[name] !== null) : names
      const known = isObject(value) ? Object.keys(value).every((name) => names.includes(name)) : true
      if (isObject(value) && known && given.length !== 1) {
        const code = given.length === 0 ? 'FIELD_REQUIRED' : 'CONFLICTING_FIELDS'
        reading.report({ field: at, code, message: `must have exactly one of ${names.join(', ')}` })
        return undefined
      }
      const read = readObject(members, [], value, at, path, reading)
      const name = given[0]
      return read === undefined || name === undefined ? undefined : { name, value: read[name] as Body }
    },
    present(stored, path, record, context) {
      if (stored === null) return null
      return presentMembers(members, { [stored.name]: stored.value }, path, record, context)
    },
    links: (stored, path) => (stored === null ? [] : linksOfMembers(members, { [stored.name]: stored.value }, path))
  })
}

function oneOfSchema(members: Fields, description: string): TSchema {
  const schema = requestSchema(members, 'create', { description })
  return Type.Unsafe({ ...schema, minProperties: 1, maxProperties: 1 })
}
