import type { Failure } from './exchange.js'
import type { PathProblem } from './target.js'
import { refuse, type Verdict } from './verdict.js'

/** How the data plane says that it refused or failed: status for the client, `sluice-error-code`, and metric label. */
export interface FailureAnswer {
  readonly status: number
  readonly code: string
  /** The connection ends with the answer. */
  readonly close?: boolean
}

/** The error table of the data plane: every end that the seam knows. A client that is gone gets no answer; its status is for the log. */
export const FAILURES: Readonly<Record<Failure, FailureAnswer>> = {
  'client-gone': { status: 499, code: 'CLIENT_GONE' },
  'client-malformed': { status: 400, code: 'BAD_REQUEST' },
  'client-timeout': { status: 408, code: 'REQUEST_TIMEOUT' },
  'client-reset-flood': { status: 429, code: 'RESET_FLOOD' },
  'too-large': { status: 413, code: 'TOO_LARGE' },
  draining: { status: 503, code: 'DRAINING' },
  overloaded: { status: 503, code: 'OVERLOADED' },
  'dial-refused': { status: 502, code: 'UPSTREAM_REFUSED' },
  'dial-timeout': { status: 504, code: 'UPSTREAM_CONNECT_TIMEOUT' },
  'dial-tls': { status: 502, code: 'UPSTREAM_TLS' },
  'no-tunnel': { status: 503, code: 'NO_TUNNEL' },
  'upstream-malformed': { status: 502, code: 'UPSTREAM_MALFORMED' },
  'upstream-timeout': { status: 504, code: 'UPSTREAM_TIMEOUT' },
  'upstream-gone': { status: 502, code: 'UPSTREAM_GONE' },
  internal: { status: 500, code: 'INTERNAL_ERROR' }
}

/** The answer of a policy or module that such a failure has ended. */
export function refusalOf(failure: Failure): Verdict {
  const { status, code } = FAILURES[failure]
  // A client that was too slow would be as slow with what is left (RFC 9110 15.5.9).
  return failure === 'client-timeout'
    ? { kind: 'respond', status, headers: [], code, close: true }
    : refuse(status, code)
}

/** Internal entries that one exchange or connection may be led through. */
export const MOST_HOPS = 10

/** Refusals of the pipeline itself. */
export const REFUSALS = {
  /** CONNECT and TRACE. */
  method: { status: 405, code: 'METHOD_REFUSED', close: true },
  /** No normal form: fragment, broken escape, another authority than Host, … */
  target: { status: 400, code: 'BAD_TARGET', close: true },
  /** The IP restriction of all endpoints keeps this client out. */
  restricted: { status: 403, code: 'IP_RESTRICTED' },
  route: { status: 404, code: 'NO_ROUTE' },
  /** A policy leads to an internal entry that is not there any more. */
  internalEntry: { status: 503, code: 'INTERNAL_ENTRY_GONE' },
  /** Internal entries lead to each other without end. */
  hops: { status: 508, code: 'TOO_MANY_HOPS' },
  upstream: { status: 503, code: 'NO_UPSTREAM' },
  /** A defect of ours: logged with its stack. */
  internal: FAILURES.internal
} as const satisfies Record<string, FailureAnswer>

/** Why the path of a request has no strict form, for the client. */
export const PATH_REFUSALS: Readonly<Record<PathProblem, FailureAnswer>> = {
  'not-a-path': REFUSALS.target,
  'encoded-slash': { status: 400, code: 'PATH_ENCODED_SLASH' },
  backslash: { status: 400, code: 'PATH_BACKSLASH' },
  'encoded-control': { status: 400, code: 'PATH_ENCODED_CONTROL' },
  'dot-parameters': { status: 400, code: 'PATH_DOT_PARAMETERS' }
}
