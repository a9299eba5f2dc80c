import {
  createServer as createHttpServer,
  type Server as HttpServer,
  type IncomingMessage,
  ServerResponse
} from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import type { Failure } from '../../exchange/connection.js'
import type { Clock } from '../../lib/clock.js'
import { bind } from '../bind.js'
import { SocketFacts } from '../connection-facts.js'
import type { Handler, Listening, ListenLimits, ListenOptions } from '../contract.js'
import { ignore } from '../copy.js'
import { Sweeper } from '../sweeper.js'
import { Handshakes } from '../tls-accept.js'
import { ClientConnection, type ConnectionHost } from './client-connection.js'

/** How long a joined pipe may take to end after its FIN at the end of a drain. */
const PIPE_GRACE = 1000
const OVERLOADED = 'HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'
const OVERLOAD: { status: number; why: Failure } = { status: 503, why: 'overloaded' }

/** One listening address and its connections. */
export class HttpListener implements Listening, ConnectionHost {
  readonly clock: Clock
  readonly limits: ListenLimits
  readonly handler: Handler
  readonly #name: string
  readonly #server: Server
  readonly #http: HttpServer
  readonly #sweeper: Sweeper
  readonly #handshakes: Handshakes | undefined
  readonly #connections = new Map<Socket, ClientConnection>()
  #draining = false
  #count = 0
  #emptied: (() => void)[] = []
  address: { readonly host: string; readonly port: number } = { host: '', port: 0 }

  private constructor(clock: Clock, options: ListenOptions, handler: Handler) {
    this.clock = clock
    this.limits = options.limits
    this.handler = handler
    this.#name = options.name
    this.#handshakes = options.tls && new Handshakes(options.tls, options.limits.headTimeout)
    this.#sweeper = new Sweeper(clock, sweepPeriod(options.limits))
    this.#http = this.#parser()
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(socket))
  }

  static async open(
    clock: Clock,
    at: { fd: number } | { host: string; port: number },
    options: ListenOptions,
    handler: Handler
  ): Promise<HttpListener> {
    const listener = new HttpListener(clock, options, handler)
    listener.address = await bind(listener.#server, at)
    return listener
  }

  get open(): number {
    return this.#connections.size + (this.#handshakes?.size ?? 0)
  }

  gone(connection: ClientConnection): void {
    this.#sweeper.delete(connection)
    if (!this.#connections.delete(connection.socket)) return
    this.handler.closed?.(connection.facts)
    this.#left()
  }

  async drain(deadline: number): Promise<{ ended: number; cut: number }> {
    this.#draining = true
    const total = this.open
    this.#server.close()
    if (total === 0) return { ended: 0, cut: 0 }
    const emptied = new Promise<void>((resolve) => {
      this.#emptied.push(resolve)
    })
    for (const connection of this.#connections.values()) connection.drain()
    let cut = 0
    let last: NodeJS.Timeout | undefined
    const timer = setTimeout(() => {
      cut = this.open
      this.#handshakes?.cut()
      for (const connection of this.#connections.values()) connection.cutOff()
      last = setTimeout(() => {
        for (const connection of this.#connections.values()) connection.reset()
      }, PIPE_GRACE)
    }, deadline)
    await emptied
    clearTimeout(timer)
    clearTimeout(last)
    return { ended: total - cut, cut }
  }

  /** node:http's server without an address: it only parses. */
  #parser(): HttpServer {
    const { headerBytes, targetBytes } = this.limits
    const http = createHttpServer({
      // The scanner holds the real limits; the parser must never be the first to find one.
      maxHeaderSize: headerBytes + targetBytes + 4096,
      requireHostHeader: false,
      keepAliveTimeout: 0,
      headersTimeout: 0,
      requestTimeout: 0
    })
    http.maxHeadersCount = 0
    http.timeout = 0
    const begin = (message: IncomingMessage, response: ServerResponse): void => {
      this.#connections.get(message.socket)?.begin(message, response)
    }
    http.on('request', begin)
    http.on('checkContinue', begin)
    http.on('checkExpectation', begin)
    http.on('connect', (message: IncomingMessage, socket: Socket) => begin(message, responseFor(message, socket)))
    http.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      this.#connections.get(socket as Socket)?.failed(error.code)
    })
    return http
  }

  #accept(socket: Socket): void {
    const facts = new SocketFacts(++this.#count, this.#name, socket, this.clock.wall())
    if (this.open >= this.limits.connections && this.limits.connections > 0) {
      socket.on('error', ignore)
      // Before a handshake there is no way to say it.
      if (this.#handshakes === undefined) socket.end(OVERLOADED, () => socket.destroy())
      else socket.destroy()
      this.handler.refused(facts, OVERLOAD.status, OVERLOAD.why)
      return
    }
    if (!this.handler.connection(facts)) {
      socket.on('error', ignore)
      socket.destroy()
      return
    }
    if (this.#handshakes === undefined) this.#serve(facts, socket, 'http')
    else {
      this.#handshakes.begin(
        socket,
        (secure, tls) => {
          facts.tls = tls
          this.#serve(facts, secure, 'https')
        },
        () => {
          this.handler.closed?.(facts)
          this.#left()
        }
      )
    }
  }

  #serve(facts: SocketFacts, socket: Socket, scheme: 'http' | 'https'): void {
    const connection = new ClientConnection(this, facts, socket, scheme, () => this.#http.emit('connection', socket))
    this.#connections.set(socket, connection)
    this.#sweeper.add(connection)
    if (this.#draining) connection.drain()
  }

  #left(): void {
    if (this.open === 0) for (const resolve of this.#emptied.splice(0)) resolve()
  }
}

/** node:http leaves a CONNECT to its listener without a response object; the answer ends the connection. */
function responseFor(message: IncomingMessage, socket: Socket): ServerResponse {
  const response = new ServerResponse(message)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  socket.on('drain', () => response.emit('drain'))
  response.on('finish', () => {
    response.detachSocket(socket)
    socket.destroySoon()
  })
  return response
}

/** Often enough for the shortest time-out, seldom enough to cost nothing. */
function sweepPeriod(limits: ListenLimits): number {
  const set = [limits.headTimeout, limits.bodyIdle, limits.keepAlive].filter((time) => time > 0)
  return Math.max(10, Math.min(500, ...set.map((time) => time / 4)))
}
