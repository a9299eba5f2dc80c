import { isDeepStrictEqual } from 'node:util'
import { CodedError, codeOf } from '../lib/errors.js'
import { Slices } from '../lib/slices.js'
import type { HostPort, ListenerUnit, Unit } from '../runtime/plan.js'
import { asKind } from '../runtime/plan-changes.js'
import { type BoundPorts, type PortProblem, type Ports, portErrors } from '../runtime/ports.js'
import type { Snapshot } from '../runtime/snapshot.js'
import {
  type BoundSocket,
  type EdgeChange,
  edgePortChanges,
  edgePortKey,
  MissingPorts,
  type MissingPortsLog
} from './port-changes.js'

/** Listening address. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** Numbers of connections that closed during a drain and that were cut. */
export interface Drained {
  readonly ended: number
  readonly cut: number
}

/** Listening socket. */
export interface OpenPort {
  readonly address: Address
  /** Starts serving connections. */
  accept(): void
  /** Stops accepting; open connections have `deadline` milliseconds. Never rejects. */
  drain(deadline: number): Promise<Drained>
}

/** Listening socket of TCP edges. */
export interface OpenTcpPort extends OpenPort {
  /** Serves new connections for `owner`; drains those of another owner, and of edges that have left its pool. */
  hand(owner: string, at: HostPort): void
}

/** Dependencies and limits of ports. */
export interface PortsParts {
  /** Opens an HTTP port; like `openTcp` rejects with the system's error. */
  readonly openHttp: (unit: ListenerUnit) => Promise<OpenPort>
  readonly openTcp: (owner: string, at: HostPort, address: Address) => Promise<OpenTcpPort>
  /** Listening host of TCP edges. */
  readonly tcpHost: string
  /** Addresses of the process itself, now or soon, which TCP edges cannot use. */
  readonly reserved: readonly Address[]
  /** `drain`: time for connections of a closed socket (ms). */
  readonly timeouts: { readonly drain: number }
  readonly log: MissingPortsLog & { error(fields: object, message: string): void }
}

interface OpenListener {
  readonly unit: ListenerUnit
  readonly port: OpenPort
}

interface OpenEdgePort {
  /** Edge id, or the pool of the edges that share the port. */
  readonly owner: string
  readonly port: OpenTcpPort
}

/** Prepared step; `undo` exists only for a bound socket. */
interface Step {
  commit(): void
  undo?(): void
}

/**
 * Listening sockets of the process: HTTP listeners and the ports of TCP edges. A change leaves other sockets untouched. A removed socket
 * stops accepting and drains. A port that could not be bound in a committed change is retried.
 */
export class ProcessPorts implements Ports {
  readonly #parts: PortsParts
  readonly #listeners = new Map<string, OpenListener>()
  readonly #edgePorts = new Map<number, OpenEdgePort>()
  readonly #missing: MissingPorts
  readonly #draining = new Set<Promise<unknown>>()

  constructor(parts: PortsParts) {
    this.#parts = parts
    this.#missing = new MissingPorts(parts.log)
  }

  get missing(): readonly PortProblem[] {
    return this.#missing.problems
  }

  /** Returns the address of an HTTP listener by its unit's key. */
  listener(key: string): Address | undefined {
    return this.#listeners.get(key)?.port.address
  }

  async bind(running: Snapshot, next: Snapshot): Promise<BoundPorts> {
    const steps: Step[] = []
    const failed: PortProblem[] = []
    const edges: EdgeChange[] = []
    await this.#missing.hold()
    const slices = new Slices()
    for (const { key, before, after } of next.plan.units.since(running.plan.units)) {
      if (slices.due) await slices.rest()
      if (isListener(before) || isListener(after)) {
        await this.#listener(key, asKind(before, 'listener'), asKind(after, 'listener'), steps, failed)
      }
      if (isEdge(before) || isEdge(after)) {
        edges.push({ before: asKind(before, 'tcp_edge'), after: asKind(after, 'tcp_edge') })
      }
    }
    if (edges.length > 0) await this.#edges(edges, next, steps, failed)
    return {
      failed,
      commit: () => {
        for (const step of steps) step.commit()
        this.#missing.release()
      },
      abandon: () => {
        for (const step of steps) step.undo?.()
        this.#missing.release()
      }
    }
  }

