import type { Failure, Version } from '../../flow/exchange.js'

/** A value of an attribute. */
export type AttributeValue = string | number | boolean

/** Something that happened within the span of an exchange. */
export interface TracedEvent {
  readonly name: string
  /** Milliseconds since the Unix epoch, with a fraction. */
  readonly at: number
  readonly attributes: Readonly<Record<string, AttributeValue>>
}

/** One try to reach an upstream. Times as in `TracedEvent`. */
export interface TracedTry {
  readonly spanId: string
  readonly begun: number
  readonly ended: number
  /** Id of the backend; empty if the try had no result. */
  readonly backend: string
  /** Name of the backend. */
  readonly name: string
  /** URL of the server, or its tunnels. */
  readonly server: string
  /** Method as sent; a policy may have changed it. */
  readonly method: string
  /** Path and query. */
  readonly target: string
  readonly status: number | undefined
  readonly failure: Failure | undefined
}

/**
 * Data of an exchange for its spans: plain data, independent of the flow, so that another thread can export it. Times as in
 * `TracedEvent`; the query is not yet redacted.
 */
export interface TracedExchange {
  readonly traceId: string
  readonly spanId: string
  /** '': the trace begins here. */
  readonly parentSpanId: string
  readonly traceState: string
  readonly begun: number
  readonly ended: number
  /** Method as received from the client. */
  readonly method: string
  readonly scheme: 'http' | 'https'
  readonly host: string
  readonly port: number | undefined
  readonly path: string
  readonly query: string | undefined
  /** True for a path of logins, whose query contains secrets of the client and the identity provider. */
  readonly ownPath: boolean
  readonly version: Version
  readonly userAgent: string | undefined
  readonly clientAddress: string
  readonly peerAddress: string
  readonly peerPort: number
  /** Path template of the route; undefined if no route matched. */
  readonly route: string | undefined
  readonly routeId: string | undefined
  readonly routeName: string | undefined
  readonly edge: string | undefined
  /** Name of the site. */
  readonly site: string | undefined
  readonly listener: string
  readonly revision: number
  readonly requestId: string | undefined
  /** Status; 0 without a response. */
  readonly status: number
  /** Error code if Sluice created the response. */
  readonly code: string | undefined
  readonly failure: Failure | undefined
  /** Rule and action that decided it. */
  readonly rule: string | undefined
  readonly action: string | undefined
  readonly bytesIn: number
  readonly bytesOut: number
  /** gRPC status code; undefined for other exchanges, or without a code. */
  readonly grpcStatus: number | undefined
  readonly isGrpc: boolean
  readonly tries: readonly TracedTry[]
  readonly events: readonly TracedEvent[]
  /** Events that were left out because there were too many. */
  readonly eventsDropped: number
}

/** Bytes of an exchange without its texts, of a try and of an event: estimates from above. */
const PART = { exchange: 1_200, try: 300, event: 500 }
/** Bytes of a character in memory. */
const BYTES_PER_CHARACTER = 2

/** Bytes of memory that it takes, an estimate from above. */
export function memoryOf({ path, query = '', userAgent = '', tries, events, traceState }: TracedExchange): number {
  let characters = path.length + query.length + userAgent.length + traceState.length
  for (const { target } of tries) characters += target.length
  return PART.exchange + tries.length * PART.try + events.length * PART.event + characters * BYTES_PER_CHARACTER
}
