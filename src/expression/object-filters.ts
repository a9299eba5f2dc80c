import { type Flow, flowSlot } from '../flow/flow.js'
import { documentedFunctions } from './catalogue.js'
import { Language } from './expressions.js'
import type { FunctionDefinition } from './signatures.js'
import type { VariableDefinition } from './variables/definition.js'

/** Reads one field of an object by its dotted path. Times are RFC 3339 text. Undefined is a missing value. */
export type FieldReader = (path: string) => unknown

/** Returns true if an object passes; false also if the filter cannot be evaluated. */
export type ObjectFilter = (read: FieldReader) => boolean

/** A filter, or the reason why its source is refused. */
export type CompiledFilter =
  | { readonly ok: true; readonly filter: ObjectFilter }
  /** `start`: offset of the problem in the source (UTF-16 units). */
  | { readonly ok: false; readonly message: string; readonly start: number }

interface ObjectFiltersParts {
  /** Name of the object in expressions. */
  readonly root: string
  /** CEL types of the fields by their dotted paths. A field of type `dyn` may be null. */
  readonly fields: Readonly<Record<string, string>>
  /** Variables beside the fields. @default none */
  readonly variables?: readonly VariableDefinition[]
  /** Functions beside those of policies. @default none */
  readonly functions?: readonly FunctionDefinition[]
}

/** Compiles filters of objects: CEL with the functions of traffic policies, and one variable with the fields of the object. */
export class ObjectFilters {
  readonly #language: Language

  constructor({ root, fields, variables = [], functions = [] }: ObjectFiltersParts) {
    const own = Object.entries(fields).map(([path, type]) => fieldVariable(root, path, type))
    // Random functions are excluded, because a filter must always return the same result.
    this.#language = new Language([...own, ...variables], [...documentedFunctions({ random: () => 0 }), ...functions])
  }

  compile(source: string): CompiledFilter {
    // The phase only selects variables of the exchange, and filters have none.
    const compiled = this.#language.expression(source, 'on_http_response')
    if (!compiled.ok) {
      const [first] = compiled.problems
      return { ok: false, message: first?.message ?? 'the expression is refused', start: first?.start ?? 0 }
    }
    const { value: expression } = compiled
    if (expression.type !== 'bool' && expression.type !== 'dyn') {
      return { ok: false, message: `must be a condition, and this is of type ${expression.type}`, start: 0 }
    }
    return {
      ok: true,
      filter(read) {
        return expression.outcome(readingFlow(read)) === true
      }
    }
  }
}

function fieldVariable(root: string, path: string, type: string): VariableDefinition {
  return { path: `${root}.${path}`, type, optional: true, read: (flow) => typed(fieldReader(flow)(path), type) }
}

/** Converts a value to the representation of the expression layer. */
function typed(value: unknown, type: string): unknown {
  if (type === 'dyn') return dataOf(value)
  if (value === undefined || value === null) return undefined
  if (type === 'int') return BigInt(Math.trunc(Number(value)))
  if (type === 'timestamp') return value === '' ? undefined : new Date(String(value))
  return type.startsWith('list<') || type.startsWith('map<') ? dataOf(value) : value
}

function dataOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dataOf)
  if (typeof value !== 'object' || value === null) return value
  return new Map(Object.entries(value).map(([key, item]) => [key, dataOf(item)]))
}

/** Returns a flow for the variables of this language, which read fields of the object alone. */
function readingFlow(read: FieldReader): Flow {
  return { get: () => read } as Pick<Flow, 'get'> as Flow
}

const reader = flowSlot<FieldReader>('object.reader')

function fieldReader(flow: Flow): FieldReader {
  return flow.get(reader) as FieldReader
}
