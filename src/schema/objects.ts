import Type, { type TSchema } from 'typebox'
import { refusalToWrite } from '../flow/headers.js'
import { isObject, type Json } from '../lib/json.js'
import { didYouMean } from '../lib/suggest.js'
import type { FieldCode } from './errors.js'
import {
  type Body,
  type BodyOf,
  defineField,
  type Field,
  type Fields,
  type Link,
  type PolicyLayer,
  type PresentContext,
  type Problem,
  type Reading,
  type ResourceRecord
} from './field.js'
import { type FieldOptions, flag, nullable, optionsOf } from './fields.js'
import { requestSchema, responseMembers } from './json-schema.js'
import type { Schema } from './schema.js'

/** Rule between fields. Runs only if none of the fields `on` had a problem of its own. */
export interface Rule {
  /** Field names as in responses. */
  readonly on: readonly string[]
  check(view: RuleView): void
}

/** View of an object for a rule. Rules may set values of `body`: to derive them (certificate data) or to let one field clear another. */
export interface RuleView {
  /** Stored form, with defaults filled in. */
  readonly body: Body
  /** Names of the fields in the request. */
  readonly given: ReadonlySet<string>
  /** Stored form before an update. */
  readonly before: Readonly<Body> | undefined
  /** Decrypted value of a sealed field, from the request or the record. */
  secret(name: string): string | undefined
  report(name: string, code: FieldCode, message: string, details?: Problem['details']): void
  /** Reports the problems of a policy document as those of the field `name`. `layer`: the traffic that it is for. */
  checkPolicy(name: string, document: string, layer: PolicyLayer): void
}

/** Reports names of header fields in `field` that configurations must not write. */
export function refuseUnwritable(
  headers: Readonly<Record<string, string>>,
  field: string,
  report: RuleView['report']
): void {
  for (const name of Object.keys(headers)) {
    const refusal = refusalToWrite(name)
    if (refusal !== undefined) report(field, 'FIELD_INVALID', refusal)
  }
}

interface MemberRead {
  readonly body: Body
  readonly given: ReadonlySet<string>
}

interface MemberSource {
  readonly fields: Fields
  readonly rules: readonly Rule[]
  /** `create` fills in defaults, `update` keeps current values. */
  readonly mode: 'create' | 'update'
  /** Path of the object in the request and in the record; '' for the record itself. */
  readonly at: string
  readonly path: string
  /** Request keys that are accepted without being fields. */
  readonly tolerated?: ReadonlySet<string>
  readonly before?: Readonly<Body> | undefined
  /** Sealed values: stored ones and those read so far. */
  readonly secrets: (path: string) => string | undefined
}

const join = (at: string, name: string) => (at === '' ? name : `${at}.${name}`)

/** Reads an object by its fields and rules; returns undefined after a report. */
export function readMembers(source: MemberSource, value: unknown, reading: Reading): MemberRead | undefined {
  if (!isObject(value)) {
    const where = source.at === '' ? 'the body must be a JSON object' : 'must be an object'
    reading.report({ field: source.at, code: 'FIELD_INVALID', message: where })
    return undefined
  }
  const faults = new Set<string>()
  const body: Body = {}
  const given = new Set<string>()
  refuseUnknown(source, value, reading, faults)
  for (const [name, field] of Object.entries(source.fields)) {
    const key = field.requestName(name)
    if (!settableNow(field, source.mode)) {
      if (Object.hasOwn(value, key)) refuseFixed(source, name, { value, body, given, faults }, reading)
      if (source.mode === 'create' && field.kept && field.settable !== 'path') body[name] = field.initial
      continue
    }
    readMember(source, name, { value, body, given, faults }, reading)
  }
  const whole = source.mode === 'update' ? { ...source.before, ...body } : body
  runRules(source, whole, given, faults, reading)
  return faults.size > 0 ? undefined : { body: whole, given }
}

interface Progress {
  readonly value: Record<string, unknown>
  readonly body: Body
  readonly given: Set<string>
  readonly faults: Set<string>
}

