import Type from 'typebox'
import type { Json } from '../lib/json.js'
import { checkValue, type Report } from './check.js'
import { countFindings, repeatFindings } from './constraints.js'
import type { FieldCode } from './errors.js'
import { defineField, type Field, type Link, type OnTargetDelete, type Reading, type ResourceRecord } from './field.js'
import { computed, type FieldOptions, nullable, optionsOf } from './fields.js'
import { integer } from './values.js'

/** Properties of a referenced resource. */
export interface Target {
  readonly name: string
  readonly path: string
  readonly idPrefix: string
}

/** IP policies as a target of references; features use it, too. */
export const IP_POLICY = { name: 'ip_policy', path: '/ip_policies', idPrefix: 'ipp' } as const satisfies Target

const DIGITS = /^[0-9A-Za-z]{1,64}$/

const anId = Type.String({ description: 'Id of a record.' })

const refSchema = Type.Object(
  { id: Type.String({ description: 'Its id.' }), uri: Type.String({ description: 'Its URL.' }) },
  { additionalProperties: false, description: 'A reference to another resource.' }
)

/** Returns `{id, uri}` of a record of `target`, whose path must have no parameters. */
function refTo(baseUrl: string, target: Target, id: string): { id: string; uri: string } {
  return { id, uri: `${baseUrl}${target.path}/${id}` }
}

/** Returns the target with the prefix of `id`. */
function targetOf(targets: readonly Target[], id: string): Target | undefined {
  return targets.find(({ idPrefix }) => id.startsWith(`${idPrefix}_`) && DIGITS.test(id.slice(idPrefix.length + 1)))
}

/** Reads the id of a record of one of `targets`; returns undefined after a report. */
function readId(targets: readonly Target[], value: unknown, at: string, reading: Reading): string | undefined {
  if (typeof value !== 'string') {
    reading.report({ field: at, code: 'FIELD_INVALID', message: 'must be an id' })
    return undefined
  }
  if (targetOf(targets, value) !== undefined) return value
  const kinds = targets.map(({ name, idPrefix }) => `${name} (${idPrefix}_…)`).join(', ')
  reading.report({ field: at, code: 'REF_INVALID', message: `must be the id of a ${kinds}` })
  return undefined
}

/** Returns the reference table row of one id. */
function link(
  targets: readonly Target[],
  id: string,
  field: string,
  position: number,
  onTargetDelete: OnTargetDelete = 'refuse'
): Link[] {
  const target = targetOf(targets, id)
  return target === undefined ? [] : [{ field, position, kind: target.name, id, onTargetDelete }]
}

/** Reads a list of distinct ids, bounds included; returns undefined after a report. */
function readIds(
  targets: readonly Target[],
  { min, max }: { min: number; max: number },
  value: unknown,
  at: string,
  reading: Reading
): string[] | undefined {
  const refuse = (code: FieldCode, message: string) => {
    reading.report({ field: at, code, message })
    return undefined
  }
  if (!Array.isArray(value)) return refuse('FIELD_INVALID', 'must be a list of ids')
  const [count] = countFindings({ minItems: min, maxItems: max }, value.length)
  if (count?.rule === 'fewest')
    return refuse('FIELD_INVALID', `must have at least ${min} ${min === 1 ? 'entry' : 'entries'}`)
  if (count !== undefined) return refuse('TOO_MANY', `must not have more than ${max} entries`)
  const ids = value.map((id, index) => readId(targets, id, `${at}[${index}]`, reading))
  if (ids.includes(undefined)) return undefined
  if (repeatFindings({ uniqueItems: true }, ids).length > 0) return refuse('FIELD_INVALID', 'must not hold an id twice')
  return ids as string[]
}

interface ReferenceOptions extends FieldOptions {
  readonly onTargetDelete?: OnTargetDelete
  readonly adminOnly?: boolean
}

const listOf = (target: Target | readonly Target[]): readonly Target[] =>
  Array.isArray(target) ? (target as readonly Target[]) : [target as Target]

