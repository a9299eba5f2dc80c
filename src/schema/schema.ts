import type { EditorRules } from './editor.js'
import type { FormName } from './formats.js'

/**
 * Declaration of a value, shared by policies, resources and options: JSON Schema with our annotations (`x-…`). Checks read these keywords,
 * and no others may be used. `values.ts` builds declarations, `constraints.ts` checks values, `json-schema.ts` publishes the declarations.
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
  /** Never shown in responses. */
  readonly writeOnly?: boolean
  /** In Unicode characters. */
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
  /** False: no other keys; a schema: the schema of other keys' values. */
  readonly additionalProperties?: boolean | Schema
  readonly required?: readonly string[]
  readonly minProperties?: number
  readonly maxProperties?: number
  /**
   * Kind of text: `duration`, `size`, and in policies `template` (`${…}` allowed), `expression` (CEL) and `regex` (RE2, `${…}` allowed).
   * Options add kinds of their own. Applies at any depth, also in lists and maps.
   */
  readonly 'x-kind'?: string
  /** Form of the text; its reader may normalize it. */
  readonly 'x-form'?: FormName
  readonly 'x-key-form'?: FormName
  /** Maximum length in bytes of UTF-8. */
  readonly 'x-max-bytes'?: number
  /** Numbers and booleans are not accepted as text. */
  readonly 'x-exact'?: boolean
  /** Rules for the editor schema only. */
  readonly 'x-editor'?: EditorRules
  /** Bounds of a duration in milliseconds, of a size in bytes. */
  readonly 'x-min'?: number
  readonly 'x-max'?: number
  readonly 'x-multiple'?: number
  /** Unit of a number; with seconds, a duration such as `1m30s` is accepted, too. */
  readonly 'x-unit'?: 'seconds'
}

export type ValueType = 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'object' | 'null'

/** Keywords of `Schema`; a test checks that declarations use no others. */
export const KEYWORDS: ReadonlySet<string> = new Set(
  (
    'type enum const anyOf oneOf default description title examples deprecated writeOnly minLength maxLength pattern minimum maximum ' +
    'exclusiveMinimum exclusiveMaximum multipleOf items minItems maxItems uniqueItems properties additionalProperties required minProperties ' +
    'maxProperties x-kind x-form x-key-form x-max-bytes x-exact x-editor x-min x-max x-multiple x-unit'
  ).split(' ')
)

/** Returns whether text must be written as a string. Expressions must: the number `5` would be a constant CEL expression. */
export function isExact(schema: Schema): boolean {
  return schema['x-exact'] === true || schema['x-kind'] === 'expression'
}

/** Values listed by a schema. */
export function wordsOf(schema: Schema): readonly unknown[] | undefined {
  return schema.enum ?? (schema.const === undefined ? undefined : [schema.const])
}

/** Type of the values listed by a schema. */
export function typeOfWords(schema: Schema): ValueType | undefined {
  const words = wordsOf(schema)
  if (words === undefined) return undefined
  if (words.every((word) => typeof word === 'string')) return 'string'
  if (words.every((word) => typeof word === 'number')) return 'number'
  return words.every((word) => typeof word === 'boolean') ? 'boolean' : undefined
}
