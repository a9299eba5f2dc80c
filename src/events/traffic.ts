import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import { type EventFilter, EventFilters, type FieldValues } from '../resources/event-filter.js'
import type { Json } from '../resources/field.js'
import { TRAFFIC_FIELDS } from '../resources/traffic-fields.js'
import { envelope } from './envelope.js'
import type { Subscribed } from './subscriptions.js'

export interface TrafficParts {
  readonly clock: Clock
  readonly account: () => string
  /** Takes an event for a destination. Must not throw or block. */
  readonly put: (destination: string, event: string) => void
}

/** One subscription to one type, ready to run. */
interface Route {
  readonly fields: readonly string[]
  readonly filter: EventFilter | undefined
  readonly destinations: readonly string[]
}

/** Events that no write causes: they are made when somebody subscribed to them, and only then. */
export class TrafficEvents {
  readonly #parts: TrafficParts
  readonly #filters = new EventFilters()
  #routes: ReadonlyMap<string, readonly Route[]> = new Map()

  constructor(parts: TrafficParts) {
    this.#parts = parts
  }

  /** Does anybody subscribe to this type? Ask before an event is gathered. */
  wants(type: string): boolean {
    return this.#routes.has(type)
  }

  /** An event with fields to choose from: `http_request_complete.v0`, `tcp_connection_closed.v0`. */
  put(type: string, values: FieldValues): void {
    const routes = this.#routes.get(type)?.filter(({ filter }) => filter?.(values) !== false)
    if (routes === undefined || routes.length === 0) return
    // One event however many subscriptions lead to a destination: it shows what any of them asks for.
    const chosen = new Map<string, Set<string>>()
    for (const { fields, destinations } of routes) {
      for (const destination of destinations) {
        const names = chosen.get(destination) ?? new Set()
        chosen.set(destination, names)
        for (const field of fields) names.add(field)
      }
    }
    const make = this.#maker(type)
    for (const [destination, names] of chosen) this.#parts.put(destination, make(selected(names, values)))
  }

  /** An event that shows everything: `agent_session_start.v0`, `agent_session_stop.v0`. */
  tell(type: string, object: Json): void {
    const routes = this.#routes.get(type)
    if (routes === undefined) return
    const event = this.#maker(type)(object)
    for (const destination of new Set(routes.flatMap(({ destinations }) => destinations))) {
      this.#parts.put(destination, event)
    }
  }

  /** From now on these subscriptions count. */
  follow(subscriptions: ReadonlyMap<string, readonly Subscribed[]>): void {
    const routes = new Map<string, readonly Route[]>()
    for (const [type, list] of subscriptions)
      routes.set(
        type,
        list.map((one) => this.#route(type, one))
      )
    this.#routes = routes
  }

  #route(type: string, { fields, filter, destinations }: Subscribed): Route {
    const all = Object.keys(TRAFFIC_FIELDS.get(type) ?? {})
    const compiled = filter === undefined ? undefined : this.#filters.compile(type, filter)
    // A filter that an earlier version took and this one refuses lets nothing through.
    const pass = compiled === undefined ? undefined : compiled.ok ? compiled.filter : () => false
    return { fields: fields ?? all, filter: pass, destinations }
  }

  #maker(type: string): (object: Json) => string {
    const { clock, account } = this.#parts
    const at = clock.wall()
    const about = { id: newId('ev', at), type, at, account: account(), principal: null }
    return (object) => JSON.stringify(envelope({ ...about, object }))
  }
}

/** The values of these fields as the nested object that their dotted paths describe. */
function selected(names: Iterable<string>, values: FieldValues): Json {
  const root: Record<string, unknown> = {}
  for (const name of names) {
    const path = name.split('.')
    const last = path.pop() as string
    let at = root
    for (const part of path) {
      at[part] ??= {}
      at = at[part] as Record<string, unknown>
    }
    at[last] = values[name] ?? null
  }
  return root as Json
}
