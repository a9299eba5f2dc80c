import type { Socket } from 'node:net'
import type { Clock } from '../../lib/clock.js'
import type { SocketFacts } from '../connection-facts.js'
import type { Front } from '../contract.js'
import { Http2Protocol } from '../http2/http2-protocol.js'
import { ClientListener, type Protocol, type Served, type ServingHost } from '../listener.js'
import { ClientConnection } from './client-connection.js'
import { FieldNames } from './names.js'
import { DateLine, Serialiser } from './serialise.js'
import { READ_BYTES } from './wire.js'

/** HTTP/1.x for clients, on raw sockets; HTTP/2 for those that choose it over TLS. */
export function codecFront({ clock }: { clock: Clock }): Front {
  return {
    listen: (at, options, handler) =>
      ClientListener.open(clock, at, options, handler, (host) => ({
        http1: new CodecProtocol(host),
        h2: new Http2Protocol(host)
      }))
  }
}

/** What the connections of one listener share. */
export class CodecProtocol implements Protocol {
  readonly names = new FieldNames()
  readonly serialiser: Serialiser
  readonly shared = Buffer.allocUnsafeSlow(READ_BYTES)
  readonly #host: ServingHost

  constructor(host: ServingHost) {
    this.#host = host
    this.serialiser = new Serialiser(this.names, new DateLine(host.clock))
  }

  serve(facts: SocketFacts, socket: Socket): Served {
    return new ClientConnection(this.#host, this, facts, socket)
  }
}
