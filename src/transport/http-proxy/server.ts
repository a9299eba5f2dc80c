import {
  createServer as createHttpServer,
  type Server as HttpServer,
  type IncomingMessage,
  ServerResponse
} from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../../lib/clock.js'
import type { SocketFacts } from '../connection-facts.js'
import type { ListenLimits, SocketTransport } from '../contract.js'
import { Http2Protocol } from '../http2/connection.js'
import { ClientListener, type Protocol, type Served, type ServingHost } from '../listener.js'
import { ClientConnection } from './server-connection.js'

/** State shared by the connections of one listener: node:http's server without an address, used only for parsing. */
class HttpProtocol implements Protocol {
  readonly #host: ServingHost
  readonly #http2: Http2Protocol
  readonly #http: HttpServer
  readonly #connections = new WeakMap<Socket, ClientConnection>()

  constructor(host: ServingHost, http2: Http2Protocol) {
    this.#host = host
    this.#http2 = http2
    this.#http = this.#parser(host.limits)
  }

  serve(facts: SocketFacts, socket: Socket): Served {
    const connection = new ClientConnection(
      this.#host,
      facts,
      socket,
      () => this.#http.emit('connection', socket),
      this.#http2
    )
    this.#connections.set(socket, connection)
    socket.resume()
    return connection
  }

  #parser({ headerBytes, targetBytes }: ListenLimits): HttpServer {
    const http = createHttpServer({
      // The scanner enforces the real limits; the parser must never reach its own first.
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
}

/** node:http passes a CONNECT to its listener without a response object; the response closes the connection. */
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

/** HTTP/1.x server transport on node:http; HTTP/2 for clients that select it over TLS, or begin with it on plain connections. */
export function nodeServerTransport({ clock }: { clock: Clock }): SocketTransport {
  return {
    listen: (at, options, handler) => ClientListener.open(clock, at, options, handler, protocols),
    adopting: (address, options, handler) => ClientListener.unbound(clock, address, options, handler, protocols)
  }
}

function protocols(host: ServingHost): { http1: Protocol; h2: Protocol } {
  const h2 = new Http2Protocol(host)
  return { http1: new HttpProtocol(host, h2), h2 }
}