/** A reference: `<name>_id` in requests, `{id, uri}` in responses; null when unset. */
export function ref(target: Target | readonly Target[], options: ReferenceOptions): Field<string | null> {
  const targets = listOf(target)
  return defineField<string | null>({
    description: options.description,
    initial: null,
    onNull: 'clears',
    ...optionsOf<string | null>(options),
    requestName: (name) => `${name}_id`,
    request: Type.String({ description: options.description }),
    ...(options.hidden === true ? {} : { response: nullable(refSchema) }),
    read(value, at, _path, reading) {
      if (value === '' && options.required !== true) return null
      return readId(targets, value, at, reading)
    },
    present: (stored, _path, _record, { baseUrl }) => {
      const at = stored === null ? undefined : targetOf(targets, stored)
      return stored === null || at === undefined ? null : refTo(baseUrl, at, stored)
    },
    links: (stored, path) => (stored === null ? [] : link(targets, stored, path, 0, options.onTargetDelete))
  })
}

/** A reference that responses show as its id. */
export function refId(target: Target, options: ReferenceOptions): Field<string | null> {
  return {
    ...ref(target, options),
    requestName: (name) => name,
    response: nullable(Type.String({ description: options.description })),
    present: (stored) => stored
  }
}

/** An ordered list of references, `<singular>_ids` in requests; `[]` when unset. `as` is the request name for an irregular singular. */
export function refs(
  target: Target | readonly Target[],
  options: ReferenceOptions & { min?: number; max?: number; as?: string }
): Field<readonly string[]> {
  const targets = listOf(target)
  const { min = 0, max = 100, description, as } = options
  return defineField<readonly string[]>({
    description,
    initial: [],
    onNull: 'clears',
    ...optionsOf<readonly string[]>(options),
    requestName: (name) => as ?? `${singular(name)}_ids`,
    request: Type.Array(anId, { description, maxItems: max, ...(min > 0 ? { minItems: min } : {}) }),
    response: Type.Array(refSchema, { description }),
    read: (value, at, _path, reading) => readIds(targets, { min, max }, value, at, reading),
    present: (stored, _path, _record, { baseUrl }) =>
      stored.flatMap((id): Json[] => {
        const at = targetOf(targets, id)
        return at === undefined ? [] : [refTo(baseUrl, at, id)]
      }),
    links: (stored, path) => stored.flatMap((id, position) => link(targets, id, path, position, options.onTargetDelete))
  })
}

/** An ordered list of ids that responses show unchanged. */
export function refIds(
  target: readonly Target[],
  options: ReferenceOptions & { min?: number; max?: number }
): Field<readonly string[]> {
  return {
    ...refs(target, options),
    requestName: (name) => name,
    response: Type.Array(anId, { description: options.description }),
    present: (stored) => stored
  }
}

/** Ids, each with a number. */
export function refNumbers(
  target: readonly Target[],
  options: FieldOptions & { min: number; max: number; most: number }
): Field<Readonly<Record<string, number>>> {
  const { description, min, max, most } = options
  const schema = Type.Unsafe<Readonly<Record<string, number>>>({
    type: 'object',
    description,
    minProperties: 1,
    maxProperties: most,
    additionalProperties: numberOfId(min, max)
  })
  return defineField<Readonly<Record<string, number>>>({
    description,
    initial: {},
    ...optionsOf<Readonly<Record<string, number>>>(options),
    request: schema,
    response: Type.Unsafe({
      type: 'object',
      description,
      additionalProperties: { type: 'integer', description: 'Number of the id.' }
    }),
    read: (value, at, _path, reading) => readNumbers(target, { min, max, most }, value, at, reading),
    present: (stored) => stored,
    links: (stored, path) => Object.keys(stored).flatMap((id, position) => link(target, id, path, position))
  })
}

function numberOfId(min: number, max: number) {
  return integer({ description: 'Number of the id.', min, max })
}

function readNumbers(
  targets: readonly Target[],
  { min, max, most }: { min: number; max: number; most: number },
  value: unknown,
  at: string,
  reading: Reading
): Readonly<Record<string, number>> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    reading.report({ field: at, code: 'FIELD_INVALID', message: 'must be an object of ids and numbers' })
    return undefined
  }
  const entries = Object.entries(value)
  const ids = readIds(
    targets,
    { min: 1, max: most },
    entries.map(([id]) => id),
    at,
    reading
  )
  let fits = ids !== undefined
  for (const [id, number] of entries) {
    const report: Report = (field, code, message) => reading.report({ field, code, message })
    if (checkValue(numberOfId(min, max), number, `${at}.${id.slice(0, 64)}`, report) === undefined) fits = false
  }
  return fits ? (Object.fromEntries(entries) as Record<string, number>) : undefined
}

