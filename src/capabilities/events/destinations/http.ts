import { createHmac } from 'node:crypto'
import { hostname } from 'node:os'
import type { Clock } from '../../../lib/clock.js'
import type { Outbound } from '../../../lib/http-client/outbound.js'
import { BatchSender, failureOf, joined, LIST } from './payload.js'
import type { Batch, Sender, SendFailure } from './sender.js'

interface DatadogParts {
  readonly apiKey: string
  /** Site such as `datadoghq.eu`; '' for the first one. */
  readonly site: string
  readonly tags: string
  /** Name of the service; '' for the name of this program. */
  readonly service: string
  readonly outbound: Outbound
}

const FIRST_SITE = 'datadoghq.com'
const DEADLINE = 15_000
const MAX_RESPONSE_BYTES = 65_536
/** Datadog limits: 1 MB an entry, 5 MB and 1,000 entries a request; the margin is for the fields beside each event. */
const LIMITS = { events: 1_000, bytes: 4_000_000, eventBytes: 900_000, overhead: 4_096 }
/** Pattern of a Datadog site. */
const SITE = /^[a-z0-9-]+(\.[a-z0-9-]+)+$/i

/** Logs of Datadog, version 2 of their intake: a list of entries, each with one event as its message. */
export class Datadog extends BatchSender {
  readonly most = 100
  readonly #parts: DatadogParts

  constructor(parts: DatadogParts) {
    super(LIMITS)
    this.#parts = parts
  }

  protected async put(events: readonly string[], signal: AbortSignal): Promise<SendFailure | undefined> {
    const { apiKey, site, tags, service, outbound } = this.#parts
    const at = site === '' ? FIRST_SITE : site
    if (!SITE.test(at)) return { message: 'ddsite is no name of a site, such as datadoghq.eu' }
    const about = {
      ddsource: 'sluice',
      ddtags: tags,
      service: service === '' ? 'sluice' : service,
      hostname: hostname()
    }
    const entries = events.map((message) => ({ ...about, message }))
    const answer = await outbound.request({
      method: 'POST',
      repeatable: true,
      url: `https://http-intake.logs.${at}/api/v2/logs`,
      headers: ['content-type', 'application/json', 'dd-api-key', apiKey],
      body: Buffer.from(JSON.stringify(entries)),
      deadline: DEADLINE,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      signal
    })
    return failureOf(answer)
  }
}

interface WebhookParts {
  readonly url: string
  readonly secret: string | undefined
  readonly outbound: Outbound
  readonly clock: Clock
}
const ONE = { ...LIST, before: '', after: '' }
const PREFIX = 'whsec_'

/**
 * POSTs events as JSON. With a secret they are signed as Standard Webhooks 1.0.0 says: HMAC-SHA256 of
 * `<id>.<timestamp>.<body>`, base64, after `v1,`. A secret that begins with `whsec_` is base64 behind that; any other secret
 * is the key itself. The timestamp identifies the attempt, the id the batch.
 */
export class Webhook implements Sender {
  readonly most = 1
  readonly #parts: WebhookParts
  readonly #key: Buffer | undefined

  constructor(parts: WebhookParts) {
    this.#parts = parts
    this.#key = parts.secret === undefined ? undefined : keyOf(parts.secret)
  }

  async send({ id, events, list }: Batch, signal: AbortSignal): Promise<SendFailure | undefined> {
    const { url, outbound, clock } = this.#parts
    const body = joined(events, list ? LIST : ONE)
    const timestamp = String(Math.floor(clock.wall() / 1000))
    const headers = ['content-type', 'application/json', 'user-agent', 'sluice', 'webhook-id', id]
    headers.push('webhook-timestamp', timestamp)
    if (this.#key !== undefined) headers.push('webhook-signature', signature(this.#key, id, timestamp, body))
    const answer = await outbound.request({
      method: 'POST',
      repeatable: true,
      url,
      headers,
      body,
      deadline: DEADLINE,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      signal
    })
    // The body of the response is ignored, even if it is too large.
    if (!answer.ok && answer.code === 'RESPONSE_TOO_LARGE')
      return { message: 'the receiver answered too much', fault: 'unclear' }
    return failureOf(answer)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

function keyOf(secret: string): Buffer {
  return secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), 'base64') : Buffer.from(secret)
}

function signature(key: Buffer, id: string, timestamp: string, body: Uint8Array): string {
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`
}
