import type { FieldReader, ObjectFilter } from '../expression/object-filters.js'
import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import type { Json } from '../lib/json.js'
import { TRAFFIC_FIELDS } from './event-fields.js'
import { EventFilters } from './event-filter.js'

/** One event type of a subscription and its destinations. */
export interface Subscribed {
  readonly type: string
  /** Fields of a traffic event. @default all */
  readonly fields?: readonly string[] | undefined
  /** CEL over `ev`. @default every event */
  readonly filter?: string | undefined
  /** Destination ids. */
  readonly destinations: readonly string[]
}

/** Writes an object with the chosen fields as JSON directly from the reader. */
type Printer = (read: FieldReader) => string

/** Characters that JSON strings must escape (RFC 8259 section 7), and lone surrogates, which UTF-8 cannot encode. */
const TO_ESCAPE = /["\\\p{Cc}\p{Cs}]/u

/**
 * `paths`: dotted; each dot opens a nested object. A field without a value is null. Braces and names are prepared once; an event only adds
 * its values.
 */
export function printer(paths: Iterable<string>): Printer {
  const steps: { readonly before: string; readonly path: string }[] = []
  let text = ''
  const open = (fields: Iterable<readonly [path: string, rest: string]>) => {
    text += '{'
    for (const [place, [key, below]] of [...grouped(fields)].entries()) {
      text += `${place === 0 ? '' : ','}${JSON.stringify(key)}:`
      const [first] = below
      if (first !== undefined && first[1] === '') {
        steps.push({ before: text, path: first[0] })
        text = ''
      } else open(below)
    }
    text += '}'
  }
  open([...paths].map((path) => [path, path] as const))
  const end = text
  return (read) => {
    let json = ''
    for (const { before, path } of steps) json += before + printed(read(path))
    return json + end
  }
}

/** Groups fields by the first part of their path, with the rest of the path. */
function grouped(fields: Iterable<readonly [path: string, rest: string]>): ReadonlyMap<string, [string, string][]> {
  const keys = new Map<string, [string, string][]>()
  for (const [path, rest] of fields) {
    const dot = rest.indexOf('.')
    const key = dot === -1 ? rest : rest.slice(0, dot)
    const below = keys.get(key) ?? []
    below.push([path, dot === -1 ? '' : rest.slice(dot + 1)])
    keys.set(key, below)
  }
  return keys
}

function printed(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'string') return TO_ESCAPE.test(value) ? JSON.stringify(value) : `"${value}"`
  return JSON.stringify(value) ?? 'null'
}

interface TrafficParts {
  readonly clock: Clock
  readonly account: () => string
  /** Queues an event for a destination. Must not throw or block. */
  readonly put: (destination: string, event: string) => void
  /** Reports an event that could not be written. Must not throw. */
  readonly fault: (error: unknown) => void
}

/** Compiled subscription to one type. */
interface Route {
  readonly fields: readonly string[]
  readonly filter: ObjectFilter | undefined
  readonly destinations: readonly string[]
}

/** Subscriptions to one type, and cached results by the subscriptions that an event passes. */
interface Routes {
  readonly list: readonly Route[]
  readonly outcomes: Map<string, readonly (readonly [destination: string, print: Printer])[]>
}

/** Maximum number of cached results of one type; filters can combine in many ways. */
const MOST_OUTCOMES = 64

/** Event that waits to be written. */
interface Happened {
  readonly type: string
  readonly at: number
  readonly read: FieldReader
}

/**
 * Maximum time an event waits to be written (ms). Events are written in batches: a single write costs several times as much and would delay
 * the next request.
 */
const PAUSE = 10
/** Minimum number of events written before requests are served again. */
const SLICE = 6
/** Fraction of the queue that is written in addition: 1 / SHARE. */
const SHARE = 8

/** Queue of events that no write causes: created only if a subscription includes them. */
export class TrafficEventQueue {
  readonly #parts: TrafficParts
  readonly #filters = new EventFilters()
  #routes: ReadonlyMap<string, Routes> = new Map()
  #waiting: Happened[] = []
  #written = 0
  #pausing = false

  constructor(parts: TrafficParts) {
    this.#parts = parts
  }

  /** Returns true if a subscription includes this type. Call before collecting an event. */
  wants(type: string): boolean {
    return this.#routes.has(type)
  }

