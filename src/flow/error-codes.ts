import { defineErrors } from '../lib/errors.js'
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

/** Codes of the transport and the pipeline. */
export const flowErrors = defineErrors({
  CLIENT_GONE: { status: 499, text: 'The client has disconnected. It gets no answer; the status is for the log.' },
  BAD_REQUEST: { status: 400, text: 'The request is malformed.' },
  REQUEST_TIMEOUT: { status: 408, text: 'The client was too slow to send its request.' },
  RESET_FLOOD: { status: 429, text: 'The client has reset too many streams of its connection.' },
  TOO_LARGE: { status: 413, text: 'The request is larger than the limit.' },
  DRAINING: { status: 503, text: 'The process is shutting down and takes no new requests.' },
  OVERLOADED: { status: 503, text: 'The process is at its limit and takes no more requests.' },
  UPSTREAM_REFUSED: { status: 502, text: 'No connection to the upstream could be opened.' },
  UPSTREAM_CONNECT_TIMEOUT: { status: 504, text: 'The upstream did not accept a connection in time.' },
  UPSTREAM_TLS: { status: 502, text: 'The TLS handshake with the upstream failed.' },
  NO_TUNNEL: { status: 503, text: 'No agent serves the endpoint.' },
  UPSTREAM_MALFORMED: { status: 502, text: 'The upstream sent a malformed response.' },
  UPSTREAM_TIMEOUT: { status: 504, text: 'The upstream did not answer in time.' },
  UPSTREAM_GONE: { status: 502, text: 'The upstream closed the connection before its response was complete.' },
  INTERNAL_ERROR: { status: 500, text: 'A defect of Sluice. The log has the details.' },
  METHOD_REFUSED: { status: 405, close: true, text: 'The methods CONNECT and TRACE are not served.' },
  BAD_TARGET: {
    status: 400,
    close: true,
    text: 'The request target has no normal form: a fragment, a broken escape, another authority than Host.'
  },
  IP_RESTRICTED: { status: 403, text: 'The IP restriction of all endpoints excludes the address of the client.' },
  HTTPS_REQUIRED: { status: 403, text: 'The endpoint is served over HTTPS only, and the request came without TLS.' },
  NO_ROUTE: { status: 404, text: 'No endpoint serves the host and path.' },
  INTERNAL_ENTRY_GONE: { status: 503, text: 'A policy forwards to an internal endpoint that no longer exists.' },
  TOO_MANY_HOPS: { status: 508, text: 'Internal endpoints forward to each other without end.' },
  NO_UPSTREAM: { status: 503, text: 'The endpoint has no upstream.' },
  PATH_ENCODED_SLASH: { status: 400, text: 'The path contains an encoded slash.' },
  PATH_BACKSLASH: { status: 400, text: 'The path contains a backslash.' },
  PATH_ENCODED_CONTROL: { status: 400, text: 'The path contains an encoded control character.' },
  PATH_DOT_PARAMETERS: { status: 400, text: 'The path contains a dot segment with parameters.' }
})

/** The error of every failure that a transport reports. */
export const FAILURES: Readonly<Record<Failure, FailureAnswer>> = {
  'client-gone': flowErrors.CLIENT_GONE,
  'client-malformed': flowErrors.BAD_REQUEST,
  'client-timeout': flowErrors.REQUEST_TIMEOUT,
  'client-reset-flood': flowErrors.RESET_FLOOD,
  'too-large': flowErrors.TOO_LARGE,
  draining: flowErrors.DRAINING,
  overloaded: flowErrors.OVERLOADED,
  'dial-refused': flowErrors.UPSTREAM_REFUSED,
  'dial-timeout': flowErrors.UPSTREAM_CONNECT_TIMEOUT,
  'dial-tls': flowErrors.UPSTREAM_TLS,
  'no-tunnel': flowErrors.NO_TUNNEL,
  'upstream-malformed': flowErrors.UPSTREAM_MALFORMED,
  'upstream-timeout': flowErrors.UPSTREAM_TIMEOUT,
  'upstream-gone': flowErrors.UPSTREAM_GONE,
  internal: flowErrors.INTERNAL_ERROR
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
export const requestErrors = {
  method: flowErrors.METHOD_REFUSED,
  target: flowErrors.BAD_TARGET,
  restricted: flowErrors.IP_RESTRICTED,
  httpsRequired: flowErrors.HTTPS_REQUIRED,
  route: flowErrors.NO_ROUTE,
  internalEntry: flowErrors.INTERNAL_ENTRY_GONE,
  hops: flowErrors.TOO_MANY_HOPS,
  upstream: flowErrors.NO_UPSTREAM,
  internal: flowErrors.INTERNAL_ERROR
} as const satisfies Record<string, FailureAnswer>

/** Why the path of a request has no strict form, for the client. */
export const pathErrors: Readonly<Record<PathProblem, FailureAnswer>> = {
  'not-a-path': flowErrors.BAD_TARGET,
  'encoded-slash': flowErrors.PATH_ENCODED_SLASH,
  backslash: flowErrors.PATH_BACKSLASH,
  'encoded-control': flowErrors.PATH_ENCODED_CONTROL,
  'dot-parameters': flowErrors.PATH_DOT_PARAMETERS
}
