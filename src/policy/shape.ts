import type { EditorRules } from './editor.js'
import type { FieldKind } from './fields.js'

/** What config schemas may say: this much of JSON Schema is read when a document is checked, and nothing else may be used. */
export interface Schema {
  readonly type?: 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'object' | 'null'
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly default?: unknown
  readonly description?: string
  readonly title?: string
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
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  readonly required?: readonly string[]
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly examples?: readonly unknown[]
  readonly deprecated?: boolean
  readonly 'x-sluice'?: FieldKind
  /** A number or truth value is no text here, although it has characters. */
  readonly 'x-exact'?: boolean
  /** Of the schema for editors alone. */
  readonly 'x-editor'?: EditorRules
  /** Milliseconds. */
  readonly 'x-min'?: number
  readonly 'x-max'?: number
  readonly 'x-multiple'?: number
}

/** The keywords of `Schema`, for the test that holds every action to them. */
export const KEYWORDS: ReadonlySet<string> = new Set([
  ...['type', 'enum', 'const', 'anyOf', 'oneOf', 'default', 'description', 'title', 'examples', 'deprecated'],
  ...['minLength', 'maxLength', 'pattern', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  ...['items', 'minItems', 'maxItems', 'uniqueItems', 'properties', 'patternProperties', 'additionalProperties'],
  ...['required', 'minProperties', 'maxProperties', 'x-sluice', 'x-exact', 'x-editor', 'x-min', 'x-max', 'x-multiple']
])

/** Must a text be written as one? An expression must: `5` would be taken for CEL that always gives the same. */
export function isExact(schema: Schema): boolean {
  return schema['x-exact'] === true || schema['x-sluice'] === 'expression'
}

/** Kind of a schema that lists its values. */
export function typeOfWords(schema: Schema): Schema['type'] {
  const words = schema.enum ?? (schema.const === undefined ? undefined : [schema.const])
  if (words === undefined) return undefined
  if (words.every((word) => typeof word === 'string')) return 'string'
  if (words.every((word) => typeof word === 'number')) return 'number'
  return words.every((word) => typeof word === 'boolean') ? 'boolean' : undefined
}
