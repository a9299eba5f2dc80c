import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import { type EventFilter, EventFilters, type FieldReader } from '../resources/event-filter.js'
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

/** Keys of an object, in order: each with the path of the field that it shows, or with the object below it. */
type Shape = readonly (readonly [key: string, at: string | Shape])[]

/** The subscriptions to one type, and what those that an event passes come to, by their places. */
interface Routes {
  readonly list: readonly Route[]
  readonly outcomes: Map<string, readonly (readonly [destination: string, shape: Shape])[]>
}

/** Of one type; filters that differ can come to many. */
const MOST_OUTCOMES = 64

/** Events that no write causes: they are made when somebody subscribed to them, and only then. */
export class TrafficEvents {
  readonly #parts: TrafficParts
  readonly #filters = new EventFilters()
  #routes: ReadonlyMap<string, Routes> = new Map()

  constructor(parts: TrafficParts) {
    this.#parts = parts
  }

  /** Does anybody subscribe to this type? Ask before an event is gathered. */
  wants(type: string): boolean {
    return this.#routes.has(type)
  }

  /**
   * An event with fields to choose from: `http_request_complete.v0`, `tcp_connection_closed.v0`. Only those are read that
   * somebody chose or filters by.
   */
  put(type: string, read: FieldReader): void {
    const routes = this.#routes.get(type)
    if (routes === undefined) return
    let passed = ''
    for (const [place, { filter }] of routes.list.entries()) if (filter?.(read) !== false) passed += `${place} `
    if (passed === '') return
    const make = this.#maker(type)
    for (const [destination, shape] of outcomeOf(routes, passed)) this.#parts.put(destination, make(shown(shape, read)))
  }

  /** An event that shows everything: `agent_session_start.v0`, `agent_session_stop.v0`. */
  tell(type: string, object: Json): void {
    const routes = this.#routes.get(type)
    if (routes === undefined) return
    const event = this.#maker(type)(object)
    for (const destination of new Set(routes.list.flatMap(({ destinations }) => destinations))) {
      this.#parts.put(destination, event)
    }
  }

  /** From now on these subscriptions count. */
  follow(subscriptions: ReadonlyMap<string, readonly Subscribed[]>): void {
    const routes = new Map<string, Routes>()
    for (const [type, list] of subscriptions)
      routes.set(type, { list: list.map((one) => this.#route(type, one)), outcomes: new Map() })
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

/** One event however many subscriptions lead to a destination: it shows what any of them asks for. */
function outcomeOf({ list, outcomes }: Routes, passed: string): readonly (readonly [string, Shape])[] {
  const known = outcomes.get(passed)
  if (known !== undefined) return known
  const chosen = new Map<string, Set<string>>()
  for (const place of passed.trimEnd().split(' ')) {
    const { fields, destinations } = list[Number(place)] as Route
    for (const destination of destinations)
      chosen.set(destination, new Set([...(chosen.get(destination) ?? []), ...fields]))
  }
  const outcome = [...chosen].map(([destination, names]) => [destination, shapeOf(names)] as const)
  if (outcomes.size < MOST_OUTCOMES) outcomes.set(passed, outcome)
  return outcome
}

/** The nested object that dotted paths describe. */
function shapeOf(paths: Iterable<string>, before = ''): Shape {
  const keys = new Map<string, string[]>()
  for (const path of paths) {
    const [key = '', ...rest] = path.split('.')
    keys.set(key, [...(keys.get(key) ?? []), rest.join('.')])
  }
  return [...keys].map(([key, below]) => {
    const path = `${before}${key}`
    return [key, below[0] === '' ? path : shapeOf(below, `${path}.`)] as const
  })
}

function shown(shape: Shape, read: FieldReader): Json {
  const object: Record<string, unknown> = {}
  for (const [key, at] of shape) object[key] = typeof at === 'string' ? (read(at) ?? null) : shown(at, read)
  return object as Json
}
