import Type, { type TSchema } from 'typebox'
import { type Json, timestampText } from '../lib/json.js'
import { checkValue, type ValueSchema } from './check.js'
import { defineField, type Field, type Reading } from './field.js'
import type { FormName } from './formats.js'

/** Largest value of an unsigned number of 32 bits. */
export const UINT32 = 4_294_967_295

/** What every field that a client gives may say of itself. */
export interface FieldOptions {
  readonly description: string
  readonly required?: boolean
  /** Given at creation and never changed. */
  readonly fixed?: boolean
  /** Taken and never shown. */
  readonly hidden?: boolean
  /** Unique among all records, in a space of this name, together with the values of the fields `within`. */
  readonly unique?: string
  readonly within?: readonly string[]
}

export function nullable(schema: TSchema): TSchema {
  return Type.Union([schema, Type.Null()])
}

/** The properties of `Field` that follow from the options alike for every kind. */
export function optionsOf<S>(options: FieldOptions): Partial<Field<S>> {
  return {
    required: options.required === true,
    settable: options.fixed === true ? 'create' : 'always',
    ...(options.unique === undefined ? {} : { unique: { space: options.unique, within: options.within ?? [] } })
  }
}

/** Reads by the schema alone. */
function reader<S>(schema: TSchema) {
  return (value: unknown, at: string, _path: string, reading: Reading): S | undefined =>
    checkValue(schema, value, at, (field, code, message) => reading.report({ field, code, message })) as S | undefined
}

/** A field whose stored form is its request form in normal form, and whose answer is its stored form. */
function plain<S extends Json>(
  schema: ValueSchema,
  initial: S,
  onNull: Field['onNull'],
  options: FieldOptions
): Field<S> {
  const described = Type.Unsafe<S>({ ...schema, description: options.description })
  const response = initial === null ? nullable(described) : described
  return defineField<S>({
    description: options.description,
    initial,
    onNull,
    ...optionsOf<S>(options),
    request: described,
    ...(options.hidden === true ? {} : { response: withoutBounds(response) }),
    read: reader<S>(described),
    present: (stored) => stored
  })
}

/** What may be written is bounded; what is read back need not be checked against bounds that may change. */
function withoutBounds(schema: TSchema): TSchema {
  const kept = Object.entries(schema).filter(([key]) => !/^(min|max|x-|unique)/.test(key))
  return Type.Unsafe(
    Object.fromEntries(
      kept.map(([key, value]) => {
        if (key === 'anyOf') return [key, (value as TSchema[]).map(withoutBounds)]
        return [key, key === 'items' || key === 'additionalProperties' ? withoutBounds(value as TSchema) : value]
      })
    )
  )
}

interface TextOptions extends FieldOptions {
  /** Longest UTF-8 form. */
  readonly bytes?: number
  /** Most Unicode characters. */
  readonly characters?: number
  readonly form?: FormName
  readonly examples?: readonly string[]
}

/** Text; `''` when unset. A required one must not be empty. */
export function text(options: TextOptions): Field<string> {
  const { bytes, characters = bytes, form, examples, required = false } = options
  const schema: ValueSchema & { readonly examples?: readonly string[] } = {
    type: 'string',
    ...(required ? { minLength: 1 } : {}),
    ...(characters === undefined ? {} : { maxLength: characters }),
    ...(bytes === undefined ? {} : { 'x-max-bytes': bytes }),
    ...(form === undefined ? {} : { 'x-form': form }),
    ...(examples === undefined ? {} : { examples })
  }
  return plain<string>(schema, '', 'clears', options)
}

/** `description` and `metadata` of most resources. */
export const described = {
  description: text({ description: 'For people: what it is for.', bytes: 255 }),
  metadata: text({ description: 'For programs: data of the user, kept as it is.', bytes: 4096 })
}

