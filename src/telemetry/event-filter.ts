import { documentedFunctions } from '../expression/catalogue.js'
import { Language } from '../expression/expressions.js'
import type { VariableDefinition } from '../expression/variables/definition.js'
import type { EventFieldType } from '../features/contract.js'
import { type Flow, flowSlot } from '../flow/flow.js'
import { TRAFFIC_FIELDS } from './event-fields.js'

/** Reads one field of an event by its dotted path; times are RFC 3339, absent is null or undefined. */
export type FieldReader = (path: string) => unknown

/** Whether an event passes. What cannot be evaluated does not pass. */
export type EventFilter = (read: FieldReader) => boolean

export type CompiledFilter =
  | { readonly ok: true; readonly filter: EventFilter }
  | { readonly ok: false; readonly message: string; readonly start: number }

/** Compiles filters: CEL with the functions of traffic policies over one variable, `ev`, which holds the fields of the event. */
export class EventFilters {
  readonly #languages = new Map<string, Language>()

  /** `type`: of the event that is filtered. Throws a RangeError when such events have no fields. */
  compile(type: string, source: string): CompiledFilter {
    // The phase decides about variables of the exchange only, and there are none here.
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
    // A filter that says something else each time would be of no use, so chance is not in it.
    const language = new Language(variables, documentedFunctions({ random: () => 0 }))
    this.#languages.set(type, language)
    return language
  }
}

function variable(path: string, type: EventFieldType): VariableDefinition {
  return { path: `ev.${path}`, type, optional: true, read: (flow) => typed(readerOf(flow)(path), type) }
}

/** In the representation of the expression layer. */
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

/** The variables of this language read the fields of an event and nothing else of a flow. */
function flowOf(read: FieldReader): Flow {
  return { get: () => read } as Pick<Flow, 'get'> as Flow
}

const reader = flowSlot<FieldReader>('event.reader')

function readerOf(flow: Flow): FieldReader {
  return flow.get(reader) as FieldReader
}
