import type { Clock } from '../../lib/clock.js'
import type { BoardEntry, ClusterBoard, Published } from '../../store/board.js'
import type { Store, StoreLog } from '../../store/store.js'
import { ControlError, controlErrors } from '../errors.js'
import type { LiveSession, LiveSources, LiveTunnel, SessionCommand } from './live-sources.js'
import type { ProcessReports } from './membership.js'
import {
  ENDPOINTS,
  type EndpointPlace,
  LivePublisher,
  rankAbove,
  SESSIONS,
  sessionOf,
  TUNNELS,
  tunnelOf
} from './publisher.js'
import { ProcessCalls } from './remote-calls.js'

export interface ClusterAgentsParts {
  readonly store: Store
  readonly reports: ProcessReports
  /** Agents of this process. */
  readonly sources: LiveSources
  readonly clock: Clock
  readonly log: StoreLog
}

/** A page of a list, newest first. */
export interface LivePage {
  readonly limit: number
  /** Only entries older than this id. */
  readonly before?: string | undefined
}

type Labels = Readonly<Record<string, string>>

/** A command from one process to an agent of another one. */
interface CommandCall {
  readonly session: string
  readonly command: SessionCommand
}

/** Result: done, no such session, or the reason why the agent does not execute it. */
type CommandAnswer = 'done' | 'gone' | { readonly refused: string }

const PAGE = 500

/**
 * The agents of all processes on the store: those of this process from its memory, the others' from the cluster board. A
 * single process calls no other one.
 */
export class ClusterAgents {
  readonly #parts: ClusterAgentsParts
  readonly #board: ClusterBoard | undefined
  readonly #publisher: LivePublisher | undefined
  readonly #calls: ProcessCalls | undefined

  constructor(parts: ClusterAgentsParts) {
    const { store, reports, sources, clock, log } = parts
    this.#parts = parts
    if (!reports.shared) return
    const { board } = store
    const { id: process } = reports
    this.#board = board
    const publisher = new LivePublisher({ board, process, sources, log })
    const calls = new ProcessCalls({ board, process, clock, log, serve: (body) => this.#serve(body) })
    reports.watch((answer) => {
      publisher.reported(answer)
      calls.reported(answer)
    })
    this.#publisher = publisher
    this.#calls = calls
  }

  async sessions(page: LivePage): Promise<LiveSession[]> {
    return await this.#page(SESSIONS, sessionOf, this.#parts.sources.tunnelSessions(), page)
  }

  async tunnels(page: LivePage): Promise<LiveTunnel[]> {
    return await this.#page(TUNNELS, tunnelOf, this.#parts.sources.tunnels(), page)
  }

  async session(id: string): Promise<LiveSession | undefined> {
    return await this.#one(SESSIONS, sessionOf, this.#parts.sources.tunnelSessions(), id)
  }

  async tunnel(id: string): Promise<LiveTunnel | undefined> {
    return await this.#one(TUNNELS, tunnelOf, this.#parts.sources.tunnels(), id)
  }

  /** Ids of the tunnel group backends that select a tunnel with these labels. */
  backendsOf(labels: Labels): readonly string[] {
    return this.#parts.sources.backendsOf(labels)
  }

  /** Tunnels of other processes that have a URL, in the order of their endpoints, from `from` on. */
  async *othersEndpoints(from: EndpointPlace | undefined): AsyncGenerator<LiveTunnel> {
    for await (const entry of this.#others(ENDPOINTS, from === undefined ? undefined : rankAbove(from))) {
      yield tunnelOf(entry)
    }
  }

  /** Ids of the tunnels that carry all of the labels, for each of `groups`, by its id. */
  async selectedBy(
    groups: readonly { readonly id: string; readonly labels: Labels }[]
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    const selected = new Map<string, Set<string>>(groups.map(({ id }) => [id, new Set()]))
    const look = ({ id, labels }: LiveTunnel) => {
      for (const group of groups) if (carries(labels, group.labels)) selected.get(group.id)?.add(id)
    }
    for (const tunnel of this.#parts.sources.tunnels()) look(tunnel)
    for await (const entry of this.#others(TUNNELS, undefined)) look(tunnelOf(entry))
    return new Map([...selected].map(([id, ids]) => [id, [...ids]]))
  }

  /**
   * Sends a command to an agent, if necessary through its process; returns false if there is no such session. Fails with
   * `UNAVAILABLE` if the agent does not execute it, or its process does not respond.
   */
  async command(session: string, command: SessionCommand): Promise<boolean> {
    if (await this.#parts.sources.command(session, command)) return true
    const entries = (await this.#board?.get(SESSIONS, session, this.#published)) ?? []
    for (const { process } of entries) {
      const answer = (await this.#calls?.ask(process, callText({ session, command }))) ?? '"gone"'
      const outcome = JSON.parse(answer) as CommandAnswer
      if (outcome === 'done') return true
      if (outcome !== 'gone') throw new ControlError(controlErrors.UNAVAILABLE, outcome.refused)
    }
    return false
  }

  /** Waits for running calls of other processes, and removes the agents of this process from the cluster board. */
  async stop(): Promise<void> {
    await this.#calls?.stop()
    await this.#publisher?.stop()
  }

  get #published(): Published {
    return { except: this.#parts.reports.hidden }
  }

  async #serve(body: string): Promise<string> {
    const { session, command } = JSON.parse(body) as CommandCall
    return JSON.stringify(await this.#obey(session, command))
  }

  async #obey(session: string, command: SessionCommand): Promise<CommandAnswer> {
    try {
      return (await this.#parts.sources.command(session, command)) ? 'done' : 'gone'
    } catch (error) {
      if (error instanceof ControlError && error.code === 'UNAVAILABLE') return { refused: error.message }
      throw error
    }
  }

  /** Entries of other processes below a rank, read in pieces of `size`. */
  async *#others(kind: string, rank: string | undefined, size = PAGE): AsyncGenerator<BoardEntry> {
    let below = rank
    while (this.#board !== undefined) {
      const page = await this.#board.list(kind, { limit: size, below }, this.#published)
      yield* page
      if (page.length < size) return
      below = page.at(-1)?.rank
    }
  }

  async #page<T extends Started>(
    kind: string,
    read: (entry: BoardEntry) => T,
    own: Iterable<T>,
    { limit, before }: LivePage
  ): Promise<T[]> {
    const found = new Map<string, T>()
    for await (const entry of this.#others(kind, before, limit)) {
      keepLatest(found, read(entry))
      if (found.size >= limit) break
    }
    for (const one of own) if (before === undefined || one.id < before) keepLatest(found, one)
    return [...found.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit)
  }

  async #one<T extends Started>(
    kind: string,
    read: (entry: BoardEntry) => T,
    own: Iterable<T>,
    id: string
  ): Promise<T | undefined> {
    const found = new Map<string, T>()
    for (const one of own) if (one.id === id) return one
    for (const entry of (await this.#board?.get(kind, id, this.#published)) ?? []) keepLatest(found, read(entry))
    return found.get(id)
  }
}

interface Started {
  readonly id: string
  readonly startedAt: number
}

/** Keeps the latest entry: an agent that moves to another process may be listed by both for a moment. */
function keepLatest<T extends Started>(found: Map<string, T>, one: T): void {
  const known = found.get(one.id)
  if (known === undefined || known.startedAt <= one.startedAt) found.set(one.id, one)
}

function callText(call: CommandCall): string {
  return JSON.stringify(call)
}

function carries(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value)
}