/** Converts `ip_policies` to `ip_policy` and `destinations` to `destination`. */
function singular(name: string): string {
  return name.endsWith('ies') ? `${name.slice(0, -3)}y` : name.replace(/s$/, '')
}

/** Id of the parent record, taken from the path. Deleting the parent deletes this record. */
export function parent(target: Target, description: string): Field<string> {
  return defineField<string>({
    description,
    initial: '',
    required: true,
    settable: 'path',
    response: Type.String({ description }),
    read: (value, at, _path, reading) => readId([target], value, at, reading),
    present: (stored) => stored,
    links: (stored, path) => link([target], stored, path, 0, 'cascade')
  })
}

/** References to live objects, computed for each response. */
export function liveRefs(
  target: Target,
  description: string,
  ids: (record: ResourceRecord, context: Parameters<Field['present']>[3]) => readonly string[]
): Field<null> {
  return computed(Type.Array(refSchema), description, (_stored, _path, record, context) =>
    ids(record, context).map((id) => refTo(context.baseUrl, target, id))
  )
}

/** A reference to a withdrawn kind of object: always null; updates may set `''` or null. */
export function withdrawnRef(description: string): Field<null> {
  return defineField<null>({
    description,
    initial: null,
    settable: 'update',
    onNull: 'clears',
    requestName: (name) => `${name}_id`,
    request: Type.String({ description }),
    response: Type.Null({ description }),
    read(value, at, _path, reading) {
      if (value === '') return null
      const found = typeof value === 'string'
      const message = found ? 'there are no endpoint configurations' : 'must be an id'
      reading.report({ field: at, code: found ? 'REF_NOT_FOUND' : 'FIELD_INVALID', message })
      return undefined
    },
    present: () => null
  })
}

/**
 * The user or bot who wrote the record: a reference with an empty `uri`, since users have no URL. With `each`, every write sets it,
 * otherwise only the first.
 */
export function writtenBy(description: string, each: boolean): Field<string> {
  return defineField<string>({
    description,
    initial: '',
    settable: 'never',
    response: refSchema,
    read: () => undefined,
    present: (stored) => ({ id: stored, uri: '' }),
    onCreate: (_id, { principal }) => ({ stored: principal }),
    ...(each ? { onUpdate: ({ principal }) => ({ stored: principal }) } : {})
  })
}

/** The user or bot who wrote the record, shown as an id. */
export function writtenById(description: string, each: boolean): Field<string> {
  return { ...writtenBy(description, each), response: Type.String({ description }), present: (stored) => stored }
}

const user: Target = { name: 'user', path: '', idPrefix: 'usr' }

/** Ordered ids of users and bots, possibly with the word `all` for all members; `[]` when unset. Ids remain when a bot is deleted. */
export function users(bot: Target, all: string, options: FieldOptions & { max: number }): Field<readonly string[]> {
  const { description, max } = options
  const targets = [bot, user]
  const ids = Type.Array(anId, { description })
  return defineField<readonly string[]>({
    description,
    initial: [],
    onNull: 'clears',
    request: Type.Array(anId, { description, maxItems: max }),
    response: ids,
    read(value, at, _path, reading) {
      const place = Array.isArray(value) && value.length <= max ? value.indexOf(all) : -1
      if (place === -1) return readIds(targets, { min: 0, max }, value, at, reading)
      const read = readIds(targets, { min: 0, max }, (value as readonly unknown[]).toSpliced(place, 1), at, reading)
      return read === undefined ? undefined : read.toSpliced(place, 0, all)
    },
    present: (stored) => stored,
    links: (stored, path) => stored.flatMap((id, position) => link(targets, id, path, position, 'keep'))
  })
}

/** The user or bot who owns the record: the requester, unless an administrator sets another. Deleting the bot deletes the record. */
export function owner(bot: Target, description: string): Field<string> {
  const targets = [bot, user]
  return defineField<string>({
    description,
    initial: '',
    settable: 'create',
    adminOnly: true,
    request: Type.String({ description }),
    response: Type.String({ description }),
    read: (value, at, _path, reading) => readId(targets, value, at, reading),
    present: (stored) => stored,
    links: (stored, path) => link([bot], stored, path, 0, 'cascade'),
    onCreate: (_id, { principal }) => ({ stored: principal })
  })
}
