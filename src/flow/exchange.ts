import type { Body, BytePipe, Outgoing } from './body.js'
import type { ConnectionFacts, Failure } from './connection.js'
import type { HeaderList } from './headers.js'

export type Version = '1.0' | '1.1' | '2'

export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly authority: string
  readonly scheme: 'http' | 'https'
  readonly version: Version
  readonly headers: HeaderList
}

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
  /** The one final answer. A `Body` of an engine passes without leaving it; anything else is written with back-pressure. */
  respond(head: ResponseHead, body?: Outgoing, trailers?: () => HeaderList): Promise<Sent>
  /** Answers 101 (or 200 to an extended CONNECT), then joins both pipes until both directions have ended. */
  splice(head: ResponseHead, other: BytePipe): Promise<Sent>
  /** No answer at all: FIN, or RST (HTTP/2: RST_STREAM of this stream only). */
  close(how: 'fin' | 'reset'): void
}
