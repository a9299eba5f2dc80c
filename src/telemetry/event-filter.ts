import { documentedFunctions } from '../expression/catalogue.js'
import { Language } from '../expression/expressions.js'
import type { VariableDefinition } from '../expression/variables/definition.js'
import type { EventFieldType } from '../features/contract.js'
import { type Flow, flowSlot } from '../flow/flow.js'
import { TRAFFIC_FIELDS } from './event-fields.js'

/** Reads one field of an event by its dotted path. Times are RFC 3339; null and undefined are missing values. */
export type FieldReader = (path: string) => unknown

/** Returns true if an event passes; false also if the filter cannot be evaluated. */
export type EventFilter = (read: FieldReader) => boolean

export type CompiledFilter =
  | { readonly ok: true; readonly filter: EventFilter }
  | { readonly ok: false; readonly message: string; readonly start: number }

/** Compiles event filters: CEL with the functions of traffic policies and one variable, `ev`, with the fields of the event. */
export class EventFilters {
  readonly #languages = new Map<string, Language>()

  /** `type`: event type. Throws a RangeError if its events have no fields. */
  compile(type: string, source: string): CompiledFilter {
    // The phase only selects variables of the exchange, and filters have none.
    const compiled = this.#language(type).expression(source, 'on_http_response')
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
        return expression.outcome(flowOf(read)) === true
      }
    }
  }

  #language(type: string): Language {
    const known = this.#languages.get(type)
    if (known !== undefined) return known
    const fields = TRAFFIC_FIELDS.get(type)
    if (fields === undefined) throw new RangeError(`events of type ${type} have no fields`)
    const variables = Object.entries(fields).map(([path, { type: of }]) => variable(path, of))
    // Random functions are excluded, because a filter must always return the same result.
    const language = new Language(variables, documentedFunctions({ random: () => 0 }))
    this.#languages.set(type, language)
    return language
  }
}

function variable(path: string, type: EventFieldType): VariableDefinition {
  return { path: `ev.${path}`, type, optional: true, read: (flow) => typed(readerOf(flow)(path), type) }
}

/** Converts a value to the representation of the expression layer. */
function typed(value: unknown, type: EventFieldType): unknown {
  if (value === undefined || value === null) return undefined
  if (type === 'int') return BigInt(Math.trunc(Number(value)))
  if (type === 'timestamp') return new Date(String(value))
  return type === 'list<dyn>' || type === 'map<string, list<string>>' ? dataOf(value) : value
}

function dataOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dataOf)
  if (typeof value !== 'object' || value === null) return value
  return new Map(Object.entries(value).map(([key, item]) => [key, dataOf(item)]))
}

/** Returns a flow for the variables of this language, which read event fields alone. */
function flowOf(read: FieldReader): Flow {
  return { get: () => read } as Pick<Flow, 'get'> as Flow
}

const reader = flowSlot<FieldReader>('event.reader')

function readerOf(flow: Flow): FieldReader {
  return flow.get(reader) as FieldReader
}
