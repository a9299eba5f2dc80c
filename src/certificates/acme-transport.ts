import type { Clock } from '../lib/clock.js'
import type { Outbound } from '../lib/http-client/outbound.js'
import { AcmeError, readProblem, refusedRequest } from './acme-error.js'

/** An answer as the client of the protocol reads it. */
export interface AcmeAnswer {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Parsed JSON, or text when it is something else. */
  readonly data: unknown
}

export interface TransportParts {
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