function readMember(
  source: MemberSource,
  name: string,
  { value, body, given, faults }: Progress,
  reading: Reading
): void {
  const field = source.fields[name] as Field
  const key = field.requestName(name)
  const at = join(source.at, key)
  const fault = (code: FieldCode, message: string) => {
    faults.add(name)
    reading.report({ field: at, code, message })
  }
  const written = Object.hasOwn(value, key) ? value[key] : undefined
  const optional = source.mode === 'update' || !field.required
  const unset = reading.zeroIsAbsent === true && optional && isZero(written, field.request)
  const creates = source.mode === 'create'
  const emptyMap = reading.nullIsUnset === true && isMap(field.request) && isZero(written)
  const absent = written === undefined || (creates && (written === null || emptyMap))
  if (absent) {
    if (!creates) return
    if (field.required) fault('FIELD_REQUIRED', 'is required')
    else body[name] = field.initial
    return
  }
  if (written === null) {
    if (reading.nullIsUnset === true || field.onNull === 'unchanged') return
    if (unset && (field.onNull === 'refused' || field.required)) return
    if (field.onNull === 'refused') {
      fault('FIELD_INVALID', 'must not be null')
      return
    }
    if (field.required) {
      fault('FIELD_REQUIRED', 'must not be cleared')
      return
    }
    body[name] = field.initial
    given.add(name)
    return
  }
  const read = field.read(written, at, join(source.path, name), unset ? { ...reading, report: () => {} } : reading)
  if (read !== undefined) {
    body[name] = read
    given.add(name)
  } else if (!unset) faults.add(name)
  else if (source.mode === 'create') body[name] = field.initial
}

/** Returns whether `value` is null or the zero value of the schema's type in a typed language; without a schema, of any type. */
export function isZero(value: unknown, schema?: TSchema): boolean {
  const { type } = (schema ?? {}) as Schema
  const is = (...types: readonly (typeof type)[]) => type === undefined || types.includes(type)
  if (value === null) return true
  if (Array.isArray(value)) return value.length === 0 && is('array')
  if (isObject(value)) return Object.keys(value).length === 0 && is('object')
  return (
    (value === '' && is('string')) || (value === 0 && is('integer', 'number')) || (value === false && is('boolean'))
  )
}

/** Returns whether a field is a map: an object whose members clients name. */
function isMap(schema?: TSchema): boolean {
  const { type, additionalProperties } = (schema ?? {}) as Schema
  return type === 'object' && typeof additionalProperties === 'object'
}

function settableNow({ settable, request }: Field, mode: MemberSource['mode']): boolean {
  return request !== undefined && (settable === 'always' || settable === mode)
}

/** Names of fields that a request of this mode may contain. */
function requestNames(fields: Fields, mode: MemberSource['mode']): string[] {
  return Object.entries(fields)
    .filter(([, field]) => settableNow(field, mode))
    .map(([name, field]) => field.requestName(name))
}

function refuseFixed(
  { mode, at, fields, tolerated }: MemberSource,
  name: string,
  { value: whole, faults }: Progress,
  reading: Reading
): void {
  const field = fields[name] as Field
  const key = field.requestName(name)
  const value = whole[key]
  if (tolerated?.has(key) === true || value === undefined) return
  // Clients that send all known keys send null where every response has null.
  if (value === null && (mode === 'create' || field.settable === 'never')) return
  if (reading.zeroIsAbsent === true && isZero(value, field.request)) return
  faults.add(key)
  if (field.settable === 'create') {
    reading.report({ field: join(at, key), code: 'IMMUTABLE', message: 'is given at creation and cannot be changed' })
    return
  }
  reading.report(unknown(join(at, key), key, requestNames(fields, mode)))
}

function refuseUnknown(source: MemberSource, value: object, reading: Reading, faults: Set<string>): void {
  const { fields, at, mode, tolerated } = source
  const known = new Set(Object.entries(fields).map(([name, field]) => field.requestName(name)))
  for (const key of Object.keys(value)) {
    if (known.has(key) || tolerated?.has(key) === true) continue
    faults.add(key)
    reading.report(unknown(join(at, key.slice(0, 64)), key, requestNames(fields, mode)))
  }
}

function unknown(field: string, key: string, names: readonly string[]): Problem {
  const near = key.length > 64 ? '' : didYouMean(key, names)
  return { field, code: 'FIELD_UNKNOWN', message: `is not a field here; the fields are ${names.join(', ')}${near}` }
}

