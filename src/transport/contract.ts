import type { X509Certificate } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { SecureContext } from 'node:tls'
import type {
  AbortSignalLike,
  Body,
  BytePipe,
  ConnectionFacts,
  Exchange,
  Failure,
  Outgoing,
  RequestHead,
  ResponseHead
} from '../flow/exchange.js'
import type { Crowding } from '../lib/client-limits.js'
import type { Revoked } from '../lib/crl.js'
import type { DescriptorShares } from '../lib/descriptor-shares.js'
import type { SocketFacts } from './connection-facts.js'
import type { WindowBudget } from './http2/receive-window.js'

/**
 * The transport contract: a server transport makes exchanges, a client transport gets answers from an upstream, a dialer is an
 * ordered byte pipe to it. Any pair works; a foreign `Body` is claimed as a stream.
 */

/** Called by a server transport. `exchange` may answer at once or later; a rejected promise is answered 500 and counted. */
export interface Handler {
  /** Before the first byte is parsed or TLS begins; false closes. */
  connection(facts: ConnectionFacts): boolean
  exchange(exchange: Exchange): void | Promise<void>
  /** Answers of the server transport because no Exchange could be made (400, 408, 414, 431, 503) or `exchange` failed (500): for log and metrics. */
  refused(facts: ConnectionFacts, status: number, why: Failure): void
  /**
   * A connection ended before its first request could be read: no PROXY header where one is due, no TLS. Called before
   * `closed`, and without a `closed` when `connection` had not been asked yet.
   */
  handshakeFailed?(facts: ConnectionFacts, why: HandshakeFailure, detail?: HandshakeDetail): void
  /** A connection was closed because there are too many; called besides `refused` or `handshakeFailed` with 'overloaded'. */
  turnedAway?(facts: ConnectionFacts, why: Crowding): void
  /** A connection ended, for whatever reason; once for each one that `connection` let pass. */
  closed?(facts: ConnectionFacts): void
}

/** Why a connection got no further than its beginning. One closed set, fit to be a label of a metric. */
export type HandshakeFailure =
  | 'proxy-header-missing'
  | 'proxy-header-malformed'
  | 'proxy-header-refused'
  | 'not-tls'
  | 'unknown-name'
  | 'certificate-missing'
  | 'certificate-refused'
  | 'certificate-revoked'
  | 'handshake-failed'
  | 'timeout'
  | 'client-gone'
  | 'overloaded'

/** Facts of a handshake that failed, for a line of the log. */
export interface HandshakeDetail {
  /** Code of OpenSSL or of the check of a certificate, such as CERT_HAS_EXPIRED. */
  readonly reason?: string | undefined
  /** Words for why the certificate of the client is refused, and which one of its chain. */
  readonly cause?: string | undefined
  /** Name that the client asked for. */
  readonly sni?: string | undefined
}

/** Limits of connections of HTTP/2. */
interface Http2Limits {
  /** Streams of one session that may be open at once. Left out: 128. */
  readonly streams?: number
  /** By which receive windows of streams grow. Left out: they do not. */
  readonly windows?: WindowBudget
}

/** Bytes and milliseconds. 0 switches a time-out off. */
export interface ListenLimits extends Http2Limits {
  readonly headerBytes: number
  readonly headers: number
  readonly targetBytes: number
  readonly headTimeout: number
  /** Longest silence of a request whose answer has not begun, while its body is due. */
  readonly bodyIdle: number
  /** Longest silence in both directions of one whose answer has begun, and of gRPC. Left out: `bodyIdle`. */
  readonly streamIdle?: number
  readonly keepAlive: number
  /** Longest silence of a splice, or of an answer, of which one side has ended. Left out or 0: no limit. */
  readonly halfClosed?: number
  /** A client that ends its direction gets no answer. Left out: it does, where its request is whole. */
  readonly abortOnClose?: boolean
  /** Silence after which the system probes a connection (TCP keep-alive). Left out or 0: never. */
  readonly tcpKeepAlive?: number
  readonly connections: number
  /** Descriptors of the process, of which each connection takes one. Left out: they are not counted. */
  readonly descriptors?: DescriptorShares | undefined
  /** Connections of this listener that may be at their PROXY header or TLS handshake at once. Left out or 0: no limit. */
  readonly handshakes?: number
  /** The same of one IPv4 address, or one /64 of IPv6, behind a PROXY header of the address there. Left out or 0: no limit. */
  readonly connectionsPerAddress?: number
  readonly handshakesPerAddress?: number
}

/** What the first message of a TLS client says of whom it wants (RFC 8446 4.1.2). */
export interface ClientHello {
  /** Lower-case, without a final dot; undefined when the client named no server (RFC 6066 3). */
  readonly sni: string | undefined
  /** In the client's order of preference; empty when it offers nothing (RFC 7301). */
  readonly alpn: readonly string[]
}

