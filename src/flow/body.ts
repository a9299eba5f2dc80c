import type { Duplex, Readable } from 'node:stream'
import type { Failure } from './connection.js'
import type { HeaderList } from './headers.js'

/**
 * How the head framed the body. The engine frames anew on the way out; nobody else writes content-length or
 * transfer-encoding. An answer to HEAD and a 304 keep the length that their head announced and carry no bytes.
 */
export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'open' }

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
  /** Why the message broke off; says nothing of a message that did not. */
  readonly failure?: Failure
  /** Takes the bytes as a stream; reading it is the back-pressure. Ends cleanly only if the message did. */
  claim(): Readable
  /** The whole body up to `limit` bytes, or 'too-large' with nothing lost: what was read stays in front of the rest. */
  buffer(limit: number): Promise<Uint8Array | 'too-large'>
  /** Puts a transform between arrival and departure without taking the body out of the engine's hands; framing becomes open. */
  through(transform: () => Duplex): void
  /** Nobody will read it: drain to the engine's limit and keep the connection, or close it. */
  discard(): void
  /** Trailers after a clean end, already filtered; undefined before. */
  readonly trailers: HeaderList | undefined
}

/** What can be sent: an engine's body, bytes, a stream, or nothing. */
export type Outgoing = Body | Uint8Array | Readable | undefined

/** Ordered bytes both ways with half-close: a socket, a TLS socket, an HTTP/2 stream, a tunnel stream, a hop to another worker. */
export interface BytePipe {
  readonly duplex: Duplex
  /** True once no new exchange should use it, although it still stands: what it leads to is given up. */
  readonly stale?: boolean
  /** True once it broke because what it leads to was never reached: whoever carries it says that no byte was looked at. */
  readonly unreached?: boolean
  end(): void
  destroy(why: Failure): void
}
