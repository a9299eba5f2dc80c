import type { Failure } from './exchange.js'
import type { HeaderFields } from './headers.js'

/** The field of answers that are errors of Sluice, with the id of the trace. */
export const TRACE_ID = 'x-trace-id'

/** What became of one try to reach an upstream. `at`: monotonic milliseconds. */
export interface TriedUpstream {
  readonly at: number
  /** Its URL, or the tunnels that it stands for. */
  readonly server: string
  /** Of the answer; undefined without one. */
  readonly status: number | undefined
  readonly failure: Failure | undefined
}

/** The trace that an exchange belongs to (W3C Trace Context). A flow has one only where traces are made. */
export interface FlowTrace {
  /** 32 hexadecimal digits in lower case. */
  readonly traceId: string
  /** Are spans made of the exchange? */
  readonly sampled: boolean
  /** A try begins at `at`, monotonic milliseconds: writes into the fields of its request which span it belongs to. */
  sends(headers: HeaderFields, at: number): void
  /** The try that began last has an answer, or has failed. */
  answered(tried: TriedUpstream): void
}
