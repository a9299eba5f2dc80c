import { createServer, type Server, type Socket } from 'node:net'
import type { ConnectionFacts } from '../flow/exchange.js'
import type { Crowding } from '../lib/client-limits.js'
import type { Clock } from '../lib/clock.js'
import { type DeadlineOwner, DeadlineTimer } from '../lib/deadline-timer.js'
import { Arrival, Carried } from './arrivals.js'
import { bind, EarlySockets } from './bind.js'
import { SocketFacts } from './connection-facts.js'
import type {
  AdoptingListener,
  Handler,
  HandshakeDetail,
  HandshakeFailure,
  ListenLimits,
  ListenOptions,
  Place,
  SharedPortHandler,
  TlsPassthrough
} from './contract.js'
import type { PipeHost } from './join.js'
import { ignore, keepAlive } from './pipes.js'
import { ListenerPlaces, turnAway } from './places.js'
import { readProxyHeader } from './proxy-protocol.js'
import { readFirstByte, SharedTable } from './tls/client-hello.js'
import { terminateOrPass } from './tls/terminate.js'

/** Time for a joined pipe to end after its FIN at the end of a drain (ms). */
const PIPE_GRACE = 1000
/**
 * Time for which an idle connection of a draining listener is still read, so that a request sent before its client noticed is answered (ms;
 * RFC 9112 9.6). At most half of the drain time, which leaves the other half for the response.
 */
const LAST_REQUEST = 1000

/** An HTTP connection, as seen by its listener. */
export interface Served extends DeadlineOwner {
  readonly facts: ConnectionFacts
  /** Makes the next response the last. A connection that stays idle for `grace` milliseconds is closed. */
  drain(grace: number): void
  /**
   * Ends the connection at the deadline: FIN for a joined pipe or an idle connection, an abort otherwise. Returns whether an exchange or
   * pipe was active.
   */
  cutOff(): boolean
  /** Sends RST after an ineffective FIN. */
  reset(): void
}

/** Services of the listener for a connection that it accepted. */
export interface ServingHost extends PipeHost {
  readonly clock: Clock
  readonly limits: ListenLimits
  readonly handler: Handler
  gone(connection: Served): void
  /** `by` takes over the connection. */
  replaced(connection: Served, by: Served): void
}

/** An HTTP protocol for connections. */
export interface Protocol {
  /** Takes over an unread socket; it may be paused, and bytes that were put back are its first ones. */
  serve(facts: SocketFacts, socket: Socket): Served
}

/** Protocols of a listener; `h2` serves connections that selected it by ALPN, and `http1` passes connections that begin as HTTP/2 to it. */
interface Protocols {
  readonly http1: Protocol
  readonly h2: Protocol
}

/** One listening address and its connections, from accepting through PROXY header and TLS handshake to the protocol. */
export class ClientListener implements AdoptingListener, ServingHost {
  readonly clock: Clock
  readonly limits: ListenLimits
  readonly handler: Handler
  readonly #options: ListenOptions
  readonly #server: Server
  readonly #deadlineTimer: DeadlineTimer
  readonly #protocols: Protocols
  /** Connections in their PROXY header or handshake. */
  readonly #arriving = new Set<Arrival>()
  readonly #connections = new Set<Served>()
  readonly #emptied: (() => void)[] = []
  readonly #limited: ListenerPlaces
  readonly #places = new Map<ConnectionFacts, Place>()
  /** Read time of idle connections, once the listener drains (ms). */
  #grace: number | undefined = undefined
  #count = 0
  /** Holds sockets until the listener is open; undefined if it is open immediately. */
  readonly #early: EarlySockets | undefined
  address: { readonly host: string; readonly port: number } = { host: '', port: 0 }

