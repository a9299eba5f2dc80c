import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ConnectionFacts } from '../../flow/exchange.js'
import type { Clock } from '../../lib/clock.js'
import { type ByteCounts, SocketFacts } from '../connection-facts.js'
import type { Handler, Listening, ListenOptions, ServerTransport, SocketTransport } from '../contract.js'
import { Http2Protocol } from '../http2/connection.js'
import { PrefaceWatch } from '../http2/preface.js'
import { ClientListener, type Protocol, type Served, type ServingHost } from '../listener.js'
import { ClientConnection } from './client-connection.js'
import { DateLine, FieldNames, Serialiser } from './serialise.js'
import { READ_BYTES, type WireOwner } from './wire.js'

/** HTTP/1.x for clients, on raw sockets; HTTP/2 for those that choose it over TLS, or begin with it where there is none. */
export function codecServerTransport({ clock }: { clock: Clock }): SocketTransport {
  return {
    listen: (at, options, handler) => ClientListener.open(clock, at, options, handler, protocols),
    adopting: (address, options, handler) => ClientListener.unbound(clock, address, options, handler, protocols)
  }
}

function protocols(host: ServingHost): { http1: Protocol; h2: Protocol } {
  const h2 = new Http2Protocol(host)
  return { http1: new CodecProtocol(host, h2), h2 }
}

/** State shared by the connections of one listener. */
class CodecProtocol implements Protocol {
  readonly names = new FieldNames()
  readonly serialiser: Serialiser
  readonly shared = Buffer.allocUnsafeSlow(READ_BYTES)
  readonly #host: ServingHost
  readonly #http2: Http2Protocol

  constructor(host: ServingHost, http2: Http2Protocol) {
    this.#host = host
    this.#http2 = http2
    this.serialiser = new Serialiser(this.names, new DateLine(host.clock))
  }

  serve(facts: SocketFacts, socket: Socket): Served {
    const connection = new ClientConnection(this.#host, this, facts, socket)
    if (facts.tls === undefined) connection.wire.owner = new Opening(connection, facts, this.#http2)
    return connection
  }
}

/**
 * Reads the beginning of a connection without TLS in place of its connection, and is in the way of nothing behind it. The connection gets
 * all bytes until they are those of HTTP/2, so that its deadlines hold.
 */
class Opening implements WireOwner {
  readonly #watch = new PrefaceWatch()
  readonly #connection: ClientConnection
  readonly #facts: SocketFacts
  readonly #http2: Http2Protocol

  constructor(connection: ClientConnection, facts: SocketFacts, http2: Http2Protocol) {
    this.#connection = connection
    this.#facts = facts
    this.#http2 = http2
  }

  received(chunk: Buffer, length: number): void {
    const connection = this.#connection
    const { wire } = connection
    const version = this.#watch.read(chunk, length)
    if (version === 'http1') wire.owner = connection
    if (version !== 'http2') {
      connection.received(chunk, length)
      return
    }
    const since = connection.handOver()
    const { before } = this.#watch
    if (since !== undefined) this.#http2.goOn(connection, wire, { facts: this.#facts, since, before, chunk, length })
  }

  drained(): void {
    this.#connection.drained()
  }

  wireEnded(): void {
    this.#connection.wireEnded()
  }

  wireClosed(): void {
    this.#connection.wireClosed()
  }
}

/** A byte pipe with what this engine asks of a socket besides. */
interface SocketLike extends Duplex, ByteCounts {
  /** Ends our direction, and everything once that is done. */
  destroySoon(): void
}

/**
 * HTTP/1.x, and HTTP/2 by prior knowledge, for the clients of byte pipes that were accepted elsewhere, such as the streams of a tunnel. It has one
 * listener, and that binds nothing: `at` is the address that policies see.
 */
export class PipeTransport implements ServerTransport {
  readonly #clock: Clock
  #listener: ClientListener | undefined
  #handler: Handler | undefined
  #name = ''
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async listen(
    at: { fd: number } | { host: string; port: number },
    options: ListenOptions,
    handler: Handler
  ): Promise<Listening> {
    const address = 'host' in at ? at : { host: '', port: 0 }
    this.#name = options.name
    this.#handler = handler
    this.#listener = ClientListener.unbound(this.#clock, address, options, handler, protocols)
    return this.#listener
  }

  /** Serves HTTP to a client at `peer`; nothing has been read from the pipe. */
  serve(pipe: SocketLike, peer: ConnectionFacts['peer']): void {
    if (this.#listener === undefined) pipe.destroy()
    else this.#listener.take(asSocket(pipe), peer)
  }

  /** May the client at `peer` send bytes that are no HTTP? When not, the pipe is destroyed. */
  admits(pipe: SocketLike, peer: ConnectionFacts['peer']): boolean {
    const handler = this.#handler
    // The listener counts its connections upwards.
    const facts = new SocketFacts(--this.#count, this.#name, asSocket(pipe), this.#clock.wall())
    facts.peer = peer
    if (handler?.connection(facts) !== true) {
      pipe.destroy()
      return false
    }
    pipe.once('close', () => handler.closed?.(facts))
    return true
  }
}

/** The engine uses only the members of `SocketLike` of a socket, unless it is a real one. */
function asSocket(pipe: SocketLike): Socket {
  return pipe as unknown as Socket
}