export function boolean(options: FieldOptions & { default: boolean }): Field<boolean> {
  return plain<boolean>(
    { type: 'boolean', default: options.default } as ValueSchema,
    options.default,
    'refused',
    options
  )
}

/** One of a few words. */
export function choice<const W extends string>(
  words: readonly W[],
  options: FieldOptions & { default?: W }
): Field<W | ''> {
  const initial = options.default ?? ''
  const schema = { type: 'string', enum: words, ...(initial === '' ? {} : { default: initial }) } as ValueSchema
  return plain<W | ''>(schema, initial, 'refused', options)
}

/** A whole number; both bounds belong to the range. */
export function whole(options: FieldOptions & { min: number; max: number; default: number }): Field<number> {
  const { min: minimum, max: maximum } = options
  return plain<number>(
    { type: 'integer', minimum, maximum, default: options.default } as ValueSchema,
    options.default,
    'refused',
    options
  )
}

export function fraction(options: FieldOptions & { min: number; max: number; default: number }): Field<number> {
  const { min: minimum, max: maximum } = options
  return plain<number>(
    { type: 'number', minimum, maximum, default: options.default } as ValueSchema,
    options.default,
    'refused',
    options
  )
}

interface ListOptions extends FieldOptions {
  readonly form?: FormName
  readonly min?: number
  readonly max: number
  /** Longest UTF-8 form of an entry. */
  readonly bytes?: number
  readonly distinct?: boolean
}

/** A list of texts, in the order given; `[]` when unset. */
export function texts(options: ListOptions): Field<readonly string[]> {
  const { form, min, max, bytes = 255, distinct = false } = options
  const items: ValueSchema = {
    type: 'string',
    minLength: 1,
    'x-max-bytes': bytes,
    ...(form === undefined ? {} : { 'x-form': form })
  }
  const schema: ValueSchema = {
    type: 'array',
    items,
    ...(min === undefined ? {} : { minItems: min }),
    maxItems: max,
    ...(distinct ? { uniqueItems: true } : {})
  }
  return plain<readonly string[]>(schema, [], 'clears', options)
}

interface MapOptions extends FieldOptions {
  readonly keys: FormName
  readonly values: ValueSchema
  readonly min?: number
  readonly max: number
}

/** Names to values; `{}` when unset. */
export function map<V extends string | number>(options: MapOptions): Field<Readonly<Record<string, V>>> {
  const { keys, values, min, max } = options
  const schema: ValueSchema = {
    type: 'object',
    additionalProperties: values,
    ...(min === undefined ? {} : { minProperties: min }),
    maxProperties: max,
    'x-key-form': keys
  }
  return plain<Readonly<Record<string, V>>>(schema, {}, 'clears', options)
}

/** A time in RFC 3339 format, kept in UTC; null when unset. */
export function time(options: FieldOptions): Field<string | null> {
  return { ...plain<string | null>({ type: 'string', 'x-form': 'timestamp' }, null, 'clears', options) }
}

/** Stored by the service, never by a client: rules, `made` values or the control plane write it. */
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

export const keptText = (description: string) => kept<string>(Type.String(), '', description)
export const keptTextOrNull = (description: string) => kept<string | null>(Type.String(), null, description)
export const keptTexts = (description: string) => kept<readonly string[]>(Type.Array(Type.String()), [], description)

/** When the record was last written. */
export function updatedAt(): Field<string> {
  const now: NonNullable<Field['onUpdate']> = ({ clock }) => ({ stored: timestampText(clock.wall()) })
  return {
    ...keptText('When it was last changed (RFC 3339).'),
    onCreate: (_id, makers) => now(makers),
    onUpdate: now
  }
}

/** Not stored: each answer works it out. */
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

/** A documented key whose value is always the same here. */
export function constant(value: null | boolean | string, description: string): Field<null> {
  const schema = value === null ? Type.Null() : typeof value === 'boolean' ? Type.Boolean() : Type.String()
  return computed(schema, description, () => value)
}
