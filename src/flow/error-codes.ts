import { defineErrors } from '../lib/errors.js'
import type { Failure } from './exchange.js'
import type { PathProblem } from './target.js'
import { refuse, type Verdict } from './verdict.js'

/** Response to a rejected or failed exchange: status for the client, `sluice-error-code`, and metric label. */
export interface FailureAnswer {
  readonly status: number
  readonly code: string
  /** Closes the connection after the response. */
  readonly close?: boolean
}

/** Error codes of the data plane outside features: transport, pipeline and buffered bodies. */
export const flowErrors = defineErrors({
  CLIENT_GONE: {
    status: 499,
    text: 'The client has disconnected. It gets no answer; the status is for the log.',
    help: 'Nothing, unless it happens often: then look whether the upstream takes longer than clients wait.'
  },
  BAD_REQUEST: {
    status: 400,
    text: 'The request is malformed.',
    help: 'Correct the client: the request does not follow RFC 9112 or RFC 9113.'
  },
  REQUEST_TIMEOUT: {
    status: 408,
    text: 'The client was too slow to send its request.',
    help: 'Send it again on a better connection, or raise timeouts.headers and timeouts.request_body.'
  },
  RESET_FLOOD: {
    status: 429,
    text: 'The client has reset too many streams of its connection.',
    help: 'Let requests run to their end; a client that does this is faulty or an attacker.'
  },
  TOO_LARGE: {
    status: 413,
    text: 'The request is larger than the limit.',
    help: 'Send less, or raise limits.header_bytes, limits.headers or limits.target_bytes.'
  },
  DRAINING: {
    status: 503,
    text: 'The process is shutting down and takes no new requests.',
    help: 'Send the request again; another process or the restarted one serves it.'
  },
  OVERLOADED: {
    status: 503,
    text: 'The process is at its limit and takes no more requests.',
    help: 'Try again later; add processes or raise limits.connections when it happens often.'
  },
  DESCRIPTORS_USED_UP: {
    status: 503,
    text: 'The process has no file descriptor left for a connection to the upstream.',
    help: 'Raise the limit of open files (ulimit -n, LimitNOFILE, --ulimit nofile) or lower limits.connections; the upstream is not to blame.'
  },
  UPSTREAM_REFUSED: {
    status: 502,
    text: 'No connection to the upstream could be opened.',
    help: 'Look whether the upstream runs and whether its address in the backend is right.'
  },
  UPSTREAM_CONNECT_TIMEOUT: {
    status: 504,
    text: 'The upstream did not accept a connection in time.',
    help: 'Look at the network between Sluice and the upstream, and at firewalls.'
  },
  UPSTREAM_TLS: {
    status: 502,
    text: 'The TLS handshake with the upstream failed.',
    help: 'Look at the certificate of the upstream and at the TLS settings of the backend.'
  },
  UPSTREAM_CERTIFICATE_UNTRUSTED: {
    status: 502,
    text: 'The certificate of the upstream comes from an authority that is not trusted.',
    help: 'The log names the authority. Give its certificate in tls.ca_pem of the backend, or pin the certificate in tls.pins.'
  },
  UPSTREAM_CERTIFICATE_NAME: {
    status: 502,
    text: 'The certificate of the upstream is for other names.',
    help: 'The log says which. Set tls.server_name of the backend to one of them, or give the upstream another certificate.'
  },
  UPSTREAM_CERTIFICATE_EXPIRED: {
    status: 502,
    text: 'The certificate of the upstream is not valid any more, or not yet.',
    help: 'Renew the certificate of the upstream; look at the clocks of both machines.'
  },
  UPSTREAM_CERTIFICATE_PIN: {
    status: 502,
    text: 'The certificate of the upstream is none of those that the backend pins.',
    help: 'The log has its hashes. If the change was meant, add one of them to tls.pins of the backend.'
  },
  UPSTREAM_TLS_VERSION: {
    status: 502,
    text: 'The upstream speaks no version of TLS that the backend permits.',
    help: 'Let the upstream speak TLS 1.3 or 1.2, or lower tls.min_version of the backend to 1.2.'
  },
  UPSTREAM_CLIENT_CERTIFICATE: {
    status: 502,
    text: 'The upstream refuses the client certificate, or wants one.',
    help: 'Set tls.client_certificate_id of the backend, in a site file tls.client_certificate, to a certificate that the upstream trusts.'
  },
  NO_TUNNEL: { status: 503, text: 'No agent serves the endpoint.', help: 'Start the agent that serves it.' },
  UPSTREAM_BUSY: {
    status: 503,
    text: 'The servers of the backend carry as many requests as max_connections permits, and the queue was full or took too long.',
    help: 'Try again later; add servers, or raise max_connections, queue.length or queue.timeout of the backend when it happens often.'
  },
  UPSTREAM_MALFORMED: {
    status: 502,
    text: 'The upstream sent a malformed response.',
    help: 'Correct the upstream, or look whether it speaks the protocol that the backend names.'
  },
  UPSTREAM_TIMEOUT: {
    status: 504,
    text: 'The upstream did not answer in time.',
    help: 'Find out why the upstream is slow, or raise timeouts.response.'
  },
  UPSTREAM_GONE: {
    status: 502,
    text: 'The upstream closed the connection before its response was complete.',
    help: 'Look into the log of the upstream; it may have crashed or been restarted.'
  },
  INTERNAL_ERROR: {
    status: 500,
    text: 'A defect of Sluice. The log has the details.',
    help: 'Report it with the lines of the log.'
  },
  METHOD_REFUSED: {
    status: 405,
    close: true,
    text: 'The methods CONNECT and TRACE are not served.',
    help: 'Use another method.'
  },
  BAD_TARGET: {
    status: 400,
    close: true,
    text: 'The request target has no normal form: a fragment, a broken escape, another authority than Host.',
    help: 'Correct the URL that the client sends.'
  },
  IP_RESTRICTED: {
    status: 403,
    text: 'An IP restriction excludes the address of the client.',
    help: 'Add the address to the IP policies or the lists of the restriction if it should have access.'
  },
  HTTPS_REQUIRED: {
    status: 403,
    text: 'The endpoint is served over HTTPS only, and the request came without TLS.',
    help: 'Use https, or set edges_on_http to serve.'
  },
  NO_ROUTE: {
    status: 404,
    text: 'No endpoint serves the host and path.',
    help: 'Look at the hostports of the edges and the matches of their routes.'
  },
  MISDIRECTED_REQUEST: {
    status: 421,
    text: 'The TLS handshake of the connection was held for another host, or against less than this host asks for.',
    help: 'Send the request on a new connection whose TLS name is the host; browsers do so by themselves.'
  },
  INTERNAL_ENTRY_GONE: {
    status: 503,
    text: 'A policy forwards to an internal endpoint that no longer exists.',
    help: 'Create the internal endpoint or correct the action forward-internal.'
  },
  TOO_MANY_HOPS: {
    status: 508,
    text: 'Internal endpoints forward to each other without end.',
    help: 'Remove the circle from the policies of the internal endpoints.'
  },
  NO_UPSTREAM: {
    status: 503,
    text: 'The endpoint has no upstream.',
    help: 'Give the route or edge a backend, and the backend a member that serves.'
  },
  POLICY_WITHOUT_ANSWER: {
    status: 404,
    text: 'The policy of a cloud endpoint ended without an answer.',
    help: 'End its rules with custom-response, deny, redirect or forward-internal.'
  },
  PATH_ENCODED_SLASH: {
    status: 400,
    text: 'The path contains an encoded slash.',
    help: 'Write the path without it, or set path_form to lenient if the upstream needs such paths.'
  },
  PATH_BACKSLASH: {
    status: 400,
    text: 'The path contains a backslash.',
    help: 'Write the path without it, or set path_form to lenient if the upstream needs such paths.'
  },
  PATH_ENCODED_CONTROL: {
    status: 400,
    text: 'The path contains an encoded control character.',
    help: 'Write the path without it, or set path_form to lenient if the upstream needs such paths.'
  },
  PATH_DOT_PARAMETERS: {
    status: 400,
    text: 'The path contains a dot segment with parameters, or parameters without a segment.',
    help: 'Write the path without it, or set path_form to lenient if the upstream needs such paths.'
  },
  BODY_TOO_LARGE: {
    status: 413,
    text: 'A policy reads the body of the request, which is larger than what is kept in memory for that.',
    help: 'Send less, or raise limits.buffered_body.'
  },
  BODY_BUDGET: {
    status: 503,
    text: 'The memory for bodies that policies read is used up.',
    help: 'Try again later; raise limits.buffered_bodies when it happens often.'
  },
  BODY_SHARE: {
    status: 429,
    text: 'The client has its share of the memory for bodies that policies read.',
    help: 'Send fewer large bodies at a time, or raise limits.buffered_bodies_share.'
  },
  RESPONSE_TOO_LARGE: {
    status: 502,
    text: 'A policy reads the body of the response, which is larger than what is kept in memory for that.',
    help: 'Let the upstream send less, or raise limits.buffered_body.'
  },
  RESPONSE_ENCODING: {
    status: 502,
    text: 'A policy reads the body of the response, whose content coding is unknown or broken.',
    help: 'Let the upstream send gzip, br, deflate or no coding to routes with such policies.'
  },
  POLICY_EXPRESSION: {
    status: 500,
    text: 'An expression of a policy has no value for this request.',
    help: 'Find the rule in the log; test with has() or a default before a value that may be absent is used.'
  },
  POLICY_VALUE_ABSENT: {
    status: 500,
    text: 'An expression of a policy with strict_expressions asks for a value that the request does not have.',
    help: 'Nothing, if such requests shall be refused; else ask for the value by has() before it is used. The log names the rule.'
  },
  LOOP_DETECTED: {
    status: 508,
    text: 'The request has come back to a process that sent it, or went through too many proxies.',
    help: 'Correct the backend that leads to a listener of this process, or the proxies that lead to each other; the Via field names them.'
  },
  LOGIN_BUSY: {
    status: 503,
    text: 'The client is logged in on its connection (NTLM, Negotiate), so its streams of HTTP/2 share one upstream connection, and the one before took too long.',
    help: 'Use HTTP/1.1 for clients that log a connection in and read long answers beside others.'
  },
  CONNECTION_REFUSED: {
    text: 'A policy has closed the connection.',
    help: 'Look at the rules in on_tcp_connect and at the IP restriction if the client should have access.'
  },
  CONNECTION_BROKEN: {
    text: 'A TCP connection was broken by the client or by the upstream.',
    help: 'Look into the logs of both; nothing was refused here.'
  },
  IDLE: {
    text: 'A TCP connection, a WebSocket or another upgrade was closed because no byte went through it for too long.',
    help: 'Use keep-alives, or raise timeouts.idle; timeouts.half_closed where one side had ended.'
  }
})

