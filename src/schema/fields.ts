import Type, { type TSchema } from 'typebox'
import { type Json, timestampText } from '../lib/json.js'
import { checkValue } from './check.js'
import { defineField, type Field, type Reading } from './field.js'
import type { FormName } from './formats.js'
import { type Dialect, publish } from './publish.js'
import type { Schema } from './schema.js'
import * as values from './values.js'

/**
 * Fields of resources: a value of `values.ts` with its rules in a resource (who can set it, its default, the effect of `null`). A name has
 * the same meaning in both files.
 */

/** Maximum of an unsigned 32-bit integer. */
export const UINT32 = 4_294_967_295

/** Options of every field that a client can set. */
export interface FieldOptions {
  readonly description: string
  readonly required?: boolean
  /** Set at creation and never changed. */
  readonly fixed?: boolean
  /** Accepted in requests, never shown in responses. */
  readonly hidden?: boolean
  /** Unique among all records in the named space, together with the values of the fields `within`. */
  readonly unique?: string
  readonly within?: readonly string[]
}

/** Absolute path that the process must allow: `refusal` returns why it does not. */
export function allowedPath(
  description: string,
  refusal: (path: string, reading: Reading) => string | undefined
): Field<string> {
  const path = text({ description, bytes: 4096, form: 'absolute_path', required: true })
  return defineField<string>({
    ...path,
    read(value, at, way, reading) {
      const read = path.read(value, at, way, reading)
      const message = read === undefined ? undefined : refusal(read, reading)
      if (message === undefined) return read
      reading.report({ field: at, code: 'FIELD_INVALID', message })
      return undefined
    }
  })
}

/** The schema, or null. */
export function nullable(schema: TSchema): TSchema {
  return Type.Union([schema, Type.Null()])
}

/** Returns the properties of `Field` that every kind derives from the options. */
export function optionsOf<S>(options: FieldOptions): Partial<Field<S>> {
  return {
    required: options.required === true,
    settable: options.fixed === true ? 'create' : 'always',
    ...(options.unique === undefined ? {} : { unique: { space: options.unique, within: options.within ?? [] } })
  }
}

/** Returns a reader that checks by the schema alone. */
function reader<S>(schema: TSchema) {
  return (value: unknown, at: string, _path: string, reading: Reading): S | undefined =>
    checkValue(schema, value, at, (field, code, message) => reading.report({ field, code, message })) as S | undefined
}

/** A field stored as its normalized request form and shown as stored. */
function plain<S extends Json>(value: TSchema, initial: S, onNull: Field['onNull'], options: FieldOptions): Field<S> {
  const { description, default: preset, ...shape } = value as Schema
  const described = Type.Unsafe<S>({ ...shape, ...(preset === undefined ? {} : { default: preset }), description })
  const response = initial === null ? nullable(described) : described
  return defineField<S>({
    description: options.description,
    initial,
    onNull,
    ...optionsOf<S>(options),
    request: described,
    ...(options.hidden === true ? {} : { response: Type.Unsafe(publish(response as Schema, ANSWER)) }),
    read: reader<S>(described),
    present: (stored) => stored
  })
}

/** Requests are bounded; stored values are not checked against bounds that may have changed. */
const ANSWER: Dialect = { keeps: (keyword) => !/^(min|max|x-|unique)/.test(keyword) }

interface TextOptions extends FieldOptions {
  /** Maximum length in bytes of UTF-8. */
  readonly bytes?: number
  /** Maximum number of Unicode characters. */
  readonly max?: number
  readonly form?: FormName
  readonly examples?: readonly string[]
}

/** Text; `''` when unset. Required text must not be empty. */
export function text(options: TextOptions): Field<string> {
  const { description, bytes, max = bytes, form, examples, required = false } = options
  const value = values.text({
    description,
    ...(required ? { min: 1 } : {}),
    ...(max === undefined ? {} : { max }),
    ...(bytes === undefined ? {} : { bytes }),
    ...(form === undefined ? {} : { form }),
    ...(examples === undefined ? {} : { examples })
  })
  return plain<string>(value, '', 'clears', options)
}

/** `description` and `metadata`, as in most resources. */
export const described = {
  description: text({ description: 'For people: what it is for.', bytes: 255 }),
  metadata: text({ description: 'For programs: data of the user, kept as it is.', bytes: 4096 })
}

