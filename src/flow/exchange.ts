import type { Duplex, Readable } from 'node:stream'
import type { HeaderList } from './headers.js'

/** HTTP version. */
export type Version = '1.0' | '1.1' | '2'

/** Request head as read by its transport. */
export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly authority: string
  readonly scheme: 'http' | 'https'
  readonly version: Version
  readonly headers: HeaderList
}

/** Response head to send. */
export interface ResponseHead {
  readonly status: number
  readonly reason?: string
  readonly headers: HeaderList
  /** Closes the connection after this response: the start of the client's next request is uncertain. */
  readonly close?: boolean
}

/** Result of sending a response. Times of the monotonic clock in milliseconds; 0 for events that did not happen. */
export interface Sent {
  readonly bytesIn: number
  readonly bytesOut: number
  readonly firstByteAt: number
  readonly endedAt: number
  readonly failure?: Failure
}

/** Abort signal as a list of callbacks; Node's AbortSignal costs microseconds per exchange. */
export interface AbortSignalLike {
  readonly aborted: Failure | undefined
  /** Runs immediately if already aborted. Returns a function that removes the callback. */
  onAbort(run: (why: Failure) => void): () => void
}

/** One request with its response. The engine creates it and calls `Handler.exchange` once; the handler controls the rest. */
export interface Exchange {
  readonly connection: ConnectionFacts
  readonly request: RequestHead & { readonly body: Body }
  /** Requested upgrade to a byte pipe; undefined for an ordinary request. */
  readonly upgrade: 'websocket' | 'other' | undefined
  /** Fires once for every end before a complete response. Work for this exchange stops then. */
  readonly signal: AbortSignalLike
  /** Sends 103 and other interim responses; the engine sends 100 when the request body is first read. Ignored after `respond` and for HTTP/1.0. */
  inform(head: ResponseHead): void
  /**
   * Sends the final response, once. A `Body` of an engine is forwarded inside the engine; anything else is written with back-pressure.
   * Synchronous if nothing had to wait.
   */
  respond(head: ResponseHead, body?: Outgoing, trailers?: () => HeaderList): Sent | Promise<Sent>
  /**
   * Reserves a slot for a pipe, which may last for days; false if none is free, and `splice` must not be called.
   * @default unlimited
   */
  admitsPipe?(): boolean | Promise<boolean>
  /** Responds with 101 (or 200 to an extended CONNECT), then joins both pipes until both directions have ended. */
  splice(head: ResponseHead, other: BytePipe): Sent | Promise<Sent>
  /** Closes without a response: FIN or RST (HTTP/2: RST_STREAM of this stream only). */
  close(how: 'fin' | 'reset'): void
}

/**
 * Framing of the body according to the head. The transport frames anew on the way out; no other code writes content-length or
 * transfer-encoding. A response to HEAD and a 304 keep the announced length and carry no bytes.
 */
export type Framing =
  | { readonly kind: 'none' }
  /** `trailers`: trailers may follow a body of known length, as on HTTP/2 (RFC 9113 8.1). */
  | { readonly kind: 'length'; readonly bytes: number; readonly trailers?: true }
  | { readonly kind: 'open' }

/** Trailers that may pass, besides those that no message may have. */
export interface TrailerRules {
  /** `name`: field name in any case. */
  passes(name: string): boolean
}

/** First bytes of a body. */
export interface BodyStart {
  readonly bytes: Uint8Array
  /** The body ends with these bytes. */
  readonly complete: boolean
}

/** Owner of the memory of a piece. */
export interface PieceLender {
  /** Returns a part of the piece that stays valid after the call. */
  keep(piece: Buffer, from: number, to: number): Buffer
  /** Returns a function to call once the piece has been written, until which it stays valid; undefined: use `keep`. */
  lend(piece: Buffer): (() => void) | undefined
}

/** Destination of the pieces of a body. */
export interface PieceSink {
  /** Takes bytes that are valid only during the call, or belong to the sink if there is no `lender`. */
  chunk(bytes: Buffer, from: number, to: number, lender: PieceLender | undefined): void
  /** Sends the bytes of this turn; pauses the source if the sink is congested. */
  flush(): void
  end(trailers: HeaderList): void
  broke(why: Failure): void
}

/** A source of pieces that can be paused. */
export interface PieceSource {
  pause(): void
  resume(): void
  /** The rest is not needed. */
  stop(): void
}

/**
 * A body inside its engine. At most one of claim, buffer and discard may be called; without any, the body is forwarded unchanged, or
 * discarded with its exchange.
 */
