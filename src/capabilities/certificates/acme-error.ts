import { CodedError } from '../../lib/errors.js'
import { provisioningErrors } from '../../resources/domains.js'

/** Consequence of an error for a certificate request. */
type AcmeFailure = keyof typeof provisioningErrors

/** Error of the authority, or an invalid response. `message` is for users; it contains no key and no token. */
export class AcmeError extends CodedError {
  override readonly code: AcmeFailure
  /** Milliseconds before this request may be made again. */
  readonly retryAfter: number
  /** Milliseconds during which no request may be sent to the authority. */
  readonly pause: number
  /** Does the authority no longer know our account? */
  readonly accountLost: boolean
  /** Status of the response; 0 without a response. */
  readonly status: number
  /** Kind of its problem (RFC 8555 6.7); '' when it has none. */
  readonly kind: string
  /** True if the error does not affect the order: a retry may succeed. */
  readonly passing: boolean
  /** The request was not sent: a limit of the authority is used up. */
  readonly unsent: boolean

  constructor(
    code: AcmeFailure,
    message: string,
    about: {
      readonly retryAfter?: number
      readonly pause?: number
      readonly accountLost?: boolean
      readonly status?: number
      readonly kind?: string
      readonly passing?: boolean
      readonly unsent?: boolean
      readonly cause?: unknown
    } = {}
  ) {
    super(provisioningErrors[code], message, about.cause === undefined ? {} : { cause: about.cause })
    this.name = 'AcmeError'
    this.code = code
    this.retryAfter = about.retryAfter ?? 0
    this.pause = about.pause ?? 0
    this.accountLost = about.accountLost ?? false
    this.status = about.status ?? 0
    this.kind = about.kind ?? ''
    this.unsent = about.unsent ?? false
    this.passing = about.passing ?? this.unsent
  }
}

/** Kinds of problems (RFC 8555 6.7) that a user has to correct. */
const TO_CORRECT = new Set([
  'dns',
  'caa',
  'rejectedIdentifier',
  'unauthorized',
  'incorrectResponse',
  'unsupportedIdentifier'
])
const KIND = /^urn:ietf:params:acme:error:([A-Za-z]{1,40})$/
const MOST_DETAIL = 300

/** A problem document (RFC 7807) as far as it can be believed. */
export interface AcmeProblem {
  /** Last part of the problem type; '' for types outside of ACME. */
  readonly kind: string
  readonly detail: string
}

export function readProblem(value: unknown): AcmeProblem {
  const { type, detail } = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  const kind = typeof type === 'string' ? (KIND.exec(type)?.[1] ?? '') : ''
  return { kind, detail: typeof detail === 'string' ? printable(detail) : '' }
}

/** Why a name could not be validated. `problem`: the error of its challenge or order. */
export function validationFailed(name: string, problem: AcmeProblem): AcmeError {
  const code = TO_CORRECT.has(problem.kind) ? 'DNS_ERROR' : 'INTERNAL_ERROR'
  const why = problem.detail === '' ? problem.kind || 'it gave no reason' : problem.detail
  return new AcmeError(code, `the authority could not validate ${name}: ${why}`)
}

function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what an authority sends must not steer a terminal.
  return text.slice(0, MOST_DETAIL).replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ')
}

const MINUTE = 60_000
const LONGEST_PAUSE_WHEN_BUSY = 60 * MINUTE

/** Returns the pause for an overloaded authority (503). A rate limit (429) applies to one endpoint or name only. */
function pauseOf(status: number, retryAfter: number): number {
  return status === 503 ? Math.min(retryAfter === 0 ? MINUTE : retryAfter, LONGEST_PAUSE_WHEN_BUSY) : 0
}

/** Converts a response with an error status into an error. */
export function refusedRequest(status: number, problem: AcmeProblem, retryAfter: number): AcmeError {
  const said = problem.detail === '' ? '' : `: ${problem.detail}`
  const what = problem.kind === '' ? `status ${status}` : `${problem.kind} (${status})`
  const toCorrect = problem.kind === 'rejectedIdentifier' || problem.kind === 'caa' || problem.kind === 'dns'
  return new AcmeError(toCorrect ? 'DNS_ERROR' : 'INTERNAL_ERROR', `the authority answered ${what}${said}`, {
    retryAfter,
    pause: pauseOf(status, retryAfter),
    accountLost: problem.kind === 'accountDoesNotExist',
    status,
    kind: problem.kind,
    passing: status === 429 || status >= 500 || problem.kind === 'badNonce'
  })
}