/** Error codes for internal endpoints that were not called, by `forward_internal` and requests of policies. */
export const internalRequestErrors = defineErrors({
  ENDPOINT_MISSING: {
    text: 'There is no such internal endpoint.',
    help: 'Create the endpoint, or correct the host or port in the policy.'
  },
  ENDPOINT_UNNAMED: {
    text: 'An internal endpoint is only reached by a host that is written out in the policy.',
    help: 'Write the host of the internal endpoint as a constant.'
  },
  LOOP: {
    text: 'Policies of internal endpoints ask each other without end.',
    help: 'Remove the circle from the policies.'
  }
})

export type InternalRequestError = keyof typeof internalRequestErrors

/** Error for each failure that a transport reports. */
export const FAILURES: Readonly<Record<Failure, FailureAnswer>> = {
  'client-gone': flowErrors.CLIENT_GONE,
  'client-malformed': flowErrors.BAD_REQUEST,
  'client-timeout': flowErrors.REQUEST_TIMEOUT,
  'client-reset-flood': flowErrors.RESET_FLOOD,
  'too-large': flowErrors.TOO_LARGE,
  draining: flowErrors.DRAINING,
  // The status was sent when the pipe started.
  idle: { status: 101, code: flowErrors.IDLE.code },
  overloaded: flowErrors.OVERLOADED,
  'dial-refused': flowErrors.UPSTREAM_REFUSED,
  'dial-timeout': flowErrors.UPSTREAM_CONNECT_TIMEOUT,
  'dial-outrun': flowErrors.UPSTREAM_CONNECT_TIMEOUT,
  'no-descriptor': flowErrors.DESCRIPTORS_USED_UP,
  'dial-tls': flowErrors.UPSTREAM_TLS,
  'tls-untrusted': flowErrors.UPSTREAM_CERTIFICATE_UNTRUSTED,
  'tls-name': flowErrors.UPSTREAM_CERTIFICATE_NAME,
  'tls-expired': flowErrors.UPSTREAM_CERTIFICATE_EXPIRED,
  'tls-pin': flowErrors.UPSTREAM_CERTIFICATE_PIN,
  'tls-version': flowErrors.UPSTREAM_TLS_VERSION,
  'tls-client-certificate': flowErrors.UPSTREAM_CLIENT_CERTIFICATE,
  'no-tunnel': flowErrors.NO_TUNNEL,
  'upstream-busy': flowErrors.UPSTREAM_BUSY,
  'upstream-malformed': flowErrors.UPSTREAM_MALFORMED,
  'upstream-timeout': flowErrors.UPSTREAM_TIMEOUT,
  'upstream-gone': flowErrors.UPSTREAM_GONE,
  internal: flowErrors.INTERNAL_ERROR
}

