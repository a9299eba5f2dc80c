import type { Duplex, Readable } from 'node:stream'
import type { HeaderList } from './headers.js'

/** Of HTTP. */
export type Version = '1.0' | '1.1' | '2'

/** The head of a request as its transport has read it. */
export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly authority: string
  readonly scheme: 'http' | 'https'
  readonly version: Version
  readonly headers: HeaderList
}

/** The head of an answer that a transport is to send. */
export interface ResponseHead {
  readonly status: number
  readonly reason?: string
  readonly headers: HeaderList
  /** The connection ends with this answer: what the client sent leaves a doubt about where its next request begins. */
  readonly close?: boolean
}

/** What went over the wire for one exchange. Times are of the monotonic clock, in milliseconds; 0: never happened. */
export interface Sent {
  readonly bytesIn: number
  readonly bytesOut: number
  readonly firstByteAt: number
  readonly endedAt: number
  readonly failure?: Failure
}

/** Node's AbortSignal costs microseconds per exchange; this is a list of callbacks. */
export interface AbortSignalLike {
  readonly aborted: Failure | undefined
  /** Runs at once when already aborted. Returns the way to stop listening. */
  onAbort(run: (why: Failure) => void): () => void
}

/** One request with its answer. The engine makes it, calls `Handler.exchange` once and afterwards obeys. */
export interface Exchange {
  readonly connection: ConnectionFacts
  readonly request: RequestHead & { readonly body: Body }
  /** What the head asks to turn into a byte pipe; undefined: an ordinary request. */
  readonly upgrade: 'websocket' | 'other' | undefined
  /** Fires once for every end before a complete answer. Work for this exchange stops here. */
  readonly signal: AbortSignalLike
  /** 103 and others; 100 is sent by the engine when the request body is first wanted. Ignored after `respond` and for HTTP/1.0. */
  inform(head: ResponseHead): void
  /**
   * The one final answer. A `Body` of an engine passes without leaving it; anything else is written with back-pressure.
   * Answers at once when nothing of it had to wait.
   */
  respond(head: ResponseHead, body?: Outgoing, trailers?: () => HeaderList): Sent | Promise<Sent>
  /** Takes a place for a pipe, which may last for days; false: none is free, and `splice` must not be called. Left out: any number may. */
  admitsPipe?(): boolean | Promise<boolean>
  /** Answers 101 (or 200 to an extended CONNECT), then joins both pipes until both directions have ended. */
  splice(head: ResponseHead, other: BytePipe): Sent | Promise<Sent>
  /** No answer at all: FIN, or RST (HTTP/2: RST_STREAM of this stream only). */
  close(how: 'fin' | 'reset'): void
}

/**
 * How the head framed the body. The transport frames anew on the way out; no other code writes content-length or
 * transfer-encoding. An answer to HEAD and a 304 keep the length that their head announced and carry no bytes.
 */
export type Framing =
  | { readonly kind: 'none' }
  /** `trailers`: they may follow although the length is known, as on HTTP/2 (RFC 9113 8.1). */
  | { readonly kind: 'length'; readonly bytes: number; readonly trailers?: true }
  | { readonly kind: 'open' }

/** Which trailers of a message may pass, besides those that no message may have. */
export interface TrailerRules {
  /** `name`: of a field, in any case. */
  passes(name: string): boolean
}

/**
 * A body inside its engine. At most one of claim, buffer, discard; none of them: it passes on untouched, or is
 * discarded with its exchange.
 */
export interface Body {
  readonly framing: Framing
  /** Bytes carried so far, for the log. */
  readonly bytes: number
  /** The sender holds the body back until it is wanted (RFC 9110 10.1.1). */
  readonly awaitsContinue?: boolean
  /** Bytes of it have gone to a consumer, or it was discarded: it cannot be had from its beginning any more. */
  readonly taken: boolean
  /** All of it, where it lies in memory: it may be sent in place of the body. */
  readonly whole?: Uint8Array | undefined
  /** Why the message broke off; says nothing of a message that did not. */
  readonly failure?: Failure
  /** Takes the bytes as a stream; reading it is the back-pressure. Ends cleanly only if the message did. */
  claim(): Readable
  /** The whole body up to `limit` bytes, or 'too-large' with nothing lost: what was read stays in front of the rest. */
  buffer(limit: number): Promise<Uint8Array | 'too-large'>
  /** Puts a transform between arrival and departure without taking the body out of the engine's hands; framing becomes open. */
  through(transform: () => Duplex): void
  /**
   * Calls `listener` with what arrives from now on, whatever becomes of it; one listener. The bytes are valid only during the
   * call, which does not throw. What arrived before is shown at once, unless it has left already.
   */
  watch(listener: (chunk: Uint8Array) => void): void
  /** It will not be read: drain to the transport's limit and keep the connection, or close it. */
  discard(): void
  /** Holds for `trailers` from now on. */
  trailerRules?: TrailerRules | undefined
  /** Trailers after a clean end, already filtered; undefined before. */
  readonly trailers: HeaderList | undefined
}

/** What can be sent: an engine's body, bytes, a stream, or nothing. */
export type Outgoing = Body | Uint8Array | Readable | undefined

/** Ordered bytes both ways with half-close: a socket, a TLS socket, an HTTP/2 stream, a tunnel stream, a hop to another worker. */
export interface BytePipe {
  readonly duplex: Duplex
  /** Milliseconds without a byte in either direction after which a splice with it ends; 0 or left out: no limit. */
  readonly idle?: number
  /** True once no new exchange should use it, although it still stands: what it leads to is given up. */
  readonly stale?: boolean
  /** True once it broke because what it leads to was never reached: its carrier reports that no byte was read. */
  readonly unreached?: boolean
  /** Why it was never reached, where its carrier knows more; `message` is for the log. */
  readonly refusal?: { readonly failure: Failure; readonly message: string } | undefined
  end(): void
  destroy(why: Failure): void
}

/** Why an exchange or a byte pipe ended early. One closed set on every engine; `proxy/failures` maps it to status and code. */
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

/** Facts of the accepted connection; plain values, so that a policy never holds a socket. */
export interface ConnectionFacts {
  readonly id: number
  readonly listener: string
  readonly peer: { readonly address: string; readonly port: number }
  readonly local: { readonly address: string; readonly port: number }
  /** The socket's own two ends, where a PROXY header has put others into `peer` and `local`. */
  readonly via?: {
    readonly peer: { readonly address: string; readonly port: number }
    readonly local: { readonly address: string; readonly port: number }
  }
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number
  /** Bytes from and to the client so far; read live. */
  readonly bytesIn: number
  readonly bytesOut: number
  /** The client speaks TLS that this process does not end; `sni`: the name that its ClientHello asks for. */
  readonly passed?: { readonly sni?: string } | undefined
  readonly tls?: {
    readonly sni?: string
    readonly alpn?: string
    readonly version: string
    readonly cipher: string
    /** DER of what the client showed, verified or not. */
    readonly clientCertificate?: Uint8Array
    /** True when the authorities of the listener's entry vouch for `clientCertificate`. Left out: none was asked for. */
    readonly clientVerified?: boolean
    /** DER of what the client was shown. */
    readonly serverCertificate?: Uint8Array
    readonly resumed: boolean
  }
}

/** The name that the client asked for in its ClientHello, whether TLS ends here or not. */
export function sniOf({ tls, passed }: Pick<ConnectionFacts, 'tls' | 'passed'>): string | undefined {
  return tls?.sni ?? passed?.sni
}
