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
 * Transport contract: a server transport creates exchanges, a client transport gets responses from an upstream, a dialer opens an ordered
 * byte pipe to it. Any pair can be combined; a foreign `Body` is claimed as a stream.
 */

/** Called by a server transport. `exchange` may respond immediately or later; a rejected promise is answered with 500 and counted. */
export interface Handler {
  /** Called before the first byte is parsed or TLS begins; false closes the connection. */
  connection(facts: ConnectionFacts): boolean
  exchange(exchange: Exchange): void | Promise<void>
  /**
   * Reports responses of the server transport without an Exchange (400, 408, 414, 431, 503) or after `exchange` failed (500), for log and
   * metrics.
   */
  refused(facts: ConnectionFacts, status: number, why: Failure): void
  /**
   * Reports a connection that ended before its first request: missing PROXY header, failed TLS. Called before `closed`; `closed` is not
   * called if `connection` was not called.
   */
  handshakeFailed?(facts: ConnectionFacts, why: HandshakeFailure, detail?: HandshakeDetail): void
  /** Reports a connection closed because of a limit, in addition to `refused` or `handshakeFailed` with 'overloaded'. */
  turnedAway?(facts: ConnectionFacts, why: Crowding): void
  /** Reports the end of a connection, once for each one that `connection` accepted. */
  closed?(facts: ConnectionFacts): void
}

/** Reason why a connection failed before its first request. A closed set, usable as a metric label. */
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

/** Details of a failed handshake, for the log. */
export interface HandshakeDetail {
  /** Code of OpenSSL or of the certificate check, such as CERT_HAS_EXPIRED. */
  readonly reason?: string | undefined
  /** Description of the client certificate's problem, and its position in the chain. */
  readonly cause?: string | undefined
  /** Server name requested by the client. */
  readonly sni?: string | undefined
}

/** Limits of HTTP/2 connections. */
interface Http2Limits {
  /**
   * Maximum number of concurrent streams per session.
   * @default 128
   */
  readonly streams?: number
  /**
   * Budget for growing receive windows.
   * @default no growth
   */
  readonly windows?: WindowBudget
}

/** In bytes and milliseconds. 0 disables a timeout. */
export interface ListenLimits extends Http2Limits {
  readonly headerBytes: number
  readonly headers: number
  readonly targetBytes: number
  readonly headTimeout: number
  /** Idle timeout of a request before its response begins, while its body is due. */
  readonly bodyIdle: number
  /**
   * Idle timeout in both directions after the response has begun, and for gRPC.
   * @default `bodyIdle`
   */
  readonly streamIdle?: number
  readonly keepAlive: number
  /**
   * Idle timeout of a splice or a response with one closed side.
   * @default 0, no limit
   */
  readonly halfClosed?: number
  /**
   * Cancels the request of a client that closes its direction.
   * @default a complete request gets its response
   */
  readonly abortOnClose?: boolean
  /**
   * Idle time after which the system sends TCP keep-alive probes.
   * @default 0, never
   */
  readonly tcpKeepAlive?: number
  readonly connections: number
  /**
   * Budget of the process's descriptors, of which each connection uses one.
   * @default not counted
   */
  readonly descriptors?: DescriptorShares | undefined
  /**
   * Maximum number of this listener's connections in their PROXY header or TLS handshake.
   * @default 0, no limit
   */
  readonly handshakes?: number
  /**
   * Maximum per IPv4 address or IPv6 /64, after a PROXY header of its address.
   * @default 0, no limit
   */
  readonly connectionsPerAddress?: number
  readonly handshakesPerAddress?: number
}

/** Server name and protocols of a TLS ClientHello (RFC 8446 4.1.2). */
export interface ClientHello {
  /** In lower case, without a trailing dot; undefined without a server name (RFC 6066 3). */
  readonly sni: string | undefined
  /** In the client's order of preference; empty without ALPN (RFC 7301). */
  readonly alpn: readonly string[]
}

/** Selects the entry for a TLS handshake. */
export interface TlsTable {
  /** Called once per handshake, synchronously. Returns undefined to reject with the alert unrecognized_name. */
  entryFor(hello: ClientHello, local: ConnectionFacts['local']): TlsEntry | undefined
}

/** Table of a listener that may pass some names through. */
export interface ListenerTlsTable {
  /** See `TlsTable.entryFor`. A `TlsPassthrough` is not terminated here. */
  entryFor(hello: ClientHello, local: ConnectionFacts['local']): TlsEntry | TlsPassthrough | undefined
}

