import { createServer, type Server, type Socket } from 'node:net'
import type { EntryFacts } from '../flow/flow.js'
import type { Crowding, TurnedAway } from '../lib/client-limits.js'
import { DeadlineTimer } from '../lib/deadline-timer.js'
import { canonicalAddress } from '../lib/ip.js'
import type { HostPort } from '../runtime/plan.js'
import { bind } from '../transport/bind.js'
import { SocketFacts } from '../transport/connection-facts.js'
import type { CarriedConnection, ListenLimits, Place } from '../transport/contract.js'
import { shorterLimit } from '../transport/join.js'
import { ignore, keepAlive } from '../transport/pipes.js'
import { ListenerPlaces } from '../transport/places.js'
import { readProxyHeader } from '../transport/proxy-protocol.js'
import type { ClientAddress } from './client-address.js'
import { isPool } from './port-changes.js'
import type { Address, Drained, OpenTcpPort } from './ports.js'
import { TcpConnection, type TcpConnectionParts } from './tcp-connection.js'

export interface TcpListenerParts extends TcpConnectionParts {
  readonly forwarding: ClientAddress
  /** Trusted peers send a PROXY header. */
  readonly proxyProtocol: boolean
  /** Maximum connections of one listener and of one address; 0: no limit. Trusted peers are exempt. */
  readonly limits: ListenLimits
  readonly turnedAway: TurnedAway
  readonly region: string
}

/** Grace period of a joined pipe after the FIN of a drain (ms). */
const PIPE_GRACE = 1_000

/** Gives connections `deadline` milliseconds to close, then sends FIN, then a reset. */
export async function endConnections(connections: readonly CarriedConnection[], deadline: number): Promise<Drained> {
  const total = connections.length
  if (total === 0) return { ended: 0, cut: 0 }
  const running = new Set(connections)
  const all = Promise.all(connections.map((one) => one.ended.then(() => running.delete(one))))
  let cut = 0
  let last: NodeJS.Timeout | undefined
  const timer = setTimeout(() => {
    cut = running.size
    for (const connection of running) connection.finish()
    last = setTimeout(() => {
      for (const connection of running) connection.reset()
    }, PIPE_GRACE)
  }, deadline)
  await all
  clearTimeout(timer)
  clearTimeout(last)
  return { ended: total - cut, cut }
}

/** Serves the connections of one TCP edge port, wherever they were accepted. */
export interface TcpServing {
  /** Serves an unread socket. `place`: its place in the limits of the accepting side. */
  adopt(socket: Socket, about: { readonly id: number; readonly startedAt: number }, place: Place): void
  /** Serves new connections for `owner`; drains those of another owner, and of edges that have left its pool. */
  hand(owner: string, at: HostPort): void
  /** Drains open connections within `deadline` milliseconds. Never rejects. */
  drain(deadline: number): Promise<Drained>
}

/**
 * Connections of one TCP edge port. The owner of the port, an edge or a pool of edges, may change; a connection keeps the edge it started
 * with.
 */
export class TcpConnections implements TcpServing {
  readonly #parts: TcpListenerParts
  readonly #deadlineTimer: DeadlineTimer
  /** Connections with their edges. */
  readonly #connections = new Map<TcpConnection, string>()
  /** Connections that wait for their PROXY header or for a place of their address. */
  readonly #arriving = new Set<Socket>()
  #owner: string
  #at: HostPort
  /** Deadline of connections that arrive after the start of a drain (ms). */
  #deadline: number | undefined

