import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Clock } from '../../../lib/clock.js'
import { FirstFailure, pauseAfter } from '../../../lib/concurrency.js'
import type { Outbound } from '../../../lib/http-client/outbound.js'
import type { Encoding } from './encoding.js'

/** Target and settings of requests. */
interface DeliverySettings {
  /** URL of the signal, with its path. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly compression: 'none' | 'gzip'
  /** Milliseconds of one attempt. */
  readonly timeout: number
}

/** Dependencies of the delivery of OTLP requests. */
export interface DeliveryParts {
  readonly outbound: Pick<Outbound, 'request'>
  readonly settings: DeliverySettings
  readonly encoding: Pick<Encoding, 'contentType' | 'rejected'>
  readonly clock: Clock
  /** Numbers in [0, 1). */
  readonly random: () => number
  readonly log: { warn(fields: object, message: string): void; info(fields: object, message: string): void }
  /** Display name of the items: `spans`. */
  readonly what: string
}

/** Result of a request. `rejected`: number of items that the receiver rejected. */
export type Delivered =
  | { readonly kind: 'taken'; readonly rejected: number }
  | { readonly kind: 'refused' }
  | { readonly kind: 'unreachable' }
  | { readonly kind: 'stopped' }

/** Statuses after which the same request may be sent again (OTLP 1.x, "Retryable response codes"). */
const RETRYABLE = new Set([429, 502, 503, 504])
/** Attempts at one request, and pauses between them. Milliseconds. */
const MOST_ATTEMPTS = 5
/** Pauses between attempts (ms). */
const PAUSES = { first: 1_000, longest: 30_000 }
/** Longest pause that a receiver may ask for with Retry-After. Milliseconds. */
const LONGEST_ASKED = 300_000
/** Maximum bytes of a response. */
const MOST_ANSWER = 65_536
/** Maximum length of a response in messages (characters). */
const SHOWN_ANSWER = 200

const gzipped = promisify(gzip)

/** Delivers requests to a receiver of OTLP over HTTP, one after the other, again where that may help. */
export class Delivery {
  readonly #parts: DeliveryParts
  readonly #failing = new FirstFailure()
  readonly #ended = new AbortController()
  /** Ends the current pause; undefined if there is none. */
  #wake: (() => void) | undefined
  #hurries = false
  #failed = false

  constructor(parts: DeliveryParts) {
    this.#parts = parts
  }

  /** Resolves when the receiver has taken the request, or it was given up. Never rejects. */
  async deliver(request: Uint8Array): Promise<Delivered> {
    const { compression } = this.#parts.settings
    const body = compression === 'gzip' ? await gzipped(request) : request
    for (let attempt = 1; ; attempt++) {
      if (this.#ended.signal.aborted) return { kind: 'stopped' }
      const outcome = await this.#attempt(body)
      if ('kind' in outcome) return outcome
      if (this.#ended.signal.aborted) return { kind: 'stopped' }
      const { reason, after } = outcome
      if (attempt === MOST_ATTEMPTS || this.#hurries) {
        this.#fails({ reason })
        return { kind: 'unreachable' }
      }
      this.#fails({ reason })
      await this.#pause(after ?? pauseAfter(attempt, PAUSES, this.#parts.random))
    }
  }

  /** Stops retrying: current requests get one attempt. */
  hurry(): void {
    this.#hurries = true
    this.#wake?.()
  }

  /** Aborts current requests. */
  stop(): void {
    this.#ended.abort()
    this.#wake?.()
  }

  async #attempt(
    body: Uint8Array
  ): Promise<Delivered | { readonly reason: string; readonly after: number | undefined }> {
    const { outbound, settings, encoding } = this.#parts
    const { url, headers, compression, timeout } = settings
    const answer = await outbound.request({
      method: 'POST',
      url,
      headers: [
        'Content-Type',
        encoding.contentType,
        ...(compression === 'gzip' ? ['Content-Encoding', 'gzip'] : []),
        ...Object.entries(headers).flat()
      ],
      body,
      deadline: timeout,
      maxResponseBytes: MOST_ANSWER,
      // A receiver that has taken a request twice has the same spans twice, with the same ids.
      repeatable: true,
      signal: this.#ended.signal
    })
    if (!answer.ok) return { reason: answer.code, after: undefined }
    const { status } = answer
    if (status >= 200 && status < 300) return this.#taken(answer.body)
    if (RETRYABLE.has(status)) return { reason: `status ${status}`, after: this.#askedFor(answer.headers) }
    const said = Buffer.from(answer.body)
      .toString('latin1')
      .replace(/[^ -~]+/g, ' ')
    this.#fails({ reason: `status ${status}`, answer: said.slice(0, SHOWN_ANSWER) })
    return { kind: 'refused' }
  }

  #taken(answer: Uint8Array): Delivered {
    const { encoding, log, what, settings } = this.#parts
    const rejected = encoding.rejected(answer)
    if (rejected !== undefined) {
      this.#fails({ reason: 'rejected by the receiver', answer: rejected.message.slice(0, SHOWN_ANSWER) })
      return { kind: 'taken', rejected: Math.max(0, rejected.items) }
    }
    this.#failing.passed()
    if (this.#failed) log.info({ url: shownUrl(settings.url) }, `${what} are exported again`)
    this.#failed = false
    return { kind: 'taken', rejected: 0 }
  }

  /** Said once, until one is taken again. */
  #fails(fields: object): void {
    const { log, what, settings } = this.#parts
    this.#failed = true
    this.#failing.failed(() => log.warn({ url: shownUrl(settings.url), ...fields }, `${what} cannot be exported`))
  }

  /** Milliseconds of Retry-After (RFC 9110 10.2.3); undefined if missing. */
  #askedFor(headers: readonly string[]): number | undefined {
    const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === 'retry-after')
    const text = at === -1 ? '' : (headers[at + 1] ?? '')
    const wanted = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - this.#parts.clock.wall()
    return Number.isNaN(wanted) ? undefined : Math.min(LONGEST_ASKED, Math.max(0, wanted))
  }

  #pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), milliseconds)
      timer.unref()
      this.#wake = () => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve()
      }
      if (this.#hurries || this.#ended.signal.aborted) this.#wake()
    })
  }
}

/** Its query may hold a key. */
function shownUrl(url: string): string {
  return url.replace(/\?.*$/s, '')
}
