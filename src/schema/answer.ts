/** A JSON Schema whose values have the type `T`, known at compile time only. */
export interface Shape<T> {
  readonly '~value'?: T
}

/** Type of a shape's values; `unknown` for a plain JSON Schema. */
export type ValueOf<S> = S extends Shape<infer T> ? T : unknown

/** A mutable value of a shape, for building it. */
export type Draft<T> = T extends readonly (infer E)[]
  ? Draft<E>[]
  : T extends object
    ? { -readonly [K in keyof T]: Draft<T[K]> }
    : T

type Members = Readonly<Record<string, object>>

/** Builders for the responses of the API: each returns a JSON Schema (2020-12) and carries the type of its values. */
export const text: { readonly type: 'string' } & Shape<string> = { type: 'string' }
/** A string or null. */
export const textOrNull: { readonly type: readonly ['string', 'null'] } & Shape<string | null> = {
  type: ['string', 'null']
}
/** An integer. */
export const integer: { readonly type: 'integer' } & Shape<number> = { type: 'integer' }
/** A number. */
export const number: { readonly type: 'number' } & Shape<number> = { type: 'number' }
/** A boolean. */
export const flag: { readonly type: 'boolean' } & Shape<boolean> = { type: 'boolean' }
/** A non-negative integer. */
export const count = { ...integer, minimum: 0 } as const
/** An RFC 3339 time. */
export const time = { ...text, format: 'date-time' } as const

/** One of a fixed set of strings. */
export function words<const W extends readonly string[]>(
  all: W,
  description?: string
): { readonly type: 'string' } & Shape<W[number]> {
  return { type: 'string', enum: all, ...(description === undefined ? {} : { description }) } as never
}

/** An object with these members; those in `optional` may be missing. */
export function object<P extends Members, const O extends readonly (keyof P)[] = readonly []>(
  properties: P,
  optional?: O
): object &
  Shape<
    { readonly [K in Exclude<keyof P, O[number]>]: ValueOf<P[K]> } & { readonly [K in O[number]]?: ValueOf<P[K]> }
  > {
  const missing: readonly unknown[] = optional ?? []
  const required = Object.keys(properties).filter((name) => !missing.includes(name))
  return { type: 'object', properties, required } as never
}

/** An object with its own name in the API description. */
export function titledObject<P extends Members, const O extends readonly (keyof P)[] = readonly []>(
  title: string,
  properties: P,
  optional?: O
): ReturnType<typeof object<P, O>> {
  return { type: 'object', title, ...object(properties, optional) } as never
}

/** An object with arbitrary member names; without `values`, members can have any value. */
export function mapOf<S extends object = object>(
  values?: S,
  description?: string
): object & Shape<Readonly<Record<string, ValueOf<S>>>> {
  return {
    type: 'object',
    ...(values === undefined ? {} : { additionalProperties: values }),
    ...(description === undefined ? {} : { description })
  } as never
}

/** A value of this shape, or null. */
export function orNull<S extends object>(schema: S): object & Shape<ValueOf<S> | null> {
  return { anyOf: [schema, { type: 'null' }] } as never
}

/** A list of values of one shape. */
export function listOf<S extends object>(items: S, description?: string): object & Shape<readonly ValueOf<S>[]> {
  return { type: 'array', items, ...(description === undefined ? {} : { description }) } as never
}

/** Reference to the component schema of this name in the API description. */
export function ref<T = unknown>(schema: string): { readonly $ref: string } & Shape<T> {
  return { $ref: `#/components/schemas/${schema}` }
}