  /**
   * Queues an event with selectable fields: `http_request_complete.v0`, `tcp_connection_closed.v0`. Only fields that a subscription selects
   * or filters by are read; `read` is called later and must still return the present values.
   */
  put(type: string, read: FieldReader): void {
    if (!this.#routes.has(type)) return
    this.#waiting.push({ type, at: this.#parts.clock.wall(), read })
    if (this.#pausing) return
    this.#pausing = true
    setTimeout(() => this.#slice(), PAUSE).unref()
  }

  /** Queues an event with all of its data: `agent_session_start.v0`, `agent_session_stop.v0`. */
  publish(type: string, object: Json): void {
    this.flush()
    const routes = this.#routes.get(type)
    if (routes === undefined) return
    const event = `${this.#head(type, this.#parts.clock.wall())}${JSON.stringify(object)}}`
    for (const destination of new Set(routes.list.flatMap(({ destinations }) => destinations))) {
      this.#parts.put(destination, event)
    }
  }

  /** Replaces the subscriptions; queued events are written by the previous ones. */
  follow(subscriptions: ReadonlyMap<string, readonly Subscribed[]>): void {
    this.flush()
    const routes = new Map<string, Routes>()
    for (const [type, list] of subscriptions)
      routes.set(type, { list: list.map((one) => this.#route(type, one)), outcomes: new Map() })
    this.#routes = routes
  }

  /** Writes all queued events. */
  flush(): void {
    this.#writeUpTo(this.#waiting.length)
  }

  #slice(): void {
    const left = this.#waiting.length - this.#written
    this.#writeUpTo(this.#written + SLICE + Math.floor(left / SHARE))
    if (this.#waiting.length > 0) setImmediate(() => this.#slice()).unref()
    else this.#pausing = false
  }

  #writeUpTo(end: number): void {
    for (const most = Math.min(end, this.#waiting.length); this.#written < most; this.#written++) {
      try {
        this.#write(this.#waiting[this.#written] as Happened)
      } catch (error) {
        // No caller would catch it, and other events are still to be written.
        this.#parts.fault(error)
      }
    }
    if (this.#written < this.#waiting.length) return
    this.#waiting = []
    this.#written = 0
  }

  #write({ type, at, read }: Happened): void {
    const routes = this.#routes.get(type)
    if (routes === undefined) return
    let passed = ''
    for (const [place, { filter }] of routes.list.entries()) if (filter?.(read) !== false) passed += `${place} `
    if (passed === '') return
    const head = this.#head(type, at)
    for (const [destination, print] of outcomeOf(routes, passed)) this.#parts.put(destination, `${head}${print(read)}}`)
  }

  #route(type: string, { fields, filter, destinations }: Subscribed): Route {
    const all = Object.keys(TRAFFIC_FIELDS.get(type) ?? {})
    const compiled = filter === undefined ? undefined : this.#filters.compile(type, filter)
    // A filter that an earlier version accepted and this one rejects lets no event pass.
    const pass = compiled === undefined ? undefined : compiled.ok ? compiled.filter : () => false
    return { fields: fields ?? all, filter: pass, destinations }
  }

  /** Returns the JSON of an envelope up to its object. */
  #head(type: string, at: number): string {
    const head = {
      event_id: newId('ev', at),
      event_type: type,
      event_timestamp: new Date(at).toISOString(),
      account_id: this.#parts.account(),
      principal: null
    }
    return `${JSON.stringify(head).slice(0, -1)},"object":`
  }
}

/** Returns one event per destination, with the fields that any subscription to it selects. */
function outcomeOf({ list, outcomes }: Routes, passed: string): readonly (readonly [string, Printer])[] {
  const known = outcomes.get(passed)
  if (known !== undefined) return known
  const chosen = new Map<string, Set<string>>()
  for (const place of passed.trimEnd().split(' ')) {
    const { fields, destinations } = list[Number(place)] as Route
    for (const destination of destinations)
      chosen.set(destination, new Set([...(chosen.get(destination) ?? []), ...fields]))
  }
  const outcome = [...chosen].map(([destination, names]) => [destination, printer(names)] as const)
  if (outcomes.size < MOST_OUTCOMES) outcomes.set(passed, outcome)
  return outcome
}
