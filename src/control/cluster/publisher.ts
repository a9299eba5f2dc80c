import { createHash } from 'node:crypto'
import type { BoardChange, BoardEntry, ClusterBoard, Reported } from '../../store/board.js'
import type { Position, StoreLog } from '../../store/store.js'
import type { LiveSession, LiveSources, LiveTunnel } from './live-sources.js'

/**
 * Where an endpoint stands in their list: at its edge or tunnel, and there by a hash of its address. The id says just
 * that, so that an endpoint is found without an index and an id still works as a cursor when its endpoint is gone.
 */
export interface EndpointPlace extends Position {
  readonly tag: string
}

const FORM = /^ep_([0-9a-z]{1,9})_([0-9a-z]{1,9})_([0-9a-f]{16})$/
const TAG_DIGITS = 16
const RADIX = 36

/** The place of the endpoint at an address of a record that was made at `createdAt` (milliseconds). */
export function placeOfAddress({ createdAt, sequence }: Position, address: string): EndpointPlace {
  const tag = createHash('sha256').update(address).digest('hex').slice(0, TAG_DIGITS)
  return { createdAt, sequence, tag }
}

/** The place of the endpoint of a tunnel. */
export function placeOfTunnel({ id, startedAt }: LiveTunnel): EndpointPlace {
  return placeOfAddress({ createdAt: startedAt, sequence: 0 }, id)
}

/** Digits of a time stamp until the year 5138, so that text sorts as numbers do. */
const TIME_DIGITS = 14

/** Text that is greater for what comes first; of places of tunnels. */
function endpointRank({ createdAt, tag }: EndpointPlace): string {
  return `${String(createdAt).padStart(TIME_DIGITS, '0')}${tag}`
}

/** All ranks of tunnels that come at `from` or behind it are below this one. */
export function rankAbove({ createdAt, sequence, tag }: EndpointPlace): string {
  // An edge comes before all tunnels of the same millisecond.
  const last = sequence > 0 ? 'g' : `${tag}\0`
  return `${String(createdAt).padStart(TIME_DIGITS, '0')}${last}`
}

/** The id of the endpoint at a place; `placeOfId` reads it. */
export function endpointId({ createdAt, sequence, tag }: EndpointPlace): string {
  return `ep_${createdAt.toString(RADIX)}_${sequence.toString(RADIX)}_${tag}`
}

/** Undefined when it is not the id of an endpoint. */
export function placeOfId(id: string): EndpointPlace | undefined {
  const [, createdAt, sequence, tag] = FORM.exec(id) ?? []
  if (createdAt === undefined || sequence === undefined || tag === undefined) return undefined
  return { createdAt: Number.parseInt(createdAt, RADIX), sequence: Number.parseInt(sequence, RADIX), tag }
}

/** Negative when `a` comes first: newest first, and the greatest tag first within one edge. */
export function comparePlaces(a: EndpointPlace, b: EndpointPlace): number {
  return comparePositions(a, b) || (a.tag < b.tag ? 1 : a.tag > b.tag ? -1 : 0)
}

/** Compares for `sort`: newest first. */
export function comparePositions(a: Position, b: Position): number {
  return b.createdAt - a.createdAt || b.sequence - a.sequence
}

/** Kinds of the cluster board: sessions and tunnels in the order of their ids, and tunnels with a URL in that of endpoints. */
export const SESSIONS = 'session'
export const TUNNELS = 'tunnel'
export const ENDPOINTS = 'endpoint'

/** The kinds under which a session or a tunnel may stand. */
export const ENTRIES = { session: [SESSIONS], tunnel: [TUNNELS, ENDPOINTS] } as const

/** What this process publishes of a session or a tunnel to the others. */
function entriesOf(live: { readonly session: LiveSession } | { readonly tunnel: LiveTunnel }): readonly BoardEntry[] {
  if ('session' in live) {
    const { session } = live
    return [{ kind: SESSIONS, id: session.id, rank: session.id, body: JSON.stringify(session) }]
  }
  const { tunnel } = live
  const { id } = tunnel
  const body = JSON.stringify(tunnel)
  const entry = { kind: TUNNELS, id, rank: id, body }
  if (tunnel.publicUrl === '') return [entry]
  return [entry, { kind: ENDPOINTS, id, rank: endpointRank(placeOfTunnel(tunnel)), body }]
}

