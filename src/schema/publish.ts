import type { Schema } from './schema.js'

/** A JSON Schema (draft 2020-12) as plain data. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Differences between a published schema and its declaration. */
export interface Dialect {
  /** Returns whether the keyword is published. Validators do not know annotations (`x-…`), and strict ones reject them. */
  keeps(keyword: string): boolean
  /** Adapts a value to the form that its reader accepts. */
  value?(published: JsonSchema, declared: Schema): JsonSchema
  /** Adapts a member of an object. */
  member?(published: JsonSchema, declared: Schema, required: boolean): JsonSchema
}

/** Returns the JSON Schema (2020-12) of a declaration, for editors, the API document and the description of options. */
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
      // A deprecated branch exists only for a better error message.
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
