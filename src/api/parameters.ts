import { notFound } from '../control/errors.js'
import { text } from '../schema/answer.js'
import { invalidParameter, LIMIT, readCount, readSwitch } from './calls.js'

/** One parameter of a query, with its description and its parser. */
export interface Parameter<T> {
  readonly schema: object
  readonly description: string
  /** Name among the components of the API's description, where two parameters share a name. @default its name in the query */
  readonly component?: string
  /** Returns the value; `query` may lack it. Throws an ApiError. */
  read(query: ReadonlyMap<string, string>, name: string): T
}

export type Parameters = Readonly<Record<string, Parameter<unknown>>>

/** Values of the parameters of a route. */
export type ParameterValues<Q extends Parameters> = {
  readonly [K in keyof Q]: Q[K] extends Parameter<infer T> ? T : never
}

interface Bounds {
  readonly least?: number
  readonly most: number
  /** Value where the query has none. */
  readonly absent: number
  readonly description: string
  readonly component?: string
}

/** A whole number from `least` to `most`. */
export function wholeNumber({ least = LIMIT.least, most, absent, description, component }: Bounds): Parameter<number> {
  return {
    description,
    ...(component === undefined ? {} : { component }),
    schema: { type: 'integer', minimum: least, maximum: most, ...(absent < least ? {} : { default: absent }) },
    read: (query, name) => readCount(query, name, { ...LIMIT, least, most, absent })
  }
}

/** Unchecked text; undefined if missing. */
export function anyText(description: string): Parameter<string | undefined> {
  return { description, schema: text, read: (query, name) => query.get(name) }
}

/** Text that is not empty; undefined where the query has none. */
export function someText(description: string): Parameter<string | undefined> {
  return {
    description,
    schema: text,
    read(query, name) {
      const value = query.get(name)
      if (value === '') throw invalidParameter(name, 'must not be empty')
      return value
    }
  }
}

/** A switch; false where the query has none. */
export function flag(description: string): Parameter<boolean> {
  return { description, schema: { type: 'boolean', default: false }, read: readSwitch }
}

/** One of several words; `absent` if missing. */
export function choice<const W extends readonly string[]>(
  all: W,
  absent: W[number],
  description: string
): Parameter<W[number]> {
  return {
    description,
    schema: { ...text, enum: all, default: absent },
    read(query, name) {
      const found = all.find((word) => word === (query.get(name) ?? absent))
      if (found === undefined) throw invalidParameter(name, `must be ${all.join(' or ')}`)
      return found
    }
  }
}

const REVISION = /^[1-9]\d{0,14}$/

/** Returns the revision in a path. Fails with `NOT_FOUND` if it is invalid. */
export function revisionIn(id: string): number {
  if (!REVISION.test(id)) throw notFound('revision')
  return Number(id)
}

/** Reads the number of a revision; undefined where the query has none. Throws an ApiError. */
export function readRevision(query: ReadonlyMap<string, string>, name: string): number | undefined {
  const value = query.get(name)
  if (value !== undefined && !REVISION.test(value)) throw invalidParameter(name, 'must be a revision')
  return value === undefined ? undefined : Number(value)
}

/** Parameters of a page of a list. */
export const PAGE = {
  limit: wholeNumber({ ...LIMIT, description: 'Most entries of the page.' }),
  before_id: anyText('Only what was created before the record with this id, which may be deleted since.')
} as const
