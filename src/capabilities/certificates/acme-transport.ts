import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { isObject } from '../../lib/json.js'
import { AcmeError, readProblem, refusedRequest } from './acme-error.js'
import { type Endpoint, LONGEST_GAP, LONGEST_WAIT, type RequestPacer } from './request-pacer.js'

/** A response as the protocol's client reads it. */
interface AcmeAnswer {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Parsed JSON, or text for any other content. */
  readonly data: unknown
}

interface TransportParts {
  /** May reach private addresses: the operator names the authority. */
  readonly outbound: Outbound
  readonly clock: Clock
  /** URL of the directory of the authority. */
  readonly directory: string
  readonly pacer: RequestPacer
}

const DEADLINE = 30_000
const MOST_BYTES = 512 * 1024
const LONGEST_PAUSE = 24 * 3_600_000

/** Nonces that are kept; the newest is used first. */
const MOST_NONCES = 64
/** Refused nonces in a row after which a request fails. */
const MOST_REFUSED_NONCES = 5

/**
 * Sends the protocol's requests in sequence. Error responses fail with an `AcmeError`, except `badNonce`, after which the
 * client retries (RFC 8555 6.5). A directory or nonce request that hits a rate limit is retried; other requests do not wait
 * for Retry-After here.
 */
export class AcmeTransport {
  readonly pacer: RequestPacer
  readonly #parts: TransportParts
  /** Endpoints by the URLs that the directory names. */
  #endpoints: ReadonlyMap<string, Endpoint>
  readonly #nonces: string[] = []
  /** In a row. */
  #refusedNonces = 0

  constructor(parts: TransportParts) {
    this.#parts = parts
    this.pacer = parts.pacer
    this.#endpoints = new Map([[parts.directory, 'directory']])
  }

  /** Returns an unused nonce of an earlier response (RFC 8555 6.5); undefined if there is none. */
  takeNonce(): string | undefined {
    return this.#nonces.pop()
  }

  /** Returns the milliseconds to wait that a response requests; 0 for none. */
  retryAfter(headers: Readonly<Record<string, string>>): number {
    return retryAfterOf(headers['retry-after'], this.#parts.clock.wall())
  }

  async request(url: string, method: string, body: unknown): Promise<AcmeAnswer> {
    const endpoint = this.#endpointOf(url)
    const { pacer } = this
    for (;;) {
      await pacer.turn(endpoint)
      try {
        const answer = await this.#send(url, method, body)
        pacer.accepted(endpoint)
        if (endpoint === 'directory') this.#learn(answer.data)
        return answer
      } catch (error) {
        if (!(error instanceof AcmeError) || !LIMITED.has(error.status)) throw error
        const wait = pacer.refused(endpoint, error.retryAfter)
        // A signed request is used up: its nonce is.
        if (body !== undefined || wait > LONGEST_GAP) throw error
        if (wait > LONGEST_WAIT)
          throw new AcmeError(error.code, error.message, { ...error, retryAfter: wait, unsent: true })
      }
    }
  }

  async #send(url: string, method: string, body: unknown): Promise<AcmeAnswer> {
    const { outbound } = this.#parts
    const answer = await outbound.request({
      method: method.toUpperCase(),
      url,
      headers: ['content-type', 'application/jose+json', 'user-agent', 'sluice', 'accept-language', 'en'],
      body: body === undefined ? undefined : Buffer.from(JSON.stringify(body)),
      deadline: DEADLINE,
      maxResponseBytes: MOST_BYTES
    })
    if (!answer.ok) {
      throw new AcmeError('INTERNAL_ERROR', `the authority cannot be reached: ${answer.message}`, { passing: true })
    }
    const headers = headersOf(answer.headers)
    const { status } = answer
    const data = contentOf(Buffer.from(answer.body).toString('utf8'), headers['content-type'] ?? '')
    if (status >= 400 || status < 200) {
      const problem = readProblem(data)
      if (problem.kind === 'badNonce') await this.#nonceRefused()
      if (problem.kind !== 'badNonce' || this.#refusedNonces > MOST_REFUSED_NONCES) {
        this.#keepNonce(headers)
        this.#refusedNonces = 0
        throw refusedRequest(status, problem, this.retryAfter(headers))
      }
      return { status, headers, data }
    }
    if (status >= 300) throw new AcmeError('INTERNAL_ERROR', `the authority answered with a redirect (${status})`)
    // The nonce of a HEAD response is used immediately.
    if (body !== undefined) {
      this.#keepNonce(headers)
      this.#refusedNonces = 0
    }
    return { status, headers, data }
  }

  /** Drops stored nonces, which are probably as old. The response has a nonce for an immediate retry; after a second failure, waits a second. */
  async #nonceRefused(): Promise<void> {
    this.#nonces.length = 0
    if (++this.#refusedNonces > 1) await this.pacer.rest()
  }

  #keepNonce({ 'replay-nonce': nonce }: Readonly<Record<string, string>>): void {
    // RFC 8555 6.5.1: base64url; another one is ignored.
    if (nonce !== undefined && this.#nonces.length < MOST_NONCES && NONCE.test(nonce)) this.#nonces.push(nonce)
  }

  #learn(directory: unknown): void {
    const endpoints = new Map<string, Endpoint>([[this.#parts.directory, 'directory']])
    for (const [name, url] of Object.entries(isObject(directory) ? directory : {}))
      if (isOwnEndpoint(name) && typeof url === 'string') endpoints.set(url, name)
    this.#endpoints = endpoints
  }

  #endpointOf(url: string): Endpoint {
    const known = this.#endpoints.get(url)
    if (known !== undefined) return known
    // RFC 9773 4.1: the identifier of the certificate follows the URL.
    return this.#endpoints.get(url.slice(0, url.lastIndexOf('/'))) === 'renewalInfo' ? 'renewalInfo' : 'other'
  }
}

const LIMITED: ReadonlySet<number> = new Set([429, 503])
const NONCE = /^[A-Za-z0-9_-]{1,1024}$/
const OWN: ReadonlySet<string> = new Set<Endpoint>(['newNonce', 'newAccount', 'newOrder', 'renewalInfo'])

function isOwnEndpoint(name: string): name is Endpoint {
  return OWN.has(name)
}

function headersOf(list: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = Object.create(null)
  for (let i = 0; i < list.length; i += 2) headers[(list[i] as string).toLowerCase()] = list[i + 1] as string
  return headers
}

function contentOf(text: string, type: string): unknown {
  // A response to HEAD, such as a nonce, has the content type of a missing content (RFC 9110 9.3.2).
  if (text === '' || !/^application\/([a-z.-]+\+)?json\b/i.test(type)) return text
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new AcmeError('INTERNAL_ERROR', 'the authority answered with what is no JSON', { cause: error })
  }
}

/** Returns the milliseconds of a Retry-After header (RFC 9110 10.2.3), at most a day; 0 if there is none. */
export function retryAfterOf(value: string | undefined, now: number): number {
  if (value === undefined) return 0
  const wait = /^\d{1,9}$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now
  return Number.isFinite(wait) ? Math.min(Math.max(wait, 0), LONGEST_PAUSE) : 0
}
