import { createServer, type Server, type Socket } from 'node:net'
import type { EntryFacts } from '../flow/flow.js'
import { AddressCounts, type Crowding, type TurnedAway } from '../lib/client-limits.js'
import { DeadlineTimer } from '../lib/deadline-timer.js'
import { unmapIpv4 } from '../lib/ip.js'
import type { HostPort } from '../runtime/plan.js'
import { SocketFacts } from '../transport/connection-facts.js'
import { bind } from '../transport/listener.js'
import { ignore } from '../transport/pipes.js'
import { readProxyHeader } from '../transport/proxy-protocol.js'
import type { ClientAddress } from './client-address.js'
import type { Address, Drained, OpenTcpPort } from './ports.js'
import { TcpConnection, type TcpConnectionParts } from './tcp-connection.js'

export interface TcpListenerParts extends TcpConnectionParts {
  readonly forwarding: ClientAddress
  /** Do trusted peers say in a PROXY header whom they speak for? */
  readonly proxyProtocol: boolean
  /** Most connections of one listener at a time, and of one address; 0: no limit. Trusted peers are exempt. */
  readonly limits: { readonly connections: number; readonly connectionsPerAddress?: number }
  readonly turnedAway: TurnedAway
  readonly region: string
}

/** How long a joined pipe may take to end after its FIN at the end of a drain. */
const PIPE_GRACE = 1_000

/**
 * A listening socket of a TCP edge and its connections. Until `accept` connections wait unread. Which edge serves here may
 * change; a connection keeps the one that it came to.
 */
export class TcpListener implements OpenTcpPort {
  readonly address: Address
  readonly #server: Server
  readonly #parts: TcpListenerParts
  readonly #deadlineTimer: DeadlineTimer
  readonly #connections = new Set<TcpConnection>()
  /** At their PROXY header. */
  readonly #arriving = new Set<Socket>()
  readonly #ofAddress: AddressCounts
  /** Those that came before `accept`. */
  #early: Socket[] | undefined = []
  #edge: string
  #entry: EntryFacts
  #count = 0

  private constructor(edge: string, at: HostPort, address: Address, server: Server, parts: TcpListenerParts) {
    this.address = address
    this.#server = server
    this.#parts = parts
    this.#edge = edge
    this.#entry = entryOf(edge, at, parts.region)
    this.#deadlineTimer = new DeadlineTimer(parts.clock, checkPeriod(parts.timeouts.idle))
    const trusted = (peer: string) => parts.forwarding.isTrusted(unmapIpv4(peer))
    this.#ofAddress = new AddressCounts(() => parts.limits.connectionsPerAddress ?? 0, trusted)
  }

  /** Binds. Rejects with the system's error. */
  static async open(edge: string, at: HostPort, address: Address, parts: TcpListenerParts): Promise<TcpListener> {
    const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true })
    // Connections may come in the same turn as the bind's answer.
    let listener: TcpListener | undefined
    const before: Socket[] = []
    server.on('connection', (socket) => {
      if (listener === undefined) before.push(socket)
      else listener.#arrive(socket)
    })
    listener = new TcpListener(edge, at, await bind(server, address), server, parts)
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
    this.#entry = entryOf(edge, at, this.#parts.region)
    void this.#end([...this.#connections], this.#parts.timeouts.drain)
  }

  async drain(deadline: number): Promise<Drained> {
    this.#server.close()
    for (const socket of [...(this.#early ?? []), ...this.#arriving]) socket.destroy()
    this.#early = undefined
    return await this.#end([...this.#connections], deadline)
  }

  /** Gives connections time to end, then a FIN, then a reset. */
  async #end(connections: readonly TcpConnection[], deadline: number): Promise<Drained> {
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

  #arrive(socket: Socket): void {
    if (this.#early !== undefined) {
      socket.on('error', ignore)
      this.#early.push(socket)
      return
    }
    const { limits, clock, metrics, forwarding, proxyProtocol, timeouts } = this.#parts
    const facts = new SocketFacts(++this.#count, this.#entry.id, socket, clock.wall())
    if (this.#connections.size + this.#arriving.size >= limits.connections) {
      this.#turnAway(socket, facts, 'connections')
    } else if (proxyProtocol && forwarding.isTrusted(unmapIpv4(facts.peer.address))) {
      this.#arriving.add(socket)
      const giveUp = readProxyHeader(socket, { trusted: true }, (result) => {
        clearTimeout(timer)
        this.#arriving.delete(socket)
        if (result.kind === 'failed') {
          metrics.handshakeFailed(result.why)
          return
        }
        if (result.kind === 'proxied') facts.relocate(result.peer, result.local)
        this.#serve(socket, facts)
      })
      const timer = timeouts.headers > 0 ? setTimeout(() => giveUp('timeout'), timeouts.headers) : undefined
    } else this.#serve(socket, facts)
  }

  #turnAway(socket: Socket, { peer }: SocketFacts, why: Crowding): void {
    const { metrics, turnedAway } = this.#parts
    socket.on('error', ignore)
    socket.destroy()
    metrics.malformed(503, 'overloaded')
    turnedAway.report(this.#entry.id, why, unmapIpv4(peer.address))
  }

  #serve(socket: Socket, facts: SocketFacts): void {
    const leave = this.#ofAddress.enter(facts.peer.address)
    if (leave === undefined) {
      this.#turnAway(socket, facts, 'address-connections')
      return
    }
    const connection = new TcpConnection(socket, facts, this.#edge, this.#entry, this.#deadlineTimer, this.#parts)
    this.#connections.add(connection)
    void connection.ended.then(() => {
      leave()
      this.#connections.delete(connection)
    })
  }
}

function entryOf(edge: string, { host, port }: HostPort, region: string): EntryFacts {
  return { id: edge, protocol: 'tcp', host, port, region }
}

/** Often enough for the idle time-out, seldom enough to cost nothing. */
function checkPeriod(idle: number): number {
  return idle > 0 ? Math.max(10, Math.min(1_000, idle / 4)) : 1_000
}