  constructor(owner: string, at: HostPort, parts: TcpListenerParts) {
    this.#parts = parts
    this.#owner = owner
    this.#at = at
    this.#deadlineTimer = new DeadlineTimer(
      parts.clock,
      checkPeriod(shorterLimit(parts.timeouts.idle, parts.timeouts.half_closed))
    )
  }

  adopt(socket: Socket, { id, startedAt }: { readonly id: number; readonly startedAt: number }, place: Place): void {
    const { metrics, forwarding, proxyProtocol, timeouts } = this.#parts
    const edge = this.#edge()
    const facts = new SocketFacts(id, edge, socket, startedAt)
    if (!proxyProtocol || !forwarding.isTrusted(canonicalAddress(facts.peer.address))) {
      this.#admit(socket, facts, place)
      return
    }
    this.#arriving.add(socket)
    const giveUp = readProxyHeader(socket, { trusted: true }, (result) => {
      clearTimeout(timer)
      this.#arriving.delete(socket)
      if (result.kind === 'failed') {
        place.left()
        metrics.handshakeFailed(result.why)
        return
      }
      if (result.kind === 'proxied') facts.relocate(result.peer, result.local)
      this.#admit(socket, facts, place)
    })
    const timer = timeouts.headers > 0 ? setTimeout(() => giveUp('timeout'), timeouts.headers) : undefined
  }

  hand(owner: string, at: HostPort): void {
    const isSame = owner === this.#owner
    this.#owner = owner
    this.#at = at
    const { holder, timeouts } = this.#parts
    const members = isSame ? holder.current().tables.tcpEdges.sharing(at) : []
    const left = [...this.#connections].filter(([, edge]) => !members.some(({ id }) => id === edge))
    void endConnections(
      left.map(([connection]) => connection),
      timeouts.drain
    )
  }

  /** Returns the edge of a new connection. */
  #edge(): string {
    if (!isPool(this.#owner)) return this.#owner
    const { host, port } = this.#at
    return this.#parts.holder.current().tables.tcpEdges.at(host, port)?.id ?? this.#owner
  }

  async drain(deadline: number): Promise<Drained> {
    this.#deadline = deadline
    for (const socket of this.#arriving) socket.destroy()
    return await endConnections([...this.#connections.keys()], deadline)
  }

  /** Takes a place for the address, possibly asynchronously. */
  #admit(socket: Socket, facts: SocketFacts, place: Place): void {
    const full = place.of(facts.peer.address)
    if (!(full instanceof Promise)) {
      this.#admitted(socket, facts, place, full)
      return
    }
    this.#arriving.add(socket)
    socket.on('error', ignore)
    void full.then((why) => {
      this.#arriving.delete(socket)
      if (socket.destroyed) place.left()
      else this.#admitted(socket, facts, place, why)
    })
  }

  #admitted(socket: Socket, facts: SocketFacts, place: Place, full: Crowding | undefined): void {
    if (full === undefined) {
      this.#serve(socket, facts, place)
      return
    }
    place.left()
    turnAwayFromEdge(socket, { edge: facts.listener, peer: facts.peer.address }, full, this.#parts)
  }

  #serve(socket: Socket, facts: SocketFacts, place: Place): void {
    const edge = isPool(this.#owner) ? facts.listener : this.#owner
    const entrance = { edge, entry: entryOf(edge, this.#at, this.#parts.region), deadlineTimer: this.#deadlineTimer }
    const connection = new TcpConnection(socket, facts, entrance, this.#parts)
    this.#connections.set(connection, edge)
    void connection.ended.then(() => {
      place.left()
      this.#connections.delete(connection)
    })
    if (this.#deadline !== undefined) void endConnections([connection], this.#deadline)
  }
}

/** Dependencies for accepting connections of TCP edges. */
export interface TcpAcceptingParts
  extends Pick<TcpListenerParts, 'clock' | 'metrics' | 'forwarding' | 'limits' | 'turnedAway'> {}

/** Listening socket of TCP edges. Connections wait unread until `accept`. */
export class TcpListener implements OpenTcpPort {
  readonly address: Address
  readonly #server: Server
  readonly #serving: TcpServing
  readonly #parts: TcpAcceptingParts
  readonly #places: ListenerPlaces
  /** Connections accepted before `accept`. */
  #early: Socket[] | undefined = []
  #owner: string
  #count = 0

  private constructor(owner: string, serving: TcpServing, address: Address, server: Server, parts: TcpAcceptingParts) {
    this.address = address
    this.#server = server
    this.#serving = serving
    this.#parts = parts
    this.#owner = owner
    const exempt = (peer: string) => parts.forwarding.isTrusted(canonicalAddress(peer))
    const filled = (full: boolean) => parts.turnedAway.filled(this.#owner, full)
    this.#places = ListenerPlaces.of({ limits: parts.limits, exempt, filled })
  }

  /** Binds. Rejects with the system's error. */
  static async open(
    owner: string,
    serving: TcpServing,
    address: Address,
    parts: TcpAcceptingParts
  ): Promise<TcpListener> {
    const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true })
    // Connections may arrive in the same turn as the result of the bind.
    let listener: TcpListener | undefined
    const before: Socket[] = []
    server.on('connection', (socket) => {
      if (listener === undefined) before.push(socket)
      else listener.#arrive(socket)
    })
    listener = new TcpListener(owner, serving, await bind(server, address), server, parts)
    for (const socket of before) listener.#arrive(socket)
    return listener
  }

  accept(): void {
    const early = this.#early ?? []
    this.#early = undefined
    for (const socket of early) this.#arrive(socket)
  }

  hand(owner: string, at: HostPort): void {
    this.#owner = owner
    this.#serving.hand(owner, at)
  }

  async drain(deadline: number): Promise<Drained> {
    this.#server.close()
    for (const socket of this.#early ?? []) socket.destroy()
    this.#early = undefined
    return await this.#serving.drain(deadline)
  }

  #arrive(socket: Socket): void {
    if (this.#early !== undefined) {
      socket.on('error', ignore)
      this.#early.push(socket)
      return
    }
    keepAlive(socket, this.#parts.limits.tcpKeepAlive)
    const id = ++this.#count
    const place = this.#places.enter()
    const peer = socket.remoteAddress ?? ''
    if (typeof place === 'string') turnAwayFromEdge(socket, { edge: this.#owner, peer }, place, this.#parts)
    else this.#serving.adopt(socket, { id, startedAt: this.#parts.clock.wall() }, place)
  }
}

/** Closes a connection without a place and counts it. */
export function turnAwayFromEdge(
  socket: Socket,
  { edge, peer }: { readonly edge: string; readonly peer: string },
  why: Crowding,
  { metrics, turnedAway }: Pick<TcpAcceptingParts, 'metrics' | 'turnedAway'>
): void {
  socket.on('error', ignore)
  socket.destroy()
  metrics.malformed(503, 'overloaded')
  turnedAway.report(edge, why, canonicalAddress(peer))
}

function entryOf(edge: string, { host, port }: HostPort, region: string): EntryFacts {
  return { id: edge, protocol: 'tcp', host, port, region }
}

/** Returns the check interval: precise enough for the idle timeout and cheap (ms). */
export function checkPeriod(idle: number): number {
  return idle > 0 ? Math.max(10, Math.min(1_000, idle / 4)) : 1_000
}