  private constructor(
    clock: Clock,
    options: ListenOptions,
    handler: Handler,
    protocols: (host: ServingHost) => Protocols
  ) {
    this.clock = clock
    this.limits = options.limits
    this.handler = handler
    this.#options = options
    this.#limited = ListenerPlaces.of(options)
    this.#deadlineTimer = new DeadlineTimer(clock, checkPeriod(options.limits))
    this.#protocols = protocols(this)
    if (options.opened !== undefined)
      this.#early = new EarlySockets(options.opened, this.limits, (socket) => this.#accept(socket))
    // Paused: the socket must not be read before it has an owner.
    this.#server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (socket) =>
      this.#accept(socket)
    )
  }

  /** Binds and listens. Rejects with the system's error. */
  static async open(
    clock: Clock,
    at: { fd: number } | { host: string; port: number },
    options: ListenOptions,
    handler: Handler,
    protocols: (host: ServingHost) => Protocols
  ): Promise<ClientListener> {
    const listener = new ClientListener(clock, options, handler, protocols)
    listener.address = await bind(listener.#server, at)
    return listener
  }

  /** Creates a listener without an address: connections are passed to `take` and `adopt`. */
  static unbound(
    clock: Clock,
    address: ClientListener['address'],
    options: ListenOptions,
    handler: Handler,
    protocols: (host: ServingHost) => Protocols
  ): ClientListener {
    const listener = new ClientListener(clock, options, handler, protocols)
    listener.address = address
    return listener
  }

  /** Serves an unread connection from `peer` that is not a socket, but counts bytes like one. */
  take(pipe: Socket, peer: ConnectionFacts['peer']): void {
    const facts = new SocketFacts(++this.#count, this.#options.name, pipe, this.clock.wall())
    facts.peer = peer
    facts.local = { address: this.address.host, port: this.address.port }
    this.#places.set(facts, this.#limited.beyond())
    this.#admit(facts, pipe)
  }

  adopt(socket: Socket, { id, startedAt }: { readonly id: number; readonly startedAt: number }, place: Place): void {
    this.#begin(new SocketFacts(id, this.#options.name, socket, startedAt), socket, place)
  }

  get deadlines(): DeadlineTimer {
    return this.#deadlineTimer
  }

  lasts(facts: ConnectionFacts): boolean | Promise<boolean> {
    const lasts = this.#places.get(facts)?.lasts() ?? true
    const report = (admitted: boolean): boolean => {
      if (!admitted) this.handler.turnedAway?.(facts, 'pipes')
      return admitted
    }
    return lasts instanceof Promise ? lasts.then(report) : report(lasts)
  }

  get open(): number {
    return this.#connections.size + this.#arriving.size
  }

  gone(connection: Served): void {
    this.#deadlineTimer.delete(connection)
    if (!this.#connections.delete(connection)) return
    this.handler.closed?.(connection.facts)
    this.#left(connection.facts)
  }

  replaced(connection: Served, by: Served): void {
    this.#deadlineTimer.delete(connection)
    this.#connections.delete(connection)
    this.#keep(by)
  }

  async drain(deadline: number): Promise<{ ended: number; cut: number }> {
    const grace = Math.min(LAST_REQUEST, deadline / 2)
    this.#grace = grace
    const total = this.open
    this.#server.close()
    if (total === 0) return { ended: 0, cut: 0 }
    const emptied = new Promise<void>((resolve) => {
      this.#emptied.push(resolve)
    })
    for (const connection of this.#connections) connection.drain(grace)
    let cut = 0
    let last: NodeJS.Timeout | undefined
    const timer = setTimeout(() => {
      cut = this.#arriving.size
      for (const arrival of this.#arriving) arrival.giveUp('client-gone')
      for (const connection of this.#connections) if (connection.cutOff()) cut++
      last = setTimeout(() => {
        for (const connection of this.#connections) connection.reset()
      }, PIPE_GRACE)
    }, deadline)
    await emptied
    clearTimeout(timer)
    clearTimeout(last)
    return { ended: total - cut, cut }
  }

  #accept(socket: Socket): void {
    keepAlive(socket, this.limits.tcpKeepAlive)
    if (this.#early?.holds(socket) === true) return
    const { name, tls, proxyProtocol } = this.#options
    const facts = new SocketFacts(++this.#count, name, socket, this.clock.wall())
    const place = this.#limited.enter()
    if (typeof place !== 'string') this.#begin(facts, socket, place)
    else {
      const plain =
        (place === 'connections' || place === 'descriptors') && tls === undefined && proxyProtocol === undefined
      this.#turnAway(facts, socket, place, plain)
    }
  }

  #begin(facts: SocketFacts, socket: Socket, place: Place): void {
    const { proxyProtocol } = this.#options
    this.#places.set(facts, place)
    if (proxyProtocol === undefined) {
      this.#admit(facts, socket)
      return
    }
    const trusted = proxyProtocol.trusted(facts.peer.address)
    const arrival = this.#arrives()
    arrival.giveUp = readProxyHeader(socket, { trusted }, (result) => {
      this.#arrived(arrival)
      if (result.kind === 'failed') {
        this.handler.handshakeFailed?.(facts, result.why)
        this.#left(facts)
        return
      }
      if (result.kind === 'proxied') facts.relocate(result.peer, result.local)
      this.#admit(facts, socket)
    })
  }

  #turnAway(facts: SocketFacts, socket: Socket, why: Crowding, plain: boolean): void {
    turnAway(socket, plain)
    if (why === 'handshakes' || why === 'address-handshakes') this.handler.handshakeFailed?.(facts, 'overloaded')
    else this.handler.refused(facts, 503, 'overloaded')
    this.handler.turnedAway?.(facts, why)
  }

  /** Counts the connection for its address, possibly asynchronously. */
  #admit(facts: SocketFacts, socket: Socket): void {
    const full = this.#places.get(facts)?.of(facts.peer.address)
    if (!(full instanceof Promise)) {
      this.#admitted(facts, socket, full)
      return
    }
    const arrival = this.#arrives()
    arrival.giveUp = () => socket.destroy()
    socket.on('error', ignore)
    void full.then((why) => {
      this.#arrived(arrival)
      if (!socket.destroyed) this.#admitted(facts, socket, why)
      else {
        this.handler.handshakeFailed?.(facts, 'client-gone')
        this.#left(facts)
      }
    })
  }

  #admitted(facts: SocketFacts, socket: Socket, full: Crowding | undefined): void {
    const { tls, beside } = this.#options
    if (full !== undefined) {
      this.#turnAway(facts, socket, full, full === 'address-connections' && tls === undefined)
      this.#left(facts)
    } else if (!this.handler.connection(facts)) {
      socket.on('error', ignore)
      socket.destroy()
      this.#left(facts)
    } else if (tls === undefined) this.#serve(this.#protocols.http1, facts, socket)
    else {
      const arrival = this.#arrives()
      const shared = beside && new SharedTable(tls, beside)
      const answerOther = beside?.answerOther?.bind(beside)
      arrival.giveUp = terminateOrPass(socket, { table: shared ?? tls, local: facts.local, answerOther }, (result) => {
        if (result.kind === 'secure' && shared?.undecided === true) {
          facts.tls = result.tls
          this.#distinguish(shared.handler, arrival, facts, result.secure)
          return
        }
        this.#arrived(arrival)
        if (result.kind === 'failed') this.#failed(facts, result.why, result.detail)
        else if (result.kind === 'passed') this.#pass(facts, socket, result.by)
        else {
          facts.tls = result.tls
          const { h2, http1 } = this.#protocols
          this.#serve(result.tls.alpn === 'h2' ? h2 : http1, facts, result.secure)
        }
      })
    }
  }

  /** Selects the protocol by the first byte; until then the connection counts as arriving. */
  #distinguish(handler: SharedPortHandler, arrival: Arrival, facts: SocketFacts, secure: Socket): void {
    arrival.giveUp = readFirstByte(secure, (first) => {
      this.#arrived(arrival)
      if (typeof first === 'string') this.#failed(facts, first)
      else if (!handler.begins(first)) this.#serve(this.#protocols.http1, facts, secure)
      else {
        this.handler.closed?.(facts)
        // An agent remains counted as a connection of its address.
        const leave = this.#places.get(facts)?.handedOn()
        this.#places.delete(facts)
        if (leave !== undefined) secure.once('close', leave)
        this.#left(facts)
        handler.accept(secure, facts)
      }
    })
  }

  #arrives(): Arrival {
    const arrival = new Arrival(this.clock.monotonic(), this.limits.headTimeout)
    this.#arriving.add(arrival)
    this.#deadlineTimer.add(arrival)
    return arrival
  }

  #arrived(arrival: Arrival): void {
    this.#arriving.delete(arrival)
    this.#deadlineTimer.delete(arrival)
  }

  #failed(facts: ConnectionFacts, why: HandshakeFailure, detail?: HandshakeDetail): void {
    this.handler.handshakeFailed?.(facts, why, detail)
    this.handler.closed?.(facts)
    this.#left(facts)
  }

  #serve(protocol: Protocol, facts: SocketFacts, socket: Socket): void {
    this.#places.get(facts)?.shaken()
    this.#keep(protocol.serve(facts, socket))
  }

  /** Passes TLS through: the connection keeps its place like a pipe, and a drain waits for it. */
  #pass(facts: SocketFacts, socket: Socket, by: TlsPassthrough): void {
    const lasts = this.lasts(facts)
    if (!(lasts instanceof Promise)) {
      this.#passed(facts, socket, by, lasts)
      return
    }
    const arrival = this.#arrives()
    arrival.giveUp = () => socket.destroy()
    socket.on('error', ignore)
    void lasts.then((admitted) => {
      this.#arrived(arrival)
      this.#passed(facts, socket, by, admitted)
    })
  }

  #passed(facts: SocketFacts, socket: Socket, by: TlsPassthrough, admitted: boolean): void {
    if (!admitted || socket.destroyed) {
      socket.on('error', ignore)
      socket.destroy()
      this.#failed(facts, admitted ? 'client-gone' : 'overloaded')
      return
    }
    this.#places.get(facts)?.shaken()
    // From now on, its edge counts the connection.
    this.handler.closed?.(facts)
    const carried = new Carried(facts, by.carry(socket, facts))
    this.#connections.add(carried)
    void carried.ended.then(() => {
      this.#connections.delete(carried)
      this.#left(facts)
    })
  }

  #keep(connection: Served): void {
    this.#connections.add(connection)
    this.#deadlineTimer.add(connection)
    if (this.#grace !== undefined) connection.drain(this.#grace)
  }

  #left(facts: ConnectionFacts): void {
    this.#places.get(facts)?.left()
    this.#places.delete(facts)
    if (this.open === 0) for (const resolve of this.#emptied.splice(0)) resolve()
  }
}

/** Returns a check interval that suits the shortest timeout at little cost. */
function checkPeriod(limits: ListenLimits): number {
  const set = [limits.headTimeout, limits.bodyIdle, limits.keepAlive].filter((time) => time > 0)
  return Math.max(10, Math.min(250, ...set.map((time) => time / 4)))
}
