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
  /** Its URL, or the tunnels that it stands for. */
  readonly server: string
  /** As it was sent, a policy may have changed them. */
  readonly method: string
  /** Path and query. */
  readonly target: string
  readonly status: number | undefined
  readonly failure: Failure | undefined
}

/**
 * What an exchange has left for its spans: plain data, without anything of the flow, so that another thread can export it. Times as
 * in `TracedEvent`; a query may hold secrets until it is shown.
 */
export interface TracedExchange {
  readonly traceId: string
  readonly spanId: string
  /** '': the trace begins here. */
  readonly parentSpanId: string
  readonly traceState: string
  readonly begun: number
  readonly ended: number
  /** As the client wrote it. */
  readonly method: string
  readonly scheme: 'http' | 'https'
  readonly host: string
  readonly port: number | undefined
  readonly path: string
  readonly query: string | undefined
  /** A path of logins: its query holds what only the client and the identity provider may know. */
  readonly ownPath: boolean
  readonly version: Version
  readonly userAgent: string | undefined
  readonly clientAddress: string
  readonly peerAddress: string
  readonly peerPort: number
  /** What the path of the route is, as a template; undefined when no route was found. */
  readonly route: string | undefined
  readonly routeId: string | undefined
  readonly edge: string | undefined
  readonly listener: string
  readonly revision: number
  readonly requestId: string | undefined
  /** 0: there was no answer. */
  readonly status: number
  /** Of the error that the answer is, if it is one of Sluice's. */
  readonly code: string | undefined
  readonly failure: Failure | undefined
  /** Rule and action that decided it. */
  readonly rule: string | undefined
  readonly action: string | undefined
  readonly bytesIn: number
  readonly bytesOut: number
  /** Code of a call of gRPC; undefined where it is none or has no code. */
  readonly grpcStatus: number | undefined
  readonly isGrpc: boolean
  readonly tries: readonly TracedTry[]
  readonly events: readonly TracedEvent[]
  /** Events that were left out because there were too many. */
  readonly eventsDropped: number
}

/** Bytes of an exchange without its texts, of a try and of an event: estimates from above. */
const PART = { exchange: 1_200, try: 300, event: 500 }
const BYTES_PER_CHARACTER = 2

/** Bytes of memory that it takes, an estimate from above. */
export function memoryOf({ path, query = '', userAgent = '', tries, events, traceState }: TracedExchange): number {
  let characters = path.length + query.length + userAgent.length + traceState.length
  for (const { target } of tries) characters += target.length
  return PART.exchange + tries.length * PART.try + events.length * PART.event + characters * BYTES_PER_CHARACTER
}
