import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { SocketFacts } from '../connection-facts.js'
import type { Protocol, Served, ServingHost } from '../listener.js'
import { Http2Connection } from './http2-connection.js'

/** HTTP/2 for clients that chose it in their handshake. */
export class Http2Protocol implements Protocol {
  readonly #host: ServingHost

  constructor(host: ServingHost) {
    this.#host = host
  }

  serve(facts: SocketFacts, socket: Socket): Served {
    return new Http2Connection(this.#host, facts, socket as TLSSocket)
  }
}