/** A boolean. A string such as `"true"` is rejected. */
export function flag(options: FieldOptions & { default: boolean }): Field<boolean> {
  return plain<boolean>(values.flag(options), options.default, 'refused', options)
}

/** One of a fixed set of strings. */
export function choice<const W extends string>(
  words: readonly W[],
  options: FieldOptions & { default?: W }
): Field<W | ''> {
  const initial = options.default ?? ''
  const value = { type: 'string', ...values.choice(words, options) }
  return plain<W | ''>(value, initial, 'refused', options)
}

interface NumberOptions extends FieldOptions {
  readonly min: number
  readonly max: number
  readonly default: number
  /** Unit of the number. */
  readonly unit?: 'seconds'
}

/** An integer, bounds included. */
export function integer(options: NumberOptions): Field<number> {
  return plain<number>(values.integer(options), options.default, 'refused', options)
}

/** A number, possibly fractional, bounds included. */
export function number(options: NumberOptions): Field<number> {
  return plain<number>(values.number(options), options.default, 'refused', options)
}

/** A number from 0 to 1. */
export function fraction(options: FieldOptions & { default: number }): Field<number> {
  return plain<number>(values.fraction(options), options.default, 'refused', options)
}

interface ListOptions extends FieldOptions {
  /** Description of an entry, for people. */
  readonly item: string
  readonly form?: FormName
  readonly min?: number
  readonly max: number
  /** Maximum length of an entry in bytes of UTF-8. */
  readonly bytes?: number
  readonly distinct?: boolean
}

/** A list of texts, in the order given; `[]` when unset. */
export function texts(options: ListOptions): Field<readonly string[]> {
  const { form, item, bytes = 255 } = options
  const entry = values.text({ description: item, min: 1, bytes, ...(form === undefined ? {} : { form }) })
  return plain<readonly string[]>(values.list(entry, options), [], 'clears', options)
}

interface MapOptions extends FieldOptions {
  readonly keys: FormName
  readonly values: TSchema
  readonly min?: number
  readonly max: number
}

/** Names to values; `{}` when unset. */
export function map<V extends string | number>(options: MapOptions): Field<Readonly<Record<string, V>>> {
  return plain<Readonly<Record<string, V>>>(values.map(options.values, options), {}, 'clears', options)
}

/** A time in RFC 3339 format, kept in UTC; null when unset. */
export function time(options: FieldOptions): Field<string | null> {
  return plain<string | null>(values.text({ ...options, form: 'timestamp' }), null, 'clears', options)
}

/** A field that only the service writes: by rules, `made` values or the control plane. */
export function kept<S extends Json>(schema: TSchema, initial: S, description: string): Field<S> {
  return defineField<S>({
    description,
    initial,
    settable: 'never',
    response: Type.Unsafe({ ...(initial === null ? nullable(schema) : schema), description }),
    read: () => undefined,
    present: (stored) => stored
  })
}

/** A text written by the service; initially ''. */
export const keptText = (description: string) => kept<string>(Type.String(), '', description)
/** A time written by the service, in RFC 3339 format; initially ''. Without one, responses show that of the creation. */
export const keptTime = (description: string): Field<string> => ({
  ...kept<string>(Type.String({ format: 'date-time' }), '', description),
  present: (stored, _path, { createdAt }) => stored || createdAt
})
/** A text written by the service; initially null. */
export const keptTextOrNull = (description: string) => kept<string | null>(Type.String(), null, description)
/** Texts written by the service; initially empty. */
export const keptTexts = (description: string, item: string) =>
  kept<readonly string[]>(Type.Array(Type.String({ description: item })), [], description)

/** Time of the last write of the record. */
export function updatedAt(): Field<string> {
  const now: NonNullable<Field['onUpdate']> = ({ clock }) => ({ stored: timestampText(clock.wall()) })
  return {
    ...keptTime('When it was last changed (RFC 3339).'),
    onCreate: (_id, makers) => now(makers),
    onUpdate: now
  }
}

/** A field that each response computes; not stored. */
export function computed(schema: TSchema, description: string, present: Field['present']): Field<null> {
  return defineField<null>({
    description,
    initial: null,
    kept: false,
    settable: 'never',
    response: Type.Unsafe({ ...schema, description }),
    read: () => undefined,
    present
  })
}

/** A documented key with a constant value. */
export function constant(value: null | boolean | string, description: string): Field<null> {
  const schema = value === null ? Type.Null() : typeof value === 'boolean' ? Type.Boolean() : Type.String()
  return computed(schema, description, () => value)
}
