import { hostname } from 'node:os'
import type { Outbound } from '../../lib/outbound.js'
import { failureOf } from './http-answer.js'
import type { Parcel, Sender, SendFailure } from './sender.js'

export interface DatadogParts {
  readonly apiKey: string
  /** Such as `datadoghq.eu`; empty: the first of them. */
  readonly site: string
  readonly tags: string
  /** Empty: the name of this program. */
  readonly service: string
  readonly outbound: Outbound
}

const FIRST_SITE = 'datadoghq.com'
const DEADLINE = 15_000
const MAX_RESPONSE_BYTES = 65_536
const SITE = /^[a-z0-9-]+(\.[a-z0-9-]+)+$/i

/** Logs of Datadog, version 2 of their intake: a list of entries, each with one event as its message. */
export class Datadog implements Sender {
  readonly most = 100
  readonly #parts: DatadogParts

  constructor(parts: DatadogParts) {
    this.#parts = parts
  }

  async send({ events }: Parcel, signal: AbortSignal): Promise<SendFailure | undefined> {
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
      url: `https://http-intake.logs.${at}/api/v2/logs`,
      headers: ['content-type', 'application/json', 'dd-api-key', apiKey],
      body: Buffer.from(JSON.stringify(entries)),
      deadline: DEADLINE,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      signal
    })
    return failureOf(answer)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