/** What `entriesOf` wrote, here or in another process. */
export function sessionOf({ body }: BoardEntry): LiveSession {
  return JSON.parse(body) as LiveSession
}

export function tunnelOf({ body }: BoardEntry): LiveTunnel {
  return JSON.parse(body) as LiveTunnel
}

interface LivePublisherParts {
  readonly board: ClusterBoard
  /** Id of this process. */
  readonly process: string
  readonly sources: LiveSources
  readonly log: StoreLog
}

/** How long changes are gathered before they are written: a thousand agents that come at once are a few writes. Milliseconds. */
const GATHER = 50
/** Changes of one write. */
const MOST = 1000

/**
 * Shows the other processes on the store what lives in this one. Only what changes is written: while nothing does, it
 * costs nothing. What could not be written is written with a later report of the process.
 */
export class LivePublisher {
  readonly #parts: LivePublisherParts
  /** Keys of what stands otherwise on the cluster board, or not at all. */
  #dirty = new Set<string>()
  /** Does the process have a report? Without one it can have no entries. */
  #reported = false
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  #failed = false
  #stopped = false

  constructor(parts: LivePublisherParts) {
    this.#parts = parts
    parts.sources.watch((what, id) => {
      this.#dirty.add(keyOf(what, id))
      this.#soon()
    })
  }

  /** The process has reported. When the store did not know it, nothing of it is on the cluster board. */
  reported({ known }: Reported): void {
    this.#reported = true
    if (!known) this.#everything()
    this.#failed = false
    this.#soon()
  }

  /** Takes everything of this process away. */
  async stop(): Promise<void> {
    const { board, process, log } = this.#parts
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#writing
    try {
      await board.clear(process)
    } catch (error) {
      log.warn({ err: error }, 'the other processes see the agents of this one until its last report is old')
    }
  }

  #everything(): void {
    const { sources } = this.#parts
    for (const { id } of sources.tunnelSessions()) this.#dirty.add(keyOf('session', id))
    for (const { id } of sources.tunnels()) this.#dirty.add(keyOf('tunnel', id))
  }

  #soon(): void {
    const idle = this.#timer === undefined && this.#writing === undefined
    if (!idle || this.#stopped || !this.#reported || this.#failed || this.#dirty.size === 0) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#writing = this.#write().finally(() => {
        this.#writing = undefined
        this.#soon()
      })
    }, GATHER).unref()
  }

  async #write(): Promise<void> {
    const { board, process, log } = this.#parts
    const keys = [...this.#dirty].slice(0, MOST)
    for (const key of keys) this.#dirty.delete(key)
    try {
      await board.publish(process, this.#change(new Set(keys)))
    } catch (error) {
      for (const key of keys) this.#dirty.add(key)
      this.#failed = true
      log.warn({ err: error }, 'the other processes cannot be told of the agents of this one; trying again')
    }
  }

  /** What is there now of what has changed, and what is there no more. */
  #change(keys: ReadonlySet<string>): BoardChange {
    const { sources } = this.#parts
    const put: BoardEntry[] = []
    for (const session of sources.tunnelSessions()) {
      if (keys.has(keyOf('session', session.id))) put.push(...entriesOf({ session }))
    }
    for (const tunnel of sources.tunnels()) {
      if (keys.has(keyOf('tunnel', tunnel.id))) put.push(...entriesOf({ tunnel }))
    }
    const there = new Set(put.map(({ kind, id }) => `${kind} ${id}`))
    const drop = [...keys].flatMap((key) => {
      const [what, id] = key.split(' ') as ['session' | 'tunnel', string]
      return ENTRIES[what].filter((kind) => !there.has(`${kind} ${id}`)).map((kind) => ({ kind, id }))
    })
    return { put, drop }
  }
}

function keyOf(what: 'session' | 'tunnel', id: string): string {
  return `${what} ${id}`
}