/** Carries connections of a TLS listener whose TLS is terminated behind this process. */
export interface TlsPassthrough {
  /** Takes over a socket whose bytes were put back, starting with the ClientHello. `facts` are those of the accepted connection. */
  carry(socket: Socket, facts: SocketFacts): CarriedConnection
}

/** A connection carried as plain bytes. */
export interface CarriedConnection {
  /** Resolves once when the connection has ended. Never rejects. */
  readonly ended: Promise<void>
  /** Sends FIN after pending bytes; a reset before any bytes. */
  finish(): void
  /** Sends RST. */
  reset(): void
}

/** TLS settings of one server name. */
export interface TlsEntry {
  /** Certificate, versions, authorities, ticket keys: see `serverContext`. */
  readonly context: SecureContext
  /** DER of the context's certificate; otherwise read from each handshake, which is expensive. */
  readonly certificate?: Uint8Array
  /** In our order of preference. A client without a common protocol is rejected (RFC 7301 3.2). */
  readonly alpn: readonly string[]
  /**
   * 'require': a handshake fails without a certificate verified by the context's authorities. 'request': it succeeds, and the facts contain
   * the certificate and whether it was verified.
   * @default not requested
   */
  readonly clientCertificates?: 'request' | 'require'
  /**
   * Returns the revoked one of these certificates; called with the client's chain, leaf first. Its context creates no resumable sessions,
   * because they store only the leaf.
   */
  readonly revoked?: (shown: readonly X509Certificate[]) => Revoked | undefined
}

/** Another protocol on the address of a TLS listener. Its clients speak first, with a byte that cannot start an HTTP message, and use no ALPN. */
export interface SharedPortHandler {
  /** Returns the entry for a client that may belong to the table; undefined if it does not. Called once per handshake, synchronously. */
  entryFor(hello: ClientHello): TlsEntry | undefined
  /** Returns whether connections of this protocol begin with this byte. */
  begins(byte: number): boolean
  /** Returns the answer to a client whose first bytes are not TLS; `more`: they do not show its protocol yet; undefined: none. */
  answerOther?(first: Buffer): Buffer | 'more' | undefined
  /** Takes over an unread connection, which the listener no longer tracks. */
  accept(secure: Duplex, facts: ConnectionFacts): void
}

/** Peers whose PROXY headers are trusted. */
interface ProxyProtocol {
  /** The header is required from trusted peers and rejected from others. Called once per connection. */
  trusted(address: string): boolean
}

/** Options of a listener. */
export interface ListenOptions {
  readonly name: string
  readonly tls?: ListenerTlsTable
  readonly proxyProtocol?: ProxyProtocol
  /** Requires `tls`. */
  readonly beside?: SharedPortHandler
  /**
   * Peers exempt from limits per address, because they represent many clients.
   * @default none
   */
  readonly exempt?: (address: string) => boolean
  readonly limits: ListenLimits
  /** Called when `limits.connections` is reached, and when there is room again. */
  readonly filled?: (full: boolean) => void
  /**
   * Connections wait until this resolves, up to the connection limit; false closes them. A service manager's socket may have some before
   * the process serves. Never rejects.
   * @default no wait
   */
  readonly opened?: Promise<boolean>
}

/** A connection's share of its listener's limits. Returned once, even if several methods return it. */
export interface Place {
  /**
   * Assigns the connection to an address: counts it among that address's connections and, if a handshake follows, its handshakes. Returns
   * the exhausted limit, after which the connection is closed. Called once, before `shaken`.
   */
  of(address: string): Crowding | undefined | Promise<Crowding | undefined>
  /** Marks the end of its PROXY header and handshake. */
  shaken(): void
  /** Converts the connection to a pipe that may last for days; false if less than a tenth of the places would remain. */
  lasts(): boolean | Promise<boolean>
  /** Releases the share after the connection has ended. */
  left(): void
  /** Removes the connection from the listener; it counts for its address until the returned function is called. */
  handedOn(): () => void
}

/** A bound listener. */
export interface Listening {
  readonly address: { readonly host: string; readonly port: number }
  /** Number of open connections. */
  readonly open: number
  /** Stops accepting; closes idle connections without a request on the way, busy ones when done, and all at `deadline` (milliseconds from now). */
  drain(deadline: number): Promise<{ ended: number; cut: number }>
}

/** Creates exchanges from clients' bytes. */
export interface ServerTransport {
  /** Binds here, or listens on a descriptor owned by this thread. Rejects with the system's error. */
  listen(
    at: { fd: number } | { host: string; port: number },
    options: ListenOptions,
    handler: Handler
  ): Promise<Listening>
}

