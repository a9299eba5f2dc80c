import Type, { type Static, type TProperties, type TSchema } from 'typebox'
import type { EditorRules } from './editor.js'
import type { FormName } from './formats.js'

/**
 * The builders of values: what a policy, a resource and an option can hold is declared with these words, each of which means
 * the same everywhere. A declaration is plain JSON Schema with annotations (`Schema`); its static type is what people write.
 *
 * Who reads a value adds what is its own: `fields.ts` where a value stands in a resource, `options/values.ts` what only
 * options are, `policy/fields.ts` what only the config of an action is.
 */
interface Documented {
  readonly description: string
}

/** A value that its reader turns into `P`: a duration is text for people and milliseconds for the program. */
export interface Parses<P> {
  readonly '~parsed': P
}

/** What the program works with, where `Static` is what people write. */
export type Parsed<S extends TSchema> =
  S extends Parses<infer P>
    ? P
    : S extends { readonly type: 'object'; readonly properties: infer F extends TProperties }
      ? { [K in keyof Static<S>]: K extends keyof F ? Parsed<F[K]> : never }
      : Static<S>

interface Length {
  /** Unicode characters. */
  readonly min?: number
  readonly max?: number
}

interface TextOptions extends Documented, Length {
  /** Most bytes of the UTF-8 form. */
  readonly bytes?: number
  readonly form?: FormName
  readonly pattern?: string
  readonly examples?: readonly string[]
  readonly default?: string
  /** A number or truth value is refused instead of taken as written. */
  readonly exact?: boolean
  readonly editor?: EditorRules
}

/** A literal text: no `${…}` in it is read. */
export function text(options: TextOptions) {
  const { description, min, max, bytes, form, pattern, examples, default: preset, exact, editor } = options
  return Type.String({
    description,
    ...given({ minLength: min, maxLength: max, 'x-max-bytes': bytes, 'x-form': form, pattern, examples }),
    ...given({ default: preset, 'x-exact': exact, 'x-editor': editor })
  })
}

/** Text with `${…}` in it. */
export function template({ description, min, max, editor }: Documented & Length & { readonly editor?: EditorRules }) {
  const length = given({ minLength: min, maxLength: max })
  return Type.String({ description, ...length, 'x-kind': 'template', ...given({ 'x-editor': editor }) })
}

/** CEL. */
export function expression({ description }: Documented) {
  return Type.String({ description, minLength: 1, 'x-kind': 'expression' })
}

/** RE2, with `${…}` in it. */
export function regex({ description }: Documented) {
  return Type.String({ description, 'x-kind': 'regex' })
}

interface Bounds {
  /** Both belong to the range. */
  readonly min: number
  readonly max: number
}

/** Text such as `1h30m`; bounds in milliseconds. 0 may mean "no limit"; then its description says so. */
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
  /** What it counts. */
  readonly unit?: 'seconds'
}

/** A whole number. */
export function integer({ description, min, max, default: preset, unit }: NumberOptions) {
  return Type.Integer({
    description,
    ...given({ default: preset }),
    minimum: min,
    maximum: max,
    ...given({ 'x-unit': unit })
  })
}

/** A number, also one between two whole ones. */
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

/** A value that is true or false. */
export function flag({ description, default: preset }: Documented & { readonly default?: boolean }) {
  return Type.Boolean({ description, ...given({ default: preset }) })
}

/** One of a few words or numbers; a single `enum` gives one error instead of one for each word. */
export function choice<const W extends readonly (string | number)[]>(
  words: W,
  options: Documented & { readonly default?: W[number] }
) {
  const { description, default: preset } = options
  return Type.Enum<W[number][]>([...words], { description, ...given({ default: preset }) })
}

interface Count {
  /** Entries. */
  readonly min?: number
  readonly max?: number
}

/** Values of one kind in an order. `distinct`: none twice. */
export function list<V extends TSchema>(items: V, options: Documented & Count & { readonly distinct?: boolean }) {
  const { description, min, max, distinct } = options
  const count = given({ minItems: min, maxItems: max, uniqueItems: distinct })
  return Type.Array(items, { description, ...count })
}

/** Names to values of one kind. `keys`: the form of the names. `editor`: rules for the names. `deprecated`: taken for a better message alone. */
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
  /** Fewest members. */
  readonly min?: number
  /** Rules between its members, for the schema for editors. */
  readonly editor?: EditorRules
}

/** Named members; other keys are refused. A member that may be left out is `optional`. */
export function object<P extends Record<string, TSchema>>(properties: P, { description, min, editor }: ObjectOptions) {
  const more = given({ minProperties: min, 'x-editor': editor })
  return Type.Object(properties, { additionalProperties: false, description, ...more })
}

/** May be left out of its object. */
export function optional<V extends TSchema>(value: V) {
  return Type.Optional(value)
}

/** A value of the first of several kinds that fits. */
export function either<V extends TSchema[]>(values: readonly [...V], { description }: Documented) {
  return Type.Union<V>([...values] as unknown as V, { description })
}

/** Any value. `templates`: every string in it, at any depth, may hold `${…}`. */
export function any({ description, templates }: Documented & { readonly templates?: boolean }) {
  return Type.Unknown({ description, ...given({ 'x-kind': templates === true ? 'template' : undefined }) })
}

/** Marks a schema with what its reader turns the value into. */
export function parses<P>() {
  return <S extends TSchema>(schema: S): S & Parses<P> => schema as S & Parses<P>
}

/** Without what is undefined: a keyword is there or it is not. */
function given<T extends object>(keywords: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(keywords).filter(([, value]) => value !== undefined)) as never
}
