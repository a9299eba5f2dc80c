import { type CompiledFilter, ObjectFilters } from '../expression/object-filters.js'
import { TRAFFIC_FIELDS } from './event-fields.js'

/** Compiles event filters: CEL with the functions of traffic policies and one variable, `ev`, with the fields of the event. */
export class EventFilters {
  readonly #languages = new Map<string, ObjectFilters>()

  /** `type`: event type. Throws a RangeError if its events have no fields. */
  compile(type: string, source: string): CompiledFilter {
    return this.#language(type).compile(source)
  }

  #language(type: string): ObjectFilters {
    const known = this.#languages.get(type)
    if (known !== undefined) return known
    const fields = TRAFFIC_FIELDS.get(type)
    if (fields === undefined) throw new RangeError(`events of type ${type} have no fields`)
    const types = Object.fromEntries(Object.entries(fields).map(([path, field]) => [path, field.type]))
    const language = new ObjectFilters({ root: 'ev', fields: types })
    this.#languages.set(type, language)
    return language
  }
}
