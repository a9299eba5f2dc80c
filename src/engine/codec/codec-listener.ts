import { createServer, type Server, type Socket } from 'node:net'
import type { ConnectionFacts } from '../../exchange/connection.js'
import type { Clock } from '../../lib/clock.js'
import { bind } from '../bind.js'
import { SocketFacts } from '../connection-facts.js'
import type { Handler, Listening, ListenLimits, ListenOptions } from '../contract.js'
import { ignore } from '../copy.js'
import { Sweeper } from '../sweeper.js'
import { Handshakes } from '../tls-accept.js'
import { ClientConnection, type ConnectionHost } from './client-connection.js'
import { FieldNames } from './names.js'
import { bareAnswer, DateLine, Serialiser } from './serialise.js'
import { READ_BYTES } from './wire.js'

/** How long a joined pipe may take to end after its FIN at the end of a drain. */
const PIPE_GRACE = 1000

/** One listening address and its connections. */
export class CodecListener implements Listening, ConnectionHost {
  readonly clock: Clock
  readonly limits: ListenLimits
  readonly handler: Handler
  readonly names = new FieldNames()
  readonly serialiser: Serialiser
  readonly shared = Buffer.allocUnsafeSlow(READ_BYTES)
  readonly #name: string
  readonly #server: Server
  readonly #sweeper: Sweeper
  readonly #handshakes: Handshakes | undefined
  readonly #connections = new Set<ClientConnection>()
  #draining = false
  #count = 0
  #emptied: (() => void) | undefined = undefined
  address: { readonly host: string; readonly port: number } = { host: '', port: 0 }

  private constructor(clock: Clock, options: ListenOptions, handler: Handler) {
    this.clock = clock
    this.limits = options.limits
    this.handler = handler
    this.#name = options.name
    this.serialiser = new Serialiser(this.names, new DateLine(clock))
    this.#sweeper = new Sweeper(clock, sweepPeriod(options.limits))
    this.#handshakes = options.tls && new Handshakes(options.tls, options.limits.headTimeout)
    // Paused: the socket is not read before it has its owner. A handshake is one at once.
    const pauseOnConnect = options.tls === undefined
    this.#server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect }, (socket) =>
      this.#accept(socket)
    )
  }

  /** Binds and listens. Rejects with the system's error. */
  static async open(
    clock: Clock,
    at: { fd: number } | { host: string; port: number },
    options: ListenOptions,
    handler: Handler
  ): Promise<CodecListener> {
    const listener = new CodecListener(clock, options, handler)
    listener.address = await bind(listener.#server, at)
    return listener
  }

  get open(): number {
    return this.#connections.size + (this.#handshakes?.size ?? 0)
  }

  gone(connection: ClientConnection): void {
    this.#sweeper.delete(connection)
    if (!this.#connections.delete(connection)) return
    this.#left(connection.facts)
  }

  async drain(deadline: number): Promise<{ ended: number; cut: number }> {
    this.#draining = true
    const total = this.open
    this.#server.close()
    if (total === 0) return { ended: 0, cut: 0 }
    const emptied = new Promise<void>((resolve) => {
      this.#emptied = resolve
    })
    for (const connection of this.#connections) connection.drain()
    let cut = 0
    let last: NodeJS.Timeout | undefined
    const timer = setTimeout(() => {
      cut = this.open
      this.#handshakes?.cut()
      for (const connection of this.#connections) connection.cutOff()
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
    const factsOf = (used: Socket) => new SocketFacts(++this.#count, this.#name, used, this.clock.wall())
    if (this.limits.connections > 0 && this.open >= this.limits.connections) {
      socket.on('error', ignore)
      // Before a handshake there is no way to say it.
      if (this.#handshakes === undefined) socket.end(bareAnswer(503), () => socket.destroy())
      else socket.destroy()
      this.handler.refused(factsOf(socket), 503, 'overloaded')
      return
    }
    if (this.#handshakes !== undefined) {
      this.#shakeHands(factsOf(socket), socket, this.#handshakes)
      return
    }
    const connection = new ClientConnection(this, socket, factsOf)
    if (this.handler.connection(connection.facts)) this.#serve(connection)
    else connection.wire.destroy()
  }

  #shakeHands(facts: SocketFacts, socket: Socket, handshakes: Handshakes): void {
    if (!this.handler.connection(facts)) {
      socket.on('error', ignore)
      socket.destroy()
      return
    }
    handshakes.begin(
      socket,
      (secure, tls) => {
        facts.tls = tls
        this.#serve(new ClientConnection(this, secure, () => facts))
      },
      () => this.#left(facts)
    )
  }

  #serve(connection: ClientConnection): void {
    this.#connections.add(connection)
    this.#sweeper.add(connection)
    if (this.#draining) connection.drain()
  }

  #left(facts: ConnectionFacts): void {
    this.handler.closed?.(facts)
    if (this.open === 0) this.#emptied?.()
  }
}

/** Often enough for the shortest time-out, seldom enough to cost nothing. */
function sweepPeriod(limits: ListenLimits): number {
  const set = [limits.headTimeout, limits.bodyIdle, limits.keepAlive].filter((time) => time > 0)
  return Math.max(10, Math.min(500, ...set.map((time) => time / 4)))
}
