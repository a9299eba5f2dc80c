import type { TSchema } from 'typebox'
import { failed, failsWith } from '../expression/functions/bounds.js'
import { type CompiledFilter, ObjectFilters } from '../expression/object-filters.js'
import type { FunctionDefinition } from '../expression/signatures.js'
import { timestampOf } from '../expression/values.js'
import { timeVariables } from '../expression/variables/actions.js'
import type { Clock } from '../lib/clock.js'
import { parseDuration } from '../lib/units.js'
import { responseSchema } from '../schema/json-schema.js'
import type { Schema } from '../schema/schema.js'
import type { Resource } from './resource.js'

/** Name of the object in the filters of lists. */
const ROOT = 'obj'

/** Milliseconds of a day. */
const DAY = 86_400_000

/** A number of days, which the durations of configurations do not have. */
const DAYS = /^(\d{1,7})d$/

/**
 * Compiles the filters of lists: CEL with the functions of traffic policies, and the variable `obj` with the fields of the object as lists
 * show it. Times of whole fields are timestamps; what is inside of an object or a list is untyped.
 */
export class ListFilters {
  readonly #clock: Clock
  readonly #languages = new Map<string, ObjectFilters>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  compile(resource: Resource, source: string): CompiledFilter {
    return this.#language(resource).compile(source)
  }

  #language(resource: Resource): ObjectFilters {
    const known = this.#languages.get(resource.name)
    if (known !== undefined) return known
    const language = new ObjectFilters({
      root: ROOT,
      fields: fieldTypes(resource),
      variables: timeVariables(this.#clock),
      functions: timeFunctions(this.#clock)
    })
    this.#languages.set(resource.name, language)
    return language
  }
}

/** Returns the CEL types of the fields of an object as responses show it. */
export function fieldTypes(resource: Resource): Readonly<Record<string, string>> {
  const { properties = {} } = responseSchema(resource) as Schema
  return Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, celType(schema)]))
}

/** Returns the CEL type of a field of responses; `dyn` if it may be null, or has members. */
function celType(schema: TSchema | Schema): string {
  const { type, format, anyOf } = schema as Schema & { readonly format?: string }
  if (anyOf !== undefined) return 'dyn'
  if (type === 'string') return format === 'date-time' ? 'timestamp' : 'string'
  if (type === 'integer') return 'int'
  if (type === 'number') return 'double'
  return type === 'boolean' ? 'bool' : 'dyn'
}

/** Functions of filters for spans of time up to now. */
function timeFunctions(clock: Clock): readonly FunctionDefinition[] {
  const shifted = (sign: 1 | -1) => {
    const run = (instant: Date, span: string) => timestampOf(instant.getTime() + sign * millisecondsOf(span))
    return { run, refuses: failsWith(run, [new Date(0), '1s']) }
  }
  return [
    { signature: 'now(): google.protobuf.Timestamp', varies: true, run: () => new Date(clock.wall()) },
    {
      signature: 'daysAgo(int): google.protobuf.Timestamp',
      varies: true,
      run: (days: bigint) => timestampOf(clock.wall() - Number(days) * DAY)
    },
    { signature: 'google.protobuf.Timestamp.add(string): google.protobuf.Timestamp', ...shifted(1) },
    { signature: 'google.protobuf.Timestamp.subtract(string): google.protobuf.Timestamp', ...shifted(-1) }
  ]
}

/** Milliseconds of a span such as `7d` or `1h30m`. Fails for any other text. */
function millisecondsOf(span: string): number {
  const days = DAYS.exec(span)
  const milliseconds = days === null ? parseDuration(span) : Number(days[1]) * DAY
  if (milliseconds === undefined) throw failed('a span of time is written like 7d, 12h or 1h30m')
  return milliseconds
}
