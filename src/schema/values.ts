import Type, { type Static, type TProperties, type TSchema } from 'typebox'
import type { EditorRules } from './editor.js'
import type { FormName } from './formats.js'

/**
 * Builders of values, shared by policies, resources and options; each has the same meaning everywhere. A declaration is JSON Schema with
 * annotations (`Schema`); its static type is the written form. Readers add their own kinds: `fields.ts` for resources, `options/values.ts`
 * for options, `policy/fields.ts` for the config of actions.
 */
interface Documented {
  readonly description: string
}

/** A value that its reader converts to `P`: a duration is written as text and read as milliseconds. */
export interface Parses<P> {
  readonly '~parsed': P
}

/** Type that the program uses; `Static` is the written type. */
export type Parsed<S extends TSchema> =
  S extends Parses<infer P>
    ? P
    : S extends { readonly type: 'object'; readonly properties: infer F extends TProperties }
      ? { [K in keyof Static<S>]: K extends keyof F ? Parsed<F[K]> : never }
      : Static<S>

interface Length {
  /** In Unicode characters. */
  readonly min?: number
  readonly max?: number
}

interface TextOptions extends Documented, Length {
  /** Maximum length in bytes of UTF-8. */
  readonly bytes?: number
  readonly form?: FormName
  readonly pattern?: string
  readonly examples?: readonly string[]
  readonly default?: string
  /** Rejects numbers and booleans instead of reading them as text. */
  readonly exact?: boolean
  readonly editor?: EditorRules
}

/** A literal text without templates. */
export function text(options: TextOptions) {
  const { description, min, max, bytes, form, pattern, examples, default: preset, exact, editor } = options
  return Type.String({
    description,
    ...given({ minLength: min, maxLength: max, 'x-max-bytes': bytes, 'x-form': form, pattern, examples }),
    ...given({ default: preset, 'x-exact': exact, 'x-editor': editor })
  })
}

/** Text that may contain `${…}`. */
export function template({ description, min, max, editor }: Documented & Length & { readonly editor?: EditorRules }) {
  const length = given({ minLength: min, maxLength: max })
  return Type.String({ description, ...length, 'x-kind': 'template', ...given({ 'x-editor': editor }) })
}

/** A CEL expression. */
export function expression({ description }: Documented) {
  return Type.String({ description, minLength: 1, 'x-kind': 'expression' })
}

/** An RE2 pattern that may contain `${…}`. */
export function regex({ description }: Documented) {
  return Type.String({ description, 'x-kind': 'regex' })
}

interface Bounds {
  /** Bounds, both included. */
  readonly min: number
  readonly max: number
}

/** Text such as `1h30m`; bounds in milliseconds. If 0 stands for "no limit", the description says so. */
export function duration(options: Documented & Bounds & { readonly multiple?: number; readonly default?: string }) {
  const { description, min, max, multiple, default: preset } = options
  const bounds = { 'x-min': min, 'x-max': max, ...given({ 'x-multiple': multiple }) }
  return parses<number>()(Type.String({ description, ...given({ default: preset }), 'x-kind': 'duration', ...bounds }))
}

/** Text such as `64KiB`, or a number of bytes; bounds in bytes. */
export function size(options: Documented & Bounds & { readonly default?: string }) {
  const { description, min, max, default: preset } = options
  const schema = { type: ['string', 'integer'], description, ...given({ default: preset }) }
  return parses<number>()(Type.Unsafe<string | number>({ ...schema, 'x-kind': 'size', 'x-min': min, 'x-max': max }))
}

interface NumberOptions extends Documented, Bounds {
  readonly default?: number
  /** Unit of the number. */
  readonly unit?: 'seconds'
}

/** An integer. */
export function integer({ description, min, max, default: preset, unit }: NumberOptions) {
  return Type.Integer({
    description,
    ...given({ default: preset }),
    minimum: min,
    maximum: max,
    ...given({ 'x-unit': unit })
  })
}

/** A number, possibly fractional. */
export function number({ description, min, max, default: preset, unit }: NumberOptions) {
  return Type.Number({
    description,
    ...given({ default: preset }),
    minimum: min,
    maximum: max,
    ...given({ 'x-unit': unit })
  })
}

/** A number from 0 to 1. */
export function fraction({ description, default: preset }: Documented & { readonly default?: number }) {
  return Type.Number({ description, minimum: 0, maximum: 1, ...given({ default: preset }) })
}

/** A boolean. */
export function flag({ description, default: preset }: Documented & { readonly default?: boolean }) {
  return Type.Boolean({ description, ...given({ default: preset }) })
}

/** One of a fixed set of strings or numbers; a single `enum` gives one error instead of one per word. */
export function choice<const W extends readonly (string | number)[]>(
  words: W,
  options: Documented & { readonly default?: W[number] }
) {
  const { description, default: preset } = options
  return Type.Enum<W[number][]>([...words], { description, ...given({ default: preset }) })
}

interface Count {
  /** Number of entries. */
  readonly min?: number
  readonly max?: number
}

/** An ordered list of values of one kind. `distinct` rejects duplicates. */
export function list<V extends TSchema>(items: V, options: Documented & Count & { readonly distinct?: boolean }) {
  const { description, min, max, distinct } = options
  const count = given({ minItems: min, maxItems: max, uniqueItems: distinct })
  return Type.Array(items, { description, ...count })
}

/**
 * A map of names to values of one kind. `keys`: the form of the names. `editor`: editor rules for the names. `deprecated`: accepted only
 * for a better error message.
 */
export function map<V extends TSchema>(
  values: V,
  options: Documented &
    Count & { readonly keys?: FormName; readonly editor?: EditorRules; readonly deprecated?: boolean }
) {
  const { description, min, max, keys, editor, deprecated } = options
  return Type.Unsafe<Record<string, Static<V>>>({
    type: 'object',
    additionalProperties: values,
    description,
    ...given({ deprecated, 'x-editor': editor, minProperties: min, maxProperties: max, 'x-key-form': keys })
  })
}

interface ObjectOptions extends Documented {
  /** Minimum number of members. */
  readonly min?: number
  /** Rules between members, for the editor schema. */
  readonly editor?: EditorRules
}

/** An object with named members; other keys are rejected. `optional` marks members that may be omitted. */
export function object<P extends Record<string, TSchema>>(properties: P, { description, min, editor }: ObjectOptions) {
  const more = given({ minProperties: min, 'x-editor': editor })
  return Type.Object(properties, { additionalProperties: false, description, ...more })
}

/** Marks a member that may be omitted. */
export function optional<V extends TSchema>(value: V) {
  return Type.Optional(value)
}

/** A value of the first matching kind. */
export function either<V extends TSchema[]>(values: readonly [...V], { description }: Documented) {
  return Type.Union<V>([...values] as unknown as V, { description })
}

/** Any value. With `templates`, every string in it, at any depth, may contain `${…}`. */
export function any({ description, templates }: Documented & { readonly templates?: boolean }) {
  return Type.Unknown({ description, ...given({ 'x-kind': templates === true ? 'template' : undefined }) })
}

/** Marks a schema with the type that its reader returns. */
export function parses<P>() {
  return <S extends TSchema>(schema: S): S & Parses<P> => schema as S & Parses<P>
}

/** Removes undefined keywords. */
function given<T extends object>(keywords: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(keywords).filter(([, value]) => value !== undefined)) as never
}
