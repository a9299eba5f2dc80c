/** Why there is no answer. */
export type OutboundFailure =
  /** Not an absolute http or https URL, or one with a user and a password. */
  | 'URL_INVALID'
  /** The name has no address. */
  | 'NAME_UNRESOLVED'
  /** Every address is private, loopback, link-local, multicast or otherwise not public. */
  | 'ADDRESS_REFUSED'
  | 'CONNECT_FAILED'
  | 'TLS_FAILED'
  | 'TIMEOUT'
  | 'RESPONSE_TOO_LARGE'
  | 'RESPONSE_MALFORMED'
  /** The connection ended before the answer did. */
  | 'BROKEN'
  | 'ABORTED'

/** A request of our own. */
export interface OutboundRequest {
  readonly method: string
  readonly url: string
  /** Names and values by turns. Host and the framing fields are written here, unless Host is among them. */
  readonly headers?: readonly string[]
  readonly body?: Uint8Array | undefined
  /** Milliseconds from now in which the whole answer must be here. */
  readonly deadline: number
  readonly maxResponseBytes: number
  /** It does no harm twice, although its method does not say so: it may go over a connection that was used before. */
  readonly repeatable?: boolean
  readonly signal?: AbortSignal
}

/** The whole answer. */
export interface OutboundResponse {
  readonly ok: true
  readonly status: number
  /** Names and values by turns, as they came. */
  readonly headers: readonly string[]
  readonly body: Uint8Array
  /** That the connection led to. */
  readonly address: string
  readonly timeMs: number
}

/** No answer, and why. */
export interface OutboundError {
  readonly ok: false
  readonly code: OutboundFailure
  /** One sentence without data of the exchange. */
  readonly message: string
  readonly timeMs: number
}

/** What each failure says. */
const OUTBOUND_MESSAGES: Readonly<Record<OutboundFailure, string>> = {
  URL_INVALID: 'the URL is no absolute http or https URL',
  NAME_UNRESOLVED: 'the name of the host has no address',
  ADDRESS_REFUSED: 'the address of the host is not public',
  CONNECT_FAILED: 'no connection could be made',
  TLS_FAILED: 'the TLS handshake failed',
  TIMEOUT: 'the time ran out',
  RESPONSE_TOO_LARGE: 'the response is too large',
  RESPONSE_MALFORMED: 'the response is no valid HTTP message',
  BROKEN: 'the connection ended before the response did',
  ABORTED: 'the request was given up'
}

/** No answer for this reason, `timeMs` milliseconds after the request. */
export function outboundError(code: OutboundFailure, timeMs: number): OutboundError {
  return { ok: false, code, message: OUTBOUND_MESSAGES[code], timeMs }
}
