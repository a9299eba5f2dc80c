import { hostname } from 'node:os'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { Batches } from './batches.js'
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
/** An entry holds a megabyte, a request five and a thousand entries; the rest is for what stands beside each event. */
const LIMITS = { events: 1_000, bytes: 4_000_000, eventBytes: 900_000, overhead: 4_096 }
const SITE = /^[a-z0-9-]+(\.[a-z0-9-]+)+$/i

/** Logs of Datadog, version 2 of their intake: a list of entries, each with one event as its message. */
export class Datadog implements Sender {
  readonly most = 100
  readonly #parts: DatadogParts
  readonly #batches = new Batches(LIMITS, (events, _list, signal) => this.#put(events, signal))

  constructor(parts: DatadogParts) {
    this.#parts = parts
  }

  async send(parcel: Parcel, signal: AbortSignal): Promise<SendFailure | undefined> {
    return await this.#batches.send(parcel, signal)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  async #put(events: readonly string[], signal: AbortSignal): Promise<SendFailure | undefined> {
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