/** Failures before the upstream received any part of the exchange. */
export const UNREACHED: ReadonlySet<Failure> = new Set<Failure>([
  'dial-refused',
  'dial-timeout',
  'dial-tls',
  'tls-untrusted',
  'tls-name',
  'tls-expired',
  'tls-pin',
  'tls-version',
  'tls-client-certificate',
  'no-descriptor',
  'no-tunnel'
])

/** Verdict for such a failure in a policy or module. */
export function refusalOf(failure: Failure): Verdict {
  const { status, code } = FAILURES[failure]
  // A slow client would also be slow with the rest (RFC 9110 15.5.9).
  return failure === 'client-timeout'
    ? { kind: 'respond', status, headers: [], code, close: true }
    : refuse({ status, code })
}

/** Maximum number of internal entries that one exchange or connection may pass through. */
export const MOST_HOPS = 10

/** Rejections by the pipeline itself. */
export const requestErrors = {
  method: flowErrors.METHOD_REFUSED,
  target: flowErrors.BAD_TARGET,
  restricted: flowErrors.IP_RESTRICTED,
  httpsRequired: flowErrors.HTTPS_REQUIRED,
  route: flowErrors.NO_ROUTE,
  internalEntry: flowErrors.INTERNAL_ENTRY_GONE,
  hops: flowErrors.TOO_MANY_HOPS,
  loop: flowErrors.LOOP_DETECTED,
  loginBusy: flowErrors.LOGIN_BUSY,
  upstream: flowErrors.NO_UPSTREAM,
  policyAlone: flowErrors.POLICY_WITHOUT_ANSWER,
  internal: flowErrors.INTERNAL_ERROR
} as const satisfies Record<string, FailureAnswer>

/** Errors for request paths without a strict form. */
export const pathErrors: Readonly<Record<PathProblem, FailureAnswer>> = {
  'not-a-path': flowErrors.BAD_TARGET,
  'encoded-slash': flowErrors.PATH_ENCODED_SLASH,
  backslash: flowErrors.PATH_BACKSLASH,
  'encoded-control': flowErrors.PATH_ENCODED_CONTROL,
  'dot-parameters': flowErrors.PATH_DOT_PARAMETERS
}