/** Serves connections that were accepted elsewhere as if accepted at `address`. */
export interface AdoptingListener extends Listening {
  /** Serves an unread socket. `place`: its share of the limits, which the accepting side tracks. */
  adopt(socket: Socket, about: { readonly id: number; readonly startedAt: number }, place: Place): void
}

/** A server transport for sockets. */
export interface SocketTransport extends ServerTransport {
  /** Does not bind. */
  adopting(address: Listening['address'], options: ListenOptions, handler: Handler): AdoptingListener
}

/** Opens connections to one upstream: TCP, TLS, unix socket, tunnel. No HTTP inside. */
export interface Dialer {
  /** Pool key: connections with the same key are interchangeable. */
  readonly key: string
  readonly reusable: boolean
  /**
   * Protocol of the next request's connection is HTTP/2. Read for each request.
   * @default HTTP/1.1
   */
  readonly http2?: boolean
  /**
   * Tolerates HTTP/1 responses that violate the grammar, see `LenientAnswer`.
   * @default strict
   */
  readonly lenient?: boolean
  /**
   * Responds to requests itself, as a `ClientTransport` does, without connections.
   * @default connections
   */
  readonly answers?: ClientTransport['forward']
  /**
   * Rejects with a `DialError`. `deadline` in milliseconds from now; `bytes`: the protocol is not HTTP, whatever the client speaks;
   * `http2`: the protocol is HTTP/2.
   */
  open(why: {
    client: ConnectionFacts
    deadline: number
    signal: AbortSignalLike
    bytes?: boolean
    http2?: boolean
  }): Promise<BytePipe>
}

/** Reason why a dialer could not open a pipe. `message` is for the log, never for a client. */
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
  /** The exchange's own body costs nothing; bytes can be resent, a stream cannot. */
  readonly body: Outgoing
  /**
   * The head requests another protocol than WebSocket, to which the upstream may switch after the complete request.
   * @default false
   */
  readonly upgrade?: boolean
  /** In milliseconds. */
  readonly connectTimeout: number
  readonly responseTimeout: number
  readonly idleTimeout: number
  /** Called when a new connection for this request is established, including TLS. */
  readonly onConnected?: (() => void) | undefined
  onInform?(head: ResponseHead): void
}

/** Result of an upstream request. `retry` is the engine's knowledge, the caller decides: 'safe' = no byte of the request left. */
export type Answer =
  | { readonly kind: 'response'; readonly head: ResponseHead; readonly body: Body; readonly reusedConnection: boolean }
  | { readonly kind: 'switched'; readonly head: ResponseHead; readonly pipe: BytePipe }
  | {
      readonly kind: 'failed'
      readonly failure: Failure
      readonly retry: 'safe' | 'idempotent-only' | 'never'
      readonly detail: string
    }

/** Separates an upstream's key from the number of its only user. */
const PRIVATE = '\0'

/** Returns the key of connections to the upstream `key` reserved for one user. */
export function privateKey(key: string, user: number): string {
  return `${key}${PRIVATE}${user}`
}

/** Returns the key of the upstream itself. */
export function sharedKey(key: string): string {
  const end = key.indexOf(PRIVATE)
  return end === -1 ? key : key.slice(0, end)
}

/** A set of upstream keys. */
export interface UpstreamKeys {
  has(key: string): boolean
}

/** Forwards exchanges to upstreams and pools connections. */
export interface ClientTransport {
  /**
   * Calls `answered` once, after returning: every failure is an `Answer`. Bytes received with a response head have been read by then.
   * `answered` must not throw.
   */
  forward(exchange: Exchange, dialer: Dialer, options: ForwardOptions, answered: (answer: Answer) => void): void
  /** Stops reusing upstream connections whose `sharedKey` is not in `keys`; active ones finish. */
  retainUpstreams(keys: UpstreamKeys): void
  /** Ends connections with this key: idle ones immediately, active ones after their request. */
  endUpstream(key: string): void
  /** Closes idle upstream connections. */
  close(): void
}

/** Returns the response of `forward` as a promise. Never rejects. */
export function forwardTo(
  transport: Pick<ClientTransport, 'forward'>,
  exchange: Exchange,
  dialer: Dialer,
  options: ForwardOptions
): Promise<Answer> {
  return new Promise((resolve) => transport.forward(exchange, dialer, options, resolve))
}