  /** Stops accepting and drains everything within `deadline` milliseconds. */
  async drain(deadline: number): Promise<Drained> {
    await this.#missing.stop()
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
      else if (before !== undefined) steps.push({ commit: () => this.#missing.delete(key) })
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
          this.#missing.delete(key)
          this.#listens(key, after, port)
        },
        undo: () => this.#drop(port)
      })
    } catch (error) {
      failed.push({ unit: key, host: after.host, port: after.port, reason: codeOf(error) ?? portErrors.UNKNOWN.code })
    }
  }

  async #edges(
    changes: readonly EdgeChange[],
    { tables }: Snapshot,
    steps: Step[],
    failed: PortProblem[]
  ): Promise<void> {
    const { asked, gone, forgotten, left } = edgePortChanges(changes, this.#edgePorts, tables.tcpEdges)
    const taken = new Set<number>()
    for (const { edge, owner, at } of asked) {
      if (this.#edgePorts.get(at.port)?.owner === owner || taken.has(at.port)) continue
      const reason = await this.#edgePort(owner, at, gone, steps)
      const key = edgePortKey(owner, at)
      if (reason === undefined) {
        taken.add(at.port)
        steps.push({ commit: () => this.#missing.delete(key) })
        continue
      }
      const problem = { unit: `tcp_edge:${edge}`, host: this.#parts.tcpHost, port: at.port, reason }
      // This change did not cause ports that were already missing.
      if (!this.#missing.has(key)) failed.push(problem)
      steps.push({ commit: () => this.#missing.set(key, { problem, bind: () => this.#bindEdgePort(owner, at) }) })
    }
    for (const { owner, at } of left) {
      steps.push({ commit: () => this.#edgePorts.get(at.port)?.port.hand(owner, at) })
    }
    for (const key of forgotten) steps.push({ commit: () => this.#missing.delete(key) })
    for (const port of gone) if (!taken.has(port)) steps.push({ commit: () => this.#closeEdgePort(port) })
  }

  /** Prepares one port of an edge; returns why it is unavailable. */
  async #edgePort(owner: string, at: HostPort, gone: ReadonlySet<number>, steps: Step[]): Promise<string | undefined> {
    const { port } = at
    const held = this.#edgePorts.get(port)
    if (held !== undefined) {
      if (!gone.has(port)) return IN_USE
      steps.push({
        commit: () => {
          this.#edgePorts.set(port, { owner, port: held.port })
          held.port.hand(owner, at)
        }
      })
      return undefined
    }
    try {
      const { serve, drop } = await this.#bindEdgePort(owner, at)
      steps.push({ commit: serve, undo: drop })
      return undefined
    } catch (error) {
      return codeOf(error) ?? portErrors.UNKNOWN.code
    }
  }

  async #bindEdgePort(owner: string, at: HostPort): Promise<BoundSocket> {
    const { tcpHost, reserved, openTcp } = this.#parts
    const address = { host: tcpHost, port: at.port }
    if (this.#edgePorts.has(at.port) || reserved.some((other) => overlap(other, address))) {
      throw new CodedError({ code: IN_USE }, `port ${at.port} is in use by this process`)
    }
    const port = await openTcp(owner, at, address)
    return {
      serve: () => {
        this.#edgePorts.set(at.port, { owner, port })
        port.accept()
      },
      drop: () => this.#drop(port)
    }
  }

  #listens(key: string, unit: ListenerUnit, port: OpenPort): void {
    this.#listeners.set(key, { unit, port })
    port.accept()
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

  /** Reopens a socket whose address is unchanged but whose TLS setting differs, because TLS is fixed when it is bound. */
  #reopen(key: string, open: OpenListener, unit: ListenerUnit): void {
    const { openHttp, log } = this.#parts
    this.#close(key, open)
    const { host } = unit
    const { port } = open.port.address
    const bind = async (): Promise<BoundSocket> => {
      const opened = await openHttp({ ...unit, port })
      return { serve: () => this.#listens(key, unit, opened), drop: () => this.#drop(opened) }
    }
    const opening = bind().then(
      (bound) => bound.serve(),
      (error: unknown) => {
        log.error({ err: error, listener: unit.name }, 'a listener could not be opened again')
        const reason = codeOf(error) ?? portErrors.UNKNOWN.code
        this.#missing.set(key, { problem: { unit: key, host, port, reason }, bind })
      }
    )
    this.#follow(opening)
  }

  #drains(port: OpenPort): void {
    this.#follow(port.drain(this.#parts.timeouts.drain))
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

function isListener(unit: Unit | undefined): boolean {
  return unit?.kind === 'listener'
}

function isEdge(unit: Unit | undefined): boolean {
  return unit?.kind === 'tcp_edge'
}

function overlap(a: Address, b: Address): boolean {
  return a.port === b.port && (a.host === b.host || EVERYWHERE.has(a.host) || EVERYWHERE.has(b.host))
}
