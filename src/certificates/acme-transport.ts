import type { Clock } from '../lib/clock.js'
import { CodedError } from '../lib/errors.js'
import type { Outbound } from '../lib/http-client/outbound.js'
import { provisioningErrors } from '../resources/domains.js'

/** What an error means for the request of a certificate. */
type AcmeFailure = keyof typeof provisioningErrors

/** The authority refused, failed, or sent what cannot be understood. `message` is for users; it holds no key and no token. */
export class AcmeError extends CodedError {
  override readonly code: AcmeFailure
  /** Milliseconds before this request may be made again. */
  readonly retryAfter: number
  /** Milliseconds that the authority is to be left alone with any request. */
  readonly pause: number
  /** Does the authority no longer know our account? */
  readonly accountLost: boolean
  /** Status of the answer; 0: there was none. */
  readonly status: number
  /** Kind of its problem (RFC 8555 6.7); '' when it has none. */
  readonly kind: string

  constructor(
    code: AcmeFailure,
    message: string,
    about: {
      readonly retryAfter?: number
      readonly pause?: number
      readonly accountLost?: boolean
      readonly status?: number
      readonly kind?: string
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
  /** Last word of its type; '' when it is not one of ACME. */
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

/**
 * An authority that is overloaded (503) says when it is not. A limit (429) may be that of one domain alone, so others wait for a
 * minute at most: they then learn their own.
 */
function pauseOf(status: number, retryAfter: number): number {
  if (status === 503) return Math.min(Math.max(retryAfter, MINUTE), LONGEST_PAUSE_WHEN_BUSY)
  return status === 429 ? MINUTE : 0
}

/** What an answer with an error status means. */
function refusedRequest(status: number, problem: AcmeProblem, retryAfter: number): AcmeError {
  const said = problem.detail === '' ? '' : `: ${problem.detail}`
  const what = problem.kind === '' ? `status ${status}` : `${problem.kind} (${status})`
  const toCorrect = problem.kind === 'rejectedIdentifier' || problem.kind === 'caa' || problem.kind === 'dns'
  return new AcmeError(toCorrect ? 'DNS_ERROR' : 'INTERNAL_ERROR', `the authority answered ${what}${said}`, {
    retryAfter,
    pause: pauseOf(status, retryAfter),
    accountLost: problem.kind === 'accountDoesNotExist',
    status,
    kind: problem.kind
  })
}

/** An answer as the client of the protocol reads it. */
interface AcmeAnswer {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Parsed JSON, or text when it is something else. */
  readonly data: unknown
}

interface TransportParts {
  /** May reach private addresses: the operator names the authority. */
  readonly outbound: Outbound
  readonly clock: Clock
}

const DEADLINE = 30_000
const MOST_BYTES = 512 * 1024
const LONGEST_PAUSE = 24 * 3_600_000

/**
 * Sends the requests of the protocol. Answers with an error fail with an `AcmeError`, apart from `badNonce`, after which the
 * client tries again itself (RFC 8555 6.5). Nothing waits here for what Retry-After says.
 */
export class AcmeTransport {
  readonly #parts: TransportParts

  constructor(parts: TransportParts) {
    this.#parts = parts
  }

  async request(url: string, method: string, body: unknown): Promise<AcmeAnswer> {
    const { outbound, clock } = this.#parts
    const answer = await outbound.request({
      method: method.toUpperCase(),
      url,
      headers: ['content-type', 'application/jose+json', 'user-agent', 'sluice', 'accept-language', 'en'],
      body: body === undefined ? undefined : Buffer.from(JSON.stringify(body)),
      deadline: DEADLINE,
      maxResponseBytes: MOST_BYTES
    })
    if (!answer.ok) {
      throw new AcmeError('INTERNAL_ERROR', `the authority cannot be reached: ${answer.message}`)
    }
    const headers = headersOf(answer.headers)
    const { status } = answer
    const data = contentOf(Buffer.from(answer.body).toString('utf8'), headers['content-type'] ?? '')
    if (status >= 400 || status < 200) {
      const problem = readProblem(data)
      if (problem.kind !== 'badNonce') {
        throw refusedRequest(status, problem, retryAfterOf(headers['retry-after'], clock.wall()))
      }
    } else if (status >= 300) {
      throw new AcmeError('INTERNAL_ERROR', `the authority answered with a redirect (${status})`)
    }
    return { status, headers, data }
  }
}

function headersOf(list: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = Object.create(null)
  for (let i = 0; i < list.length; i += 2) headers[(list[i] as string).toLowerCase()] = list[i + 1] as string
  return headers
}

function contentOf(text: string, type: string): unknown {
  // An answer to HEAD, a nonce for example, has the type of a content that it does not have (RFC 9110 9.3.2).
  if (text === '' || !/^application\/([a-z.-]+\+)?json\b/i.test(type)) return text
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new AcmeError('INTERNAL_ERROR', 'the authority answered with what is no JSON', { cause: error })
  }
}

/** Milliseconds of a Retry-After (RFC 9110 10.2.3), a day at most; 0 when it says nothing. */
export function retryAfterOf(value: string | undefined, now: number): number {
  if (value === undefined) return 0
  const wait = /^\d{1,9}$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now
  return Number.isFinite(wait) ? Math.min(Math.max(wait, 0), LONGEST_PAUSE) : 0
}