export interface Body {
  readonly framing: Framing
  /** Bytes transferred so far, for the log. */
  readonly bytes: number
  /** The sender waits for 100 Continue (RFC 9110 10.1.1). */
  readonly awaitsContinue?: boolean
  /** Bytes have gone to a consumer or were discarded: the body cannot be read from its start any more. */
  readonly taken: boolean
  /** The whole body if it is in memory: can be sent in place of the body. */
  readonly whole?: Uint8Array | undefined
  /** Failure of the message, if it failed. */
  readonly failure?: Failure
  /** Returns the bytes as a stream; reading it applies back-pressure. Ends cleanly only if the message did. */
  claim(): Readable
  /** Sends the bytes to `sink` without a stream, after this call; undefined if they need one, and `claim` returns it. */
  feed?(sink: PieceSink): PieceSource | undefined
  /** Returns the whole body up to `limit` bytes, or 'too-large' without loss: bytes already read precede the rest. */
  buffer(limit: number): Promise<Uint8Array | 'too-large'>
  /**
   * Returns the first bytes, at most `limit`, and whether they are the whole body. They stay in the body and precede the rest; may be followed
   * by claim, buffer and discard, or nothing. Rejects if the message fails before.
   */
  peek(limit: number): Promise<BodyStart>
  /** Inserts a transform without taking the body from the engine; framing becomes open. */
  through(transform: () => Duplex): void
  /**
   * Calls `listener` with all bytes from now on, whatever their use; only one listener. The bytes are valid only during the call, which
   * must not throw. Bytes that arrived before and are still buffered are passed immediately.
   */
  watch(listener: (chunk: Uint8Array) => void): void
  /** The body will not be read: drain to the transport's limit and keep the connection, or close it. */
  discard(): void
  /** Applies to `trailers` from now on. */
  trailerRules?: TrailerRules | undefined
  /** Filtered trailers after a clean end; undefined before. */
  readonly trailers: HeaderList | undefined
}

/** Content that can be sent: an engine's body, bytes, a stream, or nothing. */
export type Outgoing = Body | Uint8Array | Readable | undefined

/** Ordered bytes both ways with half-close: a socket, a TLS socket, an HTTP/2 stream, a tunnel stream, a hop to another worker. */
export interface BytePipe {
  readonly duplex: Duplex
  /** Idle timeout of a splice without bytes in either direction (ms); 0 or undefined for no limit. */
  readonly idle?: number
  /** True if no new exchange should use the pipe, because its destination is being removed. */
  readonly stale?: boolean
  /** True if the destination was never reached: its carrier reports that no byte was read. */
  readonly unreached?: boolean
  /** Reason of the unreached destination, if the carrier knows it; `message` is for the log. */
  readonly refusal?: { readonly failure: Failure; readonly message: string } | undefined
  end(): void
  destroy(why: Failure): void
}

/** Reason for the early end of an exchange or byte pipe. One closed set for every engine; `proxy/failures` maps it to status and code. */
export type Failure =
  | 'client-gone'
  | 'client-malformed'
  | 'client-timeout'
  | 'client-reset-flood'
  | 'too-large'
  | 'draining'
  | 'idle'
  | 'overloaded'
  | 'dial-refused'
  | 'dial-timeout'
  | 'dial-outrun'
  | 'no-descriptor'
  | 'dial-tls'
  | 'tls-untrusted'
  | 'tls-name'
  | 'tls-expired'
  | 'tls-pin'
  | 'tls-version'
  | 'tls-client-certificate'
  | 'no-tunnel'
  | 'upstream-busy'
  | 'upstream-malformed'
  | 'upstream-timeout'
  | 'upstream-gone'
  | 'internal'

/** Data of the accepted connection; plain values, so that a policy never holds a socket. */
export interface ConnectionFacts {
  readonly id: number
  readonly listener: string
  readonly peer: { readonly address: string; readonly port: number }
  readonly local: { readonly address: string; readonly port: number }
  /** The socket's own endpoints if a PROXY header has replaced `peer` and `local`. */
  readonly via?: {
    readonly peer: { readonly address: string; readonly port: number }
    readonly local: { readonly address: string; readonly port: number }
  }
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number
  /** Bytes from and to the client so far; updated live. */
  readonly bytesIn: number
  readonly bytesOut: number
  /** Set for a TLS connection that this process does not terminate; `sni` is the server name of its ClientHello. */
  readonly passed?: { readonly sni?: string } | undefined
  readonly tls?: {
    readonly sni?: string
    readonly alpn?: string
    readonly version: string
    readonly cipher: string
    /** The client's certificate in DER, verified or not. */
    readonly clientCertificate?: Uint8Array
    /** True if the authorities of the listener's entry verify `clientCertificate`. Undefined if none was requested. */
    readonly clientVerified?: boolean
    /** The server certificate in DER. */
    readonly serverCertificate?: Uint8Array
    readonly resumed: boolean
  }
}

/** Returns the server name of the client's ClientHello, whether TLS is terminated here or not. */
export function sniOf({ tls, passed }: Pick<ConnectionFacts, 'tls' | 'passed'>): string | undefined {
  return tls?.sni ?? passed?.sni
}
