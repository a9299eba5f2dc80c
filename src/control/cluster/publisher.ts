import { createHash } from 'node:crypto'
import type { BoardChange, BoardEntry, ClusterBoard, Reported } from '../../store/board.js'
import type { Position, StoreLog } from '../../store/store.js'
import type { LiveSession, LiveSources, LiveTunnel } from './live-sources.js'

/**
 * Position of an endpoint in the list: by its edge or tunnel, and then a hash of its address. The id encodes exactly that,
 * so that an endpoint is found without an index, and the id of a deleted endpoint remains a valid cursor.
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

/** Returns the rank of a position of tunnels; greater ranks are listed first. */
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

/** Parses the id of an endpoint; undefined if invalid. */
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
/** Kind of tunnels on the cluster board. */
export const TUNNELS = 'tunnel'
/** Kind of tunnels with a URL, in the order of endpoints. */
export const ENDPOINTS = 'endpoint'

/** Kinds of the entries of a session or a tunnel. */
export const ENTRIES = { session: [SESSIONS], tunnel: [TUNNELS, ENDPOINTS] } as const

/** Returns the entries that this process publishes for a session or a tunnel. */
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

/** Parses an entry of `entriesOf` by any process. */
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

/** Time for which changes are batched before they are written: a thousand simultaneous agents cause few writes (ms). */
const GATHER = 50
/** Changes of one write. */
const MOST = 1000

/**
 * Publishes this process's live entries to the other processes on the store. Only changes are written. Failed writes are
 * repeated with a later report.
 */
export class LivePublisher {
  readonly #parts: LivePublisherParts
  /** Keys of entries whose state on the cluster board is outdated. */
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

  /** Handles the process's report. If the store did not know the process, all entries must be written again. */
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

  /** Returns the current entries of the changed keys, and the deleted ones. */
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
