import { createHmac } from 'node:crypto'
import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { failureOf } from './http-answer.js'
import { joined, LIST } from './joined.js'
import type { Parcel, Sender, SendFailure } from './sender.js'

export interface WebhookParts {
  readonly url: string
  readonly secret: string | undefined
  readonly outbound: Outbound
  readonly clock: Clock
}

/** Milliseconds for one whole attempt. */
const DEADLINE = 15_000
const MAX_RESPONSE_BYTES = 65_536
const ONE = { ...LIST, before: '', after: '' }
const PREFIX = 'whsec_'

/**
 * POSTs events as JSON. With a secret they are signed as Standard Webhooks 1.0.0 says: HMAC-SHA256 of
 * `<id>.<timestamp>.<body>`, base64, after `v1,`. A secret that begins with `whsec_` is base64 behind that; any other is
 * the key as it stands. The time stamp is that of the attempt, the id that of the parcel.
 */
export class Webhook implements Sender {
  readonly most = 1
  readonly #parts: WebhookParts
  readonly #key: Buffer | undefined

  constructor(parts: WebhookParts) {
    this.#parts = parts
    this.#key = parts.secret === undefined ? undefined : keyOf(parts.secret)
  }

  async send({ id, events, list }: Parcel, signal: AbortSignal): Promise<SendFailure | undefined> {
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
    // What the receiver says beyond its status is of no interest, not even how much of it there is.
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
