import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import type { Json } from '../lib/json.js'
import { TRAFFIC_FIELDS } from './event-fields.js'
import { type EventFilter, EventFilters, type FieldReader } from './event-filter.js'

/** One type that one subscription names, with where it goes. */
export interface Subscribed {
  readonly type: string
  /** Names of the fields of a traffic event; all of them when absent. */
  readonly fields?: readonly string[] | undefined
  /** CEL over `ev`; absent: every event. */
  readonly filter?: string | undefined
  /** Ids. */
  readonly destinations: readonly string[]
}

/** Writes an object with chosen fields as JSON, straight from what reads them. */
type Printer = (read: FieldReader) => string

/** What may not stand in a JSON string as it is (RFC 8259 section 7), and halves of surrogate pairs, which UTF-8 lacks. */
const TO_ESCAPE = /["\\\p{Cc}\p{Cs}]/u

/**
 * `paths`: dotted; each is a field in an object below the one before its dot. A field without a value is null. The braces and
 * the names are written once, here: an event only adds its values.
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

/** Fields by the first part of their rest, with what is left of that. */
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
  /** Takes an event for a destination. Must not throw or block. */
  readonly put: (destination: string, event: string) => void
  /** An event could not be written. Must not throw. */
  readonly fault: (error: unknown) => void
}

/** One subscription to one type, ready to run. */
interface Route {
  readonly fields: readonly string[]
  readonly filter: EventFilter | undefined
  readonly destinations: readonly string[]
}

/** The subscriptions to one type, and what those that an event passes come to, by their places. */
interface Routes {
  readonly list: readonly Route[]
  readonly outcomes: Map<string, readonly (readonly [destination: string, print: Printer])[]>
}

/** Of one type; filters that differ can come to many. */
const MOST_OUTCOMES = 64

/** One that waits to be written. */
interface Happened {
  readonly type: string
  readonly at: number
  readonly read: FieldReader
}

/**
 * Milliseconds for which what happened waits to be written. Writing is done by the way, several in a row: one alone costs
 * several times as much, and the next request would wait for it.
 */
const PAUSE = 10
/** How many are written before requests get their turn again, and beyond them one of so many that wait. */
const SLICE = 6
const SHARE = 8

/** Events that no write causes: they are made only when a subscription takes them. */
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

  /** Does a subscription take this type? Ask before an event is gathered. */
  wants(type: string): boolean {
    return this.#routes.has(type)
  }

  /**
   * An event with fields to choose from: `http_request_complete.v0`, `tcp_connection_closed.v0`. Only those are read that
   * a subscription chose or filters by; `read` is kept for a moment and must answer then what it would answer now.
   */
  put(type: string, read: FieldReader): void {
    if (!this.#routes.has(type)) return
    this.#waiting.push({ type, at: this.#parts.clock.wall(), read })
    if (this.#pausing) return
    this.#pausing = true
    setTimeout(() => this.#slice(), PAUSE).unref()
  }

  /** An event that shows everything: `agent_session_start.v0`, `agent_session_stop.v0`. */
  publish(type: string, object: Json): void {
    this.flush()
    const routes = this.#routes.get(type)
    if (routes === undefined) return
    const event = `${this.#head(type, this.#parts.clock.wall())}${JSON.stringify(object)}}`
    for (const destination of new Set(routes.list.flatMap(({ destinations }) => destinations))) {
      this.#parts.put(destination, event)
    }
  }

  /** From now on these subscriptions count; for what happened before, those before. */
  follow(subscriptions: ReadonlyMap<string, readonly Subscribed[]>): void {
    this.flush()
    const routes = new Map<string, Routes>()
    for (const [type, list] of subscriptions)
      routes.set(type, { list: list.map((one) => this.#route(type, one)), outcomes: new Map() })
    this.#routes = routes
  }

  /** Everything that happened goes to its destinations. */
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
        // No caller would catch it, and the other events are still to be written.
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
    // A filter that an earlier version took and this one refuses lets nothing through.
    const pass = compiled === undefined ? undefined : compiled.ok ? compiled.filter : () => false
    return { fields: fields ?? all, filter: pass, destinations }
  }

  /** An envelope as JSON up to its object. */
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

/** One event however many subscriptions lead to a destination: it shows what any of them asks for. */
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
