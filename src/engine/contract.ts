import type { Body, BytePipe, Outgoing } from '../exchange/body.js'
import type { ConnectionFacts, Failure } from '../exchange/connection.js'
import type { AbortSignalLike, Exchange, RequestHead, ResponseHead } from '../exchange/exchange.js'

/**
 * The engine seam: a front turns a client's bytes into exchanges, a back gets answers from an upstream, a dialer is an
 * ordered byte pipe to it. Any front works with any back; a foreign `Body` is claimed as a stream.
 */

/** Called by a front. `exchange` may answer at once or later; a rejected promise is answered 500 and counted. */
export interface Handler {
  /** Before the first byte is parsed or TLS begins; false closes. */
  connection(facts: ConnectionFacts): boolean
  exchange(exchange: Exchange): void | Promise<void>
  /** What the front answered on its own because no Exchange could be made (400, 408, 414, 431, 503) or `exchange` failed (500): for log and metrics. */
  refused(facts: ConnectionFacts, status: number, why: Failure): void
  /** A connection ended, for whatever reason; once for each one that `connection` let pass. */
  closed?(facts: ConnectionFacts): void
}

/** Bytes and milliseconds. 0 switches a time-out off. */
export interface ListenLimits {
  readonly headerBytes: number
  readonly headers: number
  readonly targetBytes: number
  readonly headTimeout: number
  readonly bodyIdle: number
  readonly keepAlive: number
  readonly connections: number
}

export interface TlsTable {
  contextFor(sni: string | undefined): unknown
  readonly alpn: readonly string[]
}

export interface ListenOptions {
  readonly name: string
  readonly tls?: TlsTable
  readonly limits: ListenLimits
}

export interface Listening {
  readonly address: { readonly host: string; readonly port: number }
  /** Connections open now. */
  readonly open: number
  /** No new connections; idle ones close at once, busy ones when done, all at `deadline` (milliseconds from now). */
  drain(deadline: number): Promise<{ ended: number; cut: number }>
}

export interface Front {
  /** Binds here, or listens on a descriptor that this thread owns alone. Rejects with the system's error when it cannot. */
  listen(
    at: { fd: number } | { host: string; port: number },
    options: ListenOptions,
    handler: Handler
  ): Promise<Listening>
}

/** Opens connections to one upstream: TCP, TLS, unix socket, tunnel. No HTTP inside. */
export interface Dialer {
  /** Pool key: same key, interchangeable connections. */
  readonly key: string
  readonly reusable: boolean
  /** Rejects with a `DialError`. `deadline` is milliseconds from now. */
  open(why: { client: ConnectionFacts; deadline: number; signal: AbortSignalLike }): Promise<BytePipe>
}

/** Why a dialer could not open a pipe. `message` is for the log, never for a client. */
export class DialError extends Error {
  readonly failure: Failure
  constructor(failure: Failure, message: string) {
    super(message)
    this.failure = failure
  }
}

export interface ForwardOptions {
  readonly head: RequestHead
  /** The exchange's own body costs nothing; bytes may be sent again, a stream may not. */
  readonly body: Outgoing
  /** Milliseconds. */
  readonly connectTimeout: number
  readonly responseTimeout: number
  readonly idleTimeout: number
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

export interface Back {
  /** Never rejects: every way to fail is an `Answer`. */
  forward(exchange: Exchange, dialer: Dialer, options: ForwardOptions): Promise<Answer>
  /** Stop reusing upstream connections whose key is not in `keys`; those in use finish. */
  retainUpstreams(keys: ReadonlySet<string>): void
  /** End idle upstream connections. */
  close(): void
}