function runRules(
  { rules, at, path, fields, before, secrets }: MemberSource,
  body: Body,
  given: ReadonlySet<string>,
  faults: Set<string>,
  reading: Reading
): void {
  const fieldOf = (name: string) => join(at, fields[name]?.requestName(name) ?? name)
  for (const { on, check } of rules) {
    if (on.some((name) => faults.has(name))) continue
    check({
      body,
      given,
      before,
      secret: (name) => secrets(join(path, name)),
      report(name, code, message, details) {
        faults.add(name)
        reading.report({ field: fieldOf(name), code, message, ...(details === undefined ? {} : { details }) })
      },
      checkPolicy(name, document, layer) {
        for (const problem of reading.checkPolicy(document, layer) ?? []) {
          faults.add(name)
          reading.report({ ...problem, field: fieldOf(name) })
        }
      }
    })
  }
}

/** Returns the members of a response, in field order. */
export function presentMembers(
  fields: Fields,
  body: Readonly<Body>,
  path: string,
  record: ResourceRecord,
  context: PresentContext
): { [key: string]: Json } {
  const answer: { [key: string]: Json } = {}
  for (const [name, field] of Object.entries(fields)) {
    if (field.response === undefined) continue
    // A record of an older version lacks newer fields.
    const stored = Object.hasOwn(body, name) ? body[name] : field.initial
    answer[name] = field.present(stored, join(path, name), record, context)
  }
  return answer
}

/** Returns the references in an object's stored form; `path` is the object's path in the record. */
export function linksOfMembers(fields: Fields, body: Readonly<Body>, path: string): Link[] {
  return Object.entries(fields).flatMap(([name, field]) =>
    Object.hasOwn(body, name) ? field.links(body[name], join(path, name)) : []
  )
}

interface ObjectOptions extends FieldOptions {
  readonly rules?: readonly Rule[]
}

/** Stored form of an object field; null when unset. */
export type ObjectOf<F extends Fields> = Readonly<BodyOf<F>> | null

/** An object with fields of its own; null when unset. A new value replaces all of it. */
export function object<const F extends Fields>(fields: F, options: ObjectOptions): Field<ObjectOf<F>> {
  const { description, rules = [] } = options
  return defineField<ObjectOf<F>>({
    description,
    initial: null,
    onNull: 'clears',
    ...optionsOf<ObjectOf<F>>(options),
    request: requestSchema(fields, 'create', { description }),
    response: nullable(responseMembers(fields, { description })),
    read: (value, at, path, reading) =>
      readObject({ fields, rules, at, path }, value, reading) as ObjectOf<F> | undefined,
    present: (stored, path, record, context) =>
      stored === null ? null : presentMembers(fields, stored as Body, path, record, context),
    links: (stored, path) => (stored === null ? [] : linksOfMembers(fields, stored as Body, path))
  })
}

function readObject(
  about: Pick<MemberSource, 'fields' | 'rules' | 'at' | 'path'>,
  value: unknown,
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
  const source: MemberSource = { ...about, mode: 'create', secrets: (name) => secrets.get(name) }
  return readMembers(source, value, within)?.body
}

/**
 * A module: an object with `enabled` and its own sub-path. Null when not configured; `null` in an update leaves it unchanged, because only
 * its own DELETE removes it.
 */
export function module<const F extends Fields>(
  description: string,
  fields: F,
  rules: readonly Rule[] = []
): Field<ObjectOf<F & { enabled: Field<boolean> }>> {
  const enabled = flag({ description: 'false switches the module off and keeps its configuration.', default: true })
  return { ...object({ enabled, ...fields }, { description, rules }), onNull: 'unchanged', module: true } as Field<
    ObjectOf<F & { enabled: Field<boolean> }>
  >
}

/** The selected member of a `oneOf` object, with its name. */
export interface Chosen {
  readonly name: string
  readonly value: Body
}

/** An object with exactly one member in requests. Responses contain every member; the others are null. */
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
      if (!isObject(value) || !Object.keys(value).every((name) => names.includes(name))) {
        readObject({ fields: members, rules: [], at, path }, value, reading)
        return undefined
      }
      const set = names.filter((name) => value[name] !== undefined && value[name] !== null)
      const filled = reading.zeroIsAbsent === true && set.length > 1 ? set.filter((name) => !isZero(value[name])) : set
      const [name] = filled
      if (name === undefined || filled.length > 1) {
        const code = set.length === 0 ? 'FIELD_REQUIRED' : 'CONFLICTING_FIELDS'
        reading.report({ field: at, code, message: `must have exactly one of ${names.join(', ')}` })
        return undefined
      }
      const read = members[name]?.read(value[name], join(at, name), join(path, name), reading)
      return read === undefined ? undefined : { name, value: read as Body }
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
