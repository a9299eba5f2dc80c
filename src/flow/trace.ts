import type { Failure } from './exchange.js'
import type { HeaderFields } from './headers.js'

/** Header field with the trace id on error responses of Sluice. */
export const TRACE_ID = 'x-trace-id'

/** Result of one upstream attempt. `at` in monotonic milliseconds. */
export interface TriedUpstream {
  readonly at: number
  /** Id of the backend. */
  readonly backend: string
  /** Name of the backend. */
  readonly name: string
  /** Its URL, or the group of tunnels that it selects. */
  readonly server: string
  /** Status of the response; undefined without one. */
  readonly status: number | undefined
  readonly failure: Failure | undefined
}

/** Trace of an exchange (W3C Trace Context). A flow has one only if tracing is enabled. */
export interface FlowTrace {
  /** 32 hexadecimal digits in lower case. */
  readonly traceId: string
  /** True if spans are recorded for the exchange. */
  readonly sampled: boolean
  /** Starts an attempt at `at` (monotonic milliseconds): writes its span into the fields of its request. */
  sends(headers: HeaderFields, at: number): void
  /** Ends the latest attempt with a response or a failure. */
  answered(tried: TriedUpstream): void
}