/** Chooses what a TLS handshake gets. */
export interface TlsTable {
  /** Called once per handshake, synchronously. undefined: refused with the alert unrecognized_name. */
  entryFor(hello: ClientHello, local: ConnectionFacts['local']): TlsEntry | undefined
}

/** The table of a listener, some of whose names may be served by others. */
export interface ListenerTlsTable {
  /** As `TlsTable.entryFor`. A `TlsPassthrough`: TLS does not end here. */
  entryFor(hello: ClientHello, local: ConnectionFacts['local']): TlsEntry | TlsPassthrough | undefined
}

/** Carries connections of a TLS listener whose TLS ends behind this process. */
export interface TlsPassthrough {
  /** Takes over a socket whose bytes were put back, ClientHello first. `facts` are those of the accepted connection. */
  carry(socket: Socket, facts: SocketFacts): CarriedConnection
}

/** A connection that is carried as plain bytes. */
export interface CarriedConnection {
  /** Resolves once, when the connection is over. Never rejects. */
  readonly ended: Promise<void>
  /** FIN, once what was sent is on its way; before bytes flow, a reset. */
  finish(): void
  /** RST. */
  reset(): void
}

/** How TLS is spoken under one name. */
export interface TlsEntry {
  /** Certificate, versions, authorities, ticket keys: see `serverContext`. */
  readonly context: SecureContext
  /** DER of what the context shows; left out, it is read from each handshake, which costs a good part of it. */
  readonly certificate?: Uint8Array
  /** In our order of preference. A client that offers others only is refused (RFC 7301 3.2). */
  readonly alpn: readonly string[]
  /**
   * 'require': a handshake without a certificate that the authorities of the context verify fails. 'request': it
   * passes, and the facts say what came and whether it was verified. Left out: none is asked for.
   */
  readonly clientCertificates?: 'request' | 'require'
  /**
   * Finds out which of these certificates is revoked; called with what a client shows, leaf first. Its context makes no sessions to
   * resume, because only the leaf is kept in one.
   */
  readonly revoked?: (shown: readonly X509Certificate[]) => Revoked | undefined
}

/**
 * Another protocol on the address of a TLS listener. Its clients speak first, with a byte that begins no HTTP message, and name no
 * protocol in their handshake.
 */
export interface SharedPortHandler {
  /** What is shown to a client that may be one of its own; undefined: it is none. Called once per handshake, synchronously. */
  entryFor(hello: ClientHello): TlsEntry | undefined
  /** Do its connections begin with this byte? */
  begins(byte: number): boolean
  /** Takes a connection over, none of whose bytes are read. The listener knows it no longer. */
  accept(secure: Duplex, facts: ConnectionFacts): void
}

/** Whose PROXY headers count. */
interface ProxyProtocol {
  /** From a trusted peer the header is required; from others it is refused. Called once per connection. */
  trusted(address: string): boolean
}

/** How a listener treats its connections. */
export interface ListenOptions {
  readonly name: string
  readonly tls?: ListenerTlsTable
  readonly proxyProtocol?: ProxyProtocol
  /** Needs `tls`. */
  readonly beside?: SharedPortHandler
  /** Peers that the limits per address do not hold for, because they speak for many. Left out: none. */
  readonly exempt?: (address: string) => boolean
  readonly limits: ListenLimits
  /** Called when the last place of `limits.connections` is taken, and when some are free again. */
  readonly filled?: (full: boolean) => void
  /**
   * Connections that arrive before it resolves wait, as many as may be open; false closes them. A socket that a service manager holds
   * may have some before anything serves. Left out: none waits. Never rejects.
   */
  readonly opened?: Promise<boolean>
}

/** What a connection has of the limits of its listener. It is given back once, whatever is called how often. */
export interface Place {
  /**
   * Whose connection it is: takes the places of that address, among its connections and, where a handshake follows, among its handshakes.
   * Answers what is full; then the connection is closed. Called once, before `shaken`.
   */
  of(address: string): Crowding | undefined | Promise<Crowding | undefined>
  /** Its PROXY header and its handshake are over. */
  shaken(): void
  /** It becomes a pipe that may last for days: false when a tenth of the places would not be left for others. */
  lasts(): boolean | Promise<boolean>
  /** It has ended. */
  left(): void
  /** It is no connection of the listener any more, and counts as one of its address until the answer is called. */
  handedOn(): () => void
}

/** A bound listener. */
export interface Listening {
  readonly address: { readonly host: string; readonly port: number }
  /** Connections open now. */
  readonly open: number
  /**
   * No new connections; idle ones close when no request was under way to them, busy ones when done, all at `deadline`
   * (milliseconds from now).
   */
  drain(deadline: number): Promise<{ ended: number; cut: number }>
}

