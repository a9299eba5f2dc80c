import { isDeepStrictEqual } from 'node:util'
import { isInternal } from '../exchange/pinned.js'
import { codeOf } from '../lib/coded-error.js'
import type { HostPort, ListenerUnit, TcpEdgeUnit, Unit } from '../plan/plan.js'
import type { BoundPorts, PortProblem, Ports } from '../snapshot/ports.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { asKind } from '../snapshot/unit-change.js'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface Drained {
  readonly ended: number
  readonly cut: number
}

/** A listening socket. */
export interface OpenPort {
  readonly address: Address
  /** Connections are served from now on. */
  accept(): void
  /** No new connections from now on; those that are open have `deadline` milliseconds. Never rejects. */
  drain(deadline: number): Promise<Drained>
}

/** A listening socket of TCP edges. */
export interface OpenTcpPort extends OpenPort {
  /** Serves `edge` from now on. Connections of another edge drain. */
  hand(edge: string, at: HostPort): void
}

export interface PortsParts {
  /** Both bind and reject with the system's error. */
  readonly openHttp: (unit: ListenerUnit) => Promise<OpenPort>
  readonly openTcp: (edge: string, at: HostPort, address: Address) => Promise<OpenTcpPort>
  /** Where the ports of TCP edges listen. */
  readonly tcpHost: string
  /** What the process itself listens on, now or soon: no TCP edge gets it. */
  readonly reserved: readonly Address[]
  /** How long connections of a socket that goes may last. Milliseconds. */
  readonly drain: number
  readonly log: { error(fields: object, message: string): void }
}

interface OpenListener {
  readonly unit: ListenerUnit
  readonly port: OpenPort
}

interface OpenEdgePort {
  /** Id of the edge. */
  readonly edge: string
  readonly port: OpenTcpPort
}

/** What a change means for the ports of TCP edges. */
interface EdgeChanges {
  /** Edge's id → what it asks for after the change; nothing for one that is gone. */
  readonly asked: ReadonlyMap<string, readonly HostPort[]>
  readonly gone: ReadonlySet<number>
}

/** One step that is prepared; `undo` only for what is bound. */
interface Step {
  commit(): void
  undo?(): void
}

/**
 * What this process listens on: HTTP listeners, and each port of a TCP edge. A socket that a change does not concern is not
 * touched. One that goes takes no further connection; those it has drain.
 */
export class ProcessPorts implements Ports {
  readonly #parts: PortsParts
  readonly #listeners = new Map<string, OpenListener>()
  readonly #edgePorts = new Map<number, OpenEdgePort>()
  readonly #draining = new Set<Promise<unknown>>()

  constructor(parts: PortsParts) {
    this.#parts = parts
  }

  /** The address of an HTTP listener, by the key of its unit. */
  listener(key: string): Address | undefined {
    return this.#listeners.get(key)?.port.address
  }

  async bind(running: Snapshot, next: Snapshot): Promise<BoundPorts> {
    const steps: Step[] = []
    const failed: PortProblem[] = []
    const edges: { before: TcpEdgeUnit | undefined; after: TcpEdgeUnit | undefined }[] = []
    for (const { key, before, after } of next.plan.units.since(running.plan.units)) {
      await this.#listener(key, asKind(before, 'listener'), asKind(after, 'listener'), steps, failed)
      if (isEdge(before) || isEdge(after)) {
        edges.push({ before: asKind(before, 'tcp_edge'), after: asKind(after, 'tcp_edge') })
      }
    }
    if (edges.length > 0) await this.#edges(edges, steps, failed)
    return {
      failed,
      commit: () => {
        for (const step of steps) step.commit()
      },
      abandon: () => {
        for (const step of steps) step.undo?.()
      }
    }
  }

