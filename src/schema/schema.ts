import type { EditorRules } from './editor.js'
import type { FormName } from './formats.js'

/**
 * What a value may be: the declaration that policies, resources and options share. It is JSON Schema with annotations of our
 * own (`x-…`); this much is read when a value is checked, and nothing else may be used. `values.ts` makes such declarations,
 * `constraints.ts` holds values against them, `json-schema.ts` publishes them.
 */
export interface Schema {
  readonly type?: ValueType
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly default?: unknown
  readonly description?: string
  readonly title?: string
  readonly examples?: readonly unknown[]
  readonly deprecated?: boolean
  /** No answer shows it. */
  readonly writeOnly?: boolean
  /** Unicode characters. */
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly multipleOf?: number
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly properties?: Readonly<Record<string, Schema>>
  /** False: no other key; a schema: every other key has such a value. */
  readonly additionalProperties?: boolean | Schema
  readonly required?: readonly string[]
  readonly minProperties?: number
  readonly maxProperties?: number
  /**
   * How a written text is read: `duration`, `size`, and in policies `template` (`${…}` allowed), `expression` (CEL) and `regex`
   * (RE2, `${…}` allowed). Options add kinds of their own. It counts at any depth, also below lists and maps.
   */
  readonly 'x-kind'?: string
  /** What the text must be; its reader may put it into a normal form. */
  readonly 'x-form'?: FormName
  readonly 'x-key-form'?: FormName
  /** Most bytes of the UTF-8 form. */
  readonly 'x-max-bytes'?: number
  /** A number or truth value is no text here, although it has characters. */
  readonly 'x-exact'?: boolean
  /** Of the schema for editors alone. */
  readonly 'x-editor'?: EditorRules
  /** Bounds of a duration in milliseconds, of a size in bytes. */
  readonly 'x-min'?: number
  readonly 'x-max'?: number
  readonly 'x-multiple'?: number
  /** What a number counts; a number of seconds is taken as a duration such as `1m30s`, too. */
  readonly 'x-unit'?: 'seconds'
}

export type ValueType = 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'object' | 'null'

/** The keywords of `Schema`, for the test that holds every declaration to them. */
export const KEYWORDS: ReadonlySet<string> = new Set(
  (
    'type enum const anyOf oneOf default description title examples deprecated writeOnly minLength maxLength pattern minimum maximum ' +
    'exclusiveMinimum exclusiveMaximum multipleOf items minItems maxItems uniqueItems properties additionalProperties required minProperties ' +
    'maxProperties x-kind x-form x-key-form x-max-bytes x-exact x-editor x-min x-max x-multiple x-unit'
  ).split(' ')
)

/** Must a text be written as one? An expression must: `5` would be taken for CEL that always gives the same. */
export function isExact(schema: Schema): boolean {
  return schema['x-exact'] === true || schema['x-kind'] === 'expression'
}

/** The values that a schema lists. */
export function wordsOf(schema: Schema): readonly unknown[] | undefined {
  return schema.enum ?? (schema.const === undefined ? undefined : [schema.const])
}

/** Kind of a schema that lists its values. */
export function typeOfWords(schema: Schema): ValueType | undefined {
  const words = wordsOf(schema)
  if (words === undefined) return undefined
  if (words.every((word) => typeof word === 'string')) return 'string'
  if (words.every((word) => typeof word === 'number')) return 'number'
  return words.every((word) => typeof word === 'boolean') ? 'boolean' : undefined
}