/** Makes exchanges of the bytes of clients. */
export interface ServerTransport {
  /** Binds here, or listens on a descriptor that this thread owns alone. Rejects with the system's error when it cannot. */
  listen(
    at: { fd: number } | { host: string; port: number },
    options: ListenOptions,
    handler: Handler
  ): Promise<Listening>
}

/** What serves connections that were accepted elsewhere, as though it had accepted them at `address`. */
export interface AdoptingListener extends Listening {
  /** Serves a socket that has not been read. `place`: among the limits, which the accepting side holds. */
  adopt(socket: Socket, about: { readonly id: number; readonly startedAt: number }, place: Place): void
}

/** A server transport of sockets. */
export interface SocketTransport extends ServerTransport {
  /** Binds nothing. */
  adopting(address: Listening['address'], options: ListenOptions, handler: Handler): AdoptingListener
}

/** Opens connections to one upstream: TCP, TLS, unix socket, tunnel. No HTTP inside. */
export interface Dialer {
  /** Pool key: same key, interchangeable connections. */
  readonly key: string
  readonly reusable: boolean
  /** HTTP/2 is spoken on the connection of the next request; left out: HTTP/1.1. Read for each request. */
  readonly http2?: boolean
  /** Answers of HTTP/1 may break the grammar as `LenientAnswer` has it; left out: they must keep to it. */
  readonly lenient?: boolean
  /** Answers requests itself, as a `ClientTransport` does, and opens nothing; left out: connections carry them. */
  readonly answers?: ClientTransport['forward']
  /**
   * Rejects with a `DialError`. `deadline` is milliseconds from now; `bytes`: what is spoken is not HTTP, whatever the client speaks;
   * `http2`: HTTP/2 is spoken on it.
   */
  open(why: {
    client: ConnectionFacts
    deadline: number
    signal: AbortSignalLike
    bytes?: boolean
    http2?: boolean
  }): Promise<BytePipe>
}

/** Why a dialer could not open a pipe. `message` is for the log, never for a client. */
export class DialError extends Error {
  readonly failure: Failure
  constructor(failure: Failure, message: string) {
    super(message)
    this.failure = failure
  }
}

/** One request to an upstream. */
export interface ForwardOptions {
  readonly head: RequestHead
  /** The exchange's own body costs nothing; bytes may be sent again, a stream may not. */
  readonly body: Outgoing
  /** Its head asks for another protocol than WebSocket, which the upstream may switch to once the request is complete. Left out: it does not. */
  readonly upgrade?: boolean
  /** Milliseconds. */
  readonly connectTimeout: number
  readonly responseTimeout: number
  readonly idleTimeout: number
  /** Called when a connection that was opened for this request stands, its TLS included. */
  readonly onConnected?: (() => void) | undefined
  onInform?(head: ResponseHead): void
}

/** What the upstream answered. `retry` says what the engine knows, the caller decides: 'safe' = no byte of the request left. */
export type Answer =
  | { readonly kind: 'response'; readonly head: ResponseHead; readonly body: Body; readonly reusedConnection: boolean }
  | { readonly kind: 'switched'; readonly head: ResponseHead; readonly pipe: BytePipe }
  | {
      readonly kind: 'failed'
      readonly failure: Failure
      readonly retry: 'safe' | 'idempotent-only' | 'never'
      readonly detail: string
    }

/** Stands between the key of an upstream and the number of its only user. */
const PRIVATE = '\0'

/** The key of connections to the upstream `key` that one user alone has. */
export function privateKey(key: string, user: number): string {
  return `${key}${PRIVATE}${user}`
}

/** The key of the upstream itself. */
export function sharedKey(key: string): string {
  const end = key.indexOf(PRIVATE)
  return end === -1 ? key : key.slice(0, end)
}

/** Keys of upstreams. */
export interface UpstreamKeys {
  has(key: string): boolean
}

/** Carries exchanges to upstreams and keeps the connections to them. */
export interface ClientTransport {
  /**
   * Calls `answered` once, after it has returned: every way to fail is an `Answer`. What came with the head of a response has been
   * read by then. `answered` must not throw.
   */
  forward(exchange: Exchange, dialer: Dialer, options: ForwardOptions, answered: (answer: Answer) => void): void
  /** Stop reusing upstream connections whose `sharedKey` is not in `keys`; those in use finish. */
  retainUpstreams(keys: UpstreamKeys): void
  /** No request follows on connections with this key: idle ones end, those in use finish. */
  endUpstream(key: string): void
  /** End idle upstream connections. */
  close(): void
}

/** `forward` for one who awaits the answer. Never rejects. */
export function forwardTo(
  transport: Pick<ClientTransport, 'forward'>,
  exchange: Exchange,
  dialer: Dialer,
  options: ForwardOptions
): Promise<Answer> {
  return new Promise((resolve) => transport.forward(exchange, dialer, options, resolve))
}
