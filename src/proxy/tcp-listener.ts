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
  /** Serves new connections for `edge`; drains those of another edge. */
  hand(edge: string, at: HostPort): void
  /** Drains open connections within `deadline` milliseconds. Never rejects. */
  drain(deadline: number): Promise<Drained>
}

/** Connections of one TCP edge port. The edge of the port may change; a connection keeps the one it started with. */
export class TcpConnections implements TcpServing {
  readonly #parts: TcpListenerParts
  readonly #deadlineTimer: DeadlineTimer
  readonly #connections = new Set<TcpConnection>()
  /** Connections that wait for their PROXY header or for a place of their address. */
  readonly #arriving = new Set<Socket>()
  #edge: string
  #entry: EntryFacts
  /** Deadline of connections that arrive after the start of a drain (ms). */
  #deadline: number | undefined

  constructor(edge: string, at: HostPort, parts: TcpListenerParts) {
    this.#parts = parts
    this.#edge = edge
    this.#entry = entryOf(edge, at, parts.region)
    this.#deadlineTimer = new DeadlineTimer(
      parts.clock,
      checkPeriod(shorterLimit(parts.timeouts.idle, parts.timeouts.half_closed))
    )
  }

  adopt(socket: Socket, { id, startedAt }: { readonly id: number; readonly startedAt: number }, place: Place): void {
    const { metrics, forwarding, proxyProtocol, timeouts } = this.#parts
    const facts = new SocketFacts(id, this.#entry.id, socket, startedAt)
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

  hand(edge: string, at: HostPort): void {
    this.#edge = edge
    this.#entry = entryOf(edge, at, this.#parts.region)
    void endConnections([...this.#connections], this.#parts.timeouts.drain)
  }

  async drain(deadline: number): Promise<Drained> {
    this.#deadline = deadline
    for (const socket of this.#arriving) socket.destroy()
    return await endConnections([...this.#connections], deadline)
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
    turnAwayFromEdge(socket, { edge: this.#entry.id, peer: facts.peer.address }, full, this.#parts)
  }

  #serve(socket: Socket, facts: SocketFacts, place: Place): void {
    const entrance = { edge: this.#edge, entry: this.#entry, deadlineTimer: this.#deadlineTimer }
    const connection = new TcpConnection(socket, facts, entrance, this.#parts)
    this.#connections.add(connection)
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
  #edge: string
  #count = 0

  private constructor(edge: string, serving: TcpServing, address: Address, server: Server, parts: TcpAcceptingParts) {
    this.address = address
    this.#server = server
    this.#serving = serving
    this.#parts = parts
    this.#edge = edge
    const exempt = (peer: string) => parts.forwarding.isTrusted(canonicalAddress(peer))
    const filled = (full: boolean) => parts.turnedAway.filled(this.#edge, full)
    this.#places = ListenerPlaces.of({ limits: parts.limits, exempt, filled })
  }

  /** Binds. Rejects with the system's error. */
  static async open(
    edge: string,
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
    listener = new TcpListener(edge, serving, await bind(server, address), server, parts)
    for (const socket of before) listener.#arrive(socket)
    return listener
  }

  accept(): void {
    const early = this.#early ?? []
    this.#early = undefined
    for (const socket of early) this.#arrive(socket)
  }

  hand(edge: string, at: HostPort): void {
    this.#edge = edge
    this.#serving.hand(edge, at)
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
    if (typeof place === 'string') turnAwayFromEdge(socket, { edge: this.#edge, peer }, place, this.#parts)
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
