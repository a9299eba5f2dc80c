import type { Clock } from '../../../lib/clock.js'
import type { Outbound } from '../../../lib/http-client/outbound.js'
import { type BatchRejection, BatchSender, failureOf, joined, jsonOf, LIST, wordOf } from './payload.js'
import { beforeEvents, type SendFailure } from './sender.js'

export interface AzureLogsParts {
  readonly tenant: string
  readonly clientId: string
  readonly clientSecret: string
  /** URL (https) of the data collection endpoint. */
  readonly uri: string
  readonly rule: string
  readonly stream: string
  readonly outbound: Outbound
  readonly clock: Clock
}

/** A request holds a million bytes at most, with the brackets and commas of its list. */
const LIMITS = { events: 1_000, bytes: 999_000, eventBytes: 999_000, overhead: 1 }
/** Time limit of one request (ms). */
const DEADLINE = 15_000
/** Maximum bytes of a response. */
const MOST_BYTES = 65_536
/** A token that ends sooner than this, in milliseconds, is not used any more. */
const MARGIN = 60_000

/** Login URL and audience by the suffix of the ingestion host; all other hosts belong to the public cloud. */
const CLOUDS = [
  { end: '.azure.us', login: 'https://login.microsoftonline.us', audience: 'https://monitor.azure.us' },
  { end: '.azure.cn', login: 'https://login.partner.microsoftonline.cn', audience: 'https://monitor.azure.cn' }
]
const PUBLIC = { login: 'https://login.microsoftonline.com', audience: 'https://monitor.azure.com' }

/** The Logs Ingestion API of Azure Monitor: lists of events, with a token that the application gets by its secret. */
export class AzureLogs extends BatchSender {
  readonly most = 100
  readonly #parts: AzureLogsParts
  #token: { readonly text: string; readonly until: number } | undefined

  constructor(parts: AzureLogsParts) {
    super(LIMITS)
    this.#parts = parts
  }

  protected async put(events: readonly string[], signal: AbortSignal): Promise<BatchRejection | undefined> {
    const { uri, rule, stream, outbound } = this.#parts
    const token = await this.#authorized(signal)
    if (typeof token !== 'string') return token
    const path = `dataCollectionRules/${encodeURIComponent(rule)}/streams/${encodeURIComponent(stream)}`
    const answer = await outbound.request({
      method: 'POST',
      repeatable: true,
      url: `${uri.replace(/\/$/, '')}/${path}?api-version=2023-01-01`,
      headers: ['content-type', 'application/json', 'authorization', `Bearer ${token}`],
      body: joined(events, LIST),
      deadline: DEADLINE,
      maxResponseBytes: MOST_BYTES,
      signal
    })
    // Rights may have changed since the token was given.
    if (answer.ok && (answer.status === 401 || answer.status === 403)) this.#token = undefined
    return failureOf(answer)
  }

  /** Returns a token (RFC 6749 4.4), or the failure. */
  async #authorized(signal: AbortSignal): Promise<string | SendFailure> {
    const { tenant, clientId, clientSecret, uri, outbound, clock } = this.#parts
    const now = clock.monotonic()
    if (this.#token !== undefined && now < this.#token.until) return this.#token.text
    const { login, audience } = CLOUDS.find(({ end }) => new URL(uri).hostname.endsWith(end)) ?? PUBLIC
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: clientSecret,
      scope: `${audience}/.default`
    })
    const answer = await outbound.request({
      method: 'POST',
      repeatable: true,
      url: `${login}/${encodeURIComponent(tenant)}/oauth2/v2.0/token`,
      headers: ['content-type', 'application/x-www-form-urlencoded'],
      body: Buffer.from(form.toString()),
      deadline: DEADLINE,
      maxResponseBytes: MOST_BYTES,
      signal
    })
    const data = answer.ok ? jsonOf(answer.body) : {}
    const failure = failureOf(answer)
    const error = wordOf(data.error)
    if (failure !== undefined) {
      return beforeEvents({ ...failure, message: `no token: ${failure.message}${error && ` (${error})`}` })
    }
    const { access_token: text, expires_in: seconds } = data
    if (typeof text !== 'string' || typeof seconds !== 'number') return { message: 'no token: the answer holds none' }
    this.#token = { text, until: now + seconds * 1000 - MARGIN }
    return text
  }
}
