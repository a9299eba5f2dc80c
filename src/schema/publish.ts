import type { Schema } from './schema.js'

/** A JSON Schema (draft 2020-12) as plain data. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** How the published schema of one kind of declaration differs from the declaration. */
export interface Dialect {
  /** Is the keyword published? Annotations (`x-…`) mean nothing to validators, and strict ones refuse them. */
  keeps(keyword: string): boolean
  /** A value in the form in which its reader takes it. */
  value?(published: JsonSchema, declared: Schema): JsonSchema
  /** A member of an object. */
  member?(published: JsonSchema, declared: Schema, required: boolean): JsonSchema
}

/** JSON Schema (2020-12) of a declaration, for editors, for the API document and for the description of options. */
export function publish(declared: Schema, dialect: Dialect): JsonSchema {
  const published: Record<string, unknown> = {}
  for (const [keyword, value] of Object.entries(declared)) {
    if (dialect.keeps(keyword)) published[keyword] = publishKeyword(keyword, value, declared, dialect)
  }
  return dialect.value?.(published, declared) ?? published
}

function publishKeyword(keyword: string, value: unknown, declared: Schema, dialect: Dialect): unknown {
  switch (keyword) {
    case 'properties':
      return members(declared, dialect)
    case 'items':
      return publish(value as Schema, dialect)
    case 'additionalProperties':
      return typeof value === 'object' ? publish(value as Schema, dialect) : value
    case 'anyOf':
      // A branch that is deprecated is there for a better message alone.
      return (value as readonly Schema[])
        .filter(({ deprecated }) => deprecated !== true)
        .map((branch) => publish(branch, dialect))
    default:
      return value
  }
}

function members({ properties = {}, required = [] }: Schema, dialect: Dialect): JsonSchema {
  return Object.fromEntries(
    Object.entries(properties).map(([name, field]) => {
      const published = publish(field, dialect)
      return [name, dialect.member?.(published, field, required.includes(name)) ?? published]
    })
  )
}