  /** Ends everything: nothing is accepted any more, connections have `deadline` milliseconds. */
  async drain(deadline: number): Promise<Drained> {
    const open = [...this.#listeners.values(), ...this.#edgePorts.values()]
    this.#listeners.clear()
    this.#edgePorts.clear()
    const drained = await Promise.all(open.map(({ port }) => port.drain(deadline)))
    await Promise.all(this.#draining)
    return {
      ended: drained.reduce((sum, { ended }) => sum + ended, 0),
      cut: drained.reduce((sum, { cut }) => sum + cut, 0)
    }
  }

  async #listener(
    key: string,
    before: ListenerUnit | undefined,
    after: ListenerUnit | undefined,
    steps: Step[],
    failed: PortProblem[]
  ): Promise<void> {
    const open = this.#listeners.get(key)
    if (after === undefined) {
      if (before !== undefined && open !== undefined) steps.push({ commit: () => this.#close(key, open) })
      return
    }
    if (open !== undefined && isDeepStrictEqual(open.unit, after)) return
    if (open !== undefined && open.unit.host === after.host && open.unit.port === after.port) {
      steps.push({ commit: () => this.#reopen(key, open, after) })
      return
    }
    try {
      const port = await this.#parts.openHttp(after)
      steps.push({
        commit: () => {
          if (open !== undefined) this.#close(key, open)
          this.#listeners.set(key, { unit: after, port })
          port.accept()
        },
        undo: () => this.#drop(port)
      })
    } catch (error) {
      failed.push({ unit: key, host: after.host, port: after.port, reason: reasonOf(error) })
    }
  }

  async #edges(
    changes: readonly { before: TcpEdgeUnit | undefined; after: TcpEdgeUnit | undefined }[],
    steps: Step[],
    failed: PortProblem[]
  ): Promise<void> {
    const { asked, gone } = this.#edgeChanges(changes)
    const taken = new Set<number>()
    for (const [edge, ports] of asked) {
      for (const at of ports) {
        if (this.#edgePorts.get(at.port)?.edge === edge || taken.has(at.port)) continue
        const problem = await this.#edgePort(edge, at, gone, steps)
        if (problem === undefined) taken.add(at.port)
        else failed.push({ unit: `tcp_edge:${edge}`, host: this.#parts.tcpHost, port: at.port, reason: problem })
      }
    }
    for (const port of gone) if (!taken.has(port)) steps.push({ commit: () => this.#closeEdgePort(port) })
  }

  /** One port for one edge; answers why it cannot have it. */
  async #edgePort(edge: string, at: HostPort, gone: ReadonlySet<number>, steps: Step[]): Promise<string | undefined> {
    const { port } = at
    const held = this.#edgePorts.get(port)
    if (held !== undefined) {
      if (!gone.has(port)) return IN_USE
      steps.push({
        commit: () => {
          this.#edgePorts.set(port, { edge, port: held.port })
          held.port.hand(edge, at)
        }
      })
      return undefined
    }
    const address = { host: this.#parts.tcpHost, port }
    if (this.#parts.reserved.some((other) => overlap(other, address))) return IN_USE
    try {
      const opened = await this.#parts.openTcp(edge, at, address)
      steps.push({
        commit: () => {
          this.#edgePorts.set(port, { edge, port: opened })
          opened.accept()
        },
        undo: () => this.#drop(opened)
      })
      return undefined
    } catch (error) {
      return reasonOf(error)
    }
  }

  #edgeChanges(changes: readonly { before: TcpEdgeUnit | undefined; after: TcpEdgeUnit | undefined }[]): EdgeChanges {
    const asked = new Map<string, readonly HostPort[]>()
    const gone = new Set<number>()
    for (const { before, after } of changes) {
      if (after !== undefined) asked.set(after.id, openPorts(after))
      for (const { port } of before === undefined ? [] : openPorts(before)) {
        const stays = after !== undefined && openPorts(after).some((at) => at.port === port)
        if (!stays && this.#edgePorts.get(port)?.edge === before?.id) gone.add(port)
      }
    }
    return { asked, gone }
  }

  #close(key: string, open: OpenListener): void {
    if (this.#listeners.get(key) === open) this.#listeners.delete(key)
    this.#drains(open.port)
  }

  #closeEdgePort(number: number): void {
    const open = this.#edgePorts.get(number)
    this.#edgePorts.delete(number)
    if (open !== undefined) this.#drains(open.port)
  }

  /** The address stays and what happens there is another: the socket is bound anew, because TLS is settled when it is bound. */
  #reopen(key: string, open: OpenListener, unit: ListenerUnit): void {
    const { openHttp, log } = this.#parts
    this.#close(key, open)
    const { port } = open.port.address
    const opening = openHttp({ ...unit, port }).then(
      (opened) => {
        this.#listeners.set(key, { unit, port: opened })
        opened.accept()
      },
      (error: unknown) => log.error({ err: error, listener: unit.name }, 'a listener could not be opened again')
    )
    this.#follow(opening)
  }

  #drains(port: OpenPort): void {
    this.#follow(port.drain(this.#parts.drain))
  }

  #drop(port: OpenPort): void {
    this.#follow(port.drain(0))
  }

  #follow(work: Promise<unknown>): void {
    const followed = work.finally(() => this.#draining.delete(followed))
    this.#draining.add(followed)
  }
}

const IN_USE = 'EADDRINUSE'
const EVERYWHERE: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

function isEdge(unit: Unit | undefined): boolean {
  return unit?.kind === 'tcp_edge'
}

/**
 * The ports that an edge opens: not those of internal names, which only policies lead to. Names of one edge may share a port,
 * because bytes do not tell which name was meant.
 */
function openPorts(edge: TcpEdgeUnit): readonly HostPort[] {
  const ports = edge.ports.filter(({ host }) => !isInternal(host))
  return ports.filter(({ port }, index) => ports.findIndex((other) => other.port === port) === index)
}

function overlap(a: Address, b: Address): boolean {
  return a.port === b.port && (a.host === b.host || EVERYWHERE.has(a.host) || EVERYWHERE.has(b.host))
}

function reasonOf(error: unknown): string {
  return codeOf(error) ?? 'UNKNOWN'
}
