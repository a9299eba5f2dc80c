import type { OutboundError, OutboundResponse } from '../../../lib/http-client/answer.js'
import type { Batch, Sender, SendFailure } from './sender.js'

/** Maximum wait that a receiver can request (ms). */
const LONGEST_WAIT = 3_600_000

/** Credentials that it does not accept, and a receiver that has no time: every event meets them. */
const OF_THE_RECEIVER: ReadonlySet<number> = new Set([401, 407, 408, 425, 429, 502, 503, 504, 507])
/** Statuses that a wrong address returns for every event, and a filter in front of the receiver for one. */
const UNCLEAR: ReadonlySet<number> = new Set([402, 403, 404, 405, 410, 421, 423, 426, 451])
/** Failures by which a receiver may fall over one event. */
const UNCLEAR_FAILURES: ReadonlySet<string> = new Set(['BROKEN', 'RESPONSE_MALFORMED', 'RESPONSE_TOO_LARGE'])

/** Returns the failure of a response: every 2xx status is a success, all others are failures. */
export function failureOf(answer: OutboundResponse | OutboundError): SendFailure | undefined {
  if (!answer.ok) {
    const message = `${answer.code}: ${answer.message}`
    return UNCLEAR_FAILURES.has(answer.code) ? { message, fault: 'unclear' } : { message }
  }
  const { status } = answer
  if (status >= 200 && status < 300) return undefined
  const redirect = status >= 300 && status < 400 ? '; redirects are not followed' : ''
  const fault = faultOf(status)
  return {
    message: `the receiver answered ${status}${redirect}`,
    retryAfter: retryAfterOf(answer),
    ...(fault === undefined ? {} : { fault })
  }
}

function faultOf(status: number): SendFailure['fault'] {
  if (status < 400 || OF_THE_RECEIVER.has(status)) return undefined
  return status >= 500 || UNCLEAR.has(status) ? 'unclear' : 'event'
}

/** RFC 9110 10.2.3, seconds only: a date would need the receiver's clock to be right. */
function retryAfterOf({ headers }: OutboundResponse): number | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() !== 'retry-after') continue
    const seconds = headers[i + 1] ?? ''
    return /^\d{1,6}$/.test(seconds) ? Math.min(Number(seconds) * 1000, LONGEST_WAIT) : undefined
  }
  return undefined
}

const WORD = /^\w{1,80}$/

/** The object that a body holds; empty when it holds something else. */
export function jsonOf(body: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    // The body has no usable content.
    return {}
  }
}

/** Returns a code that is safe to display; '' unless it is a single word. */
export function wordOf(value: unknown): string {
  return typeof value === 'string' && WORD.test(value) ? value : ''
}

/** Returns the objects of a list; empty for any other value. */
export function objectsOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(value)) return []
  return value.map((item: unknown) =>
    typeof item === 'object' && item !== null ? (item as Record<string, unknown>) : {}
  )
}

/** ASCII text around and between the events of a batch; `between` is one character. */
interface Frame {
  readonly before: string
  readonly between: string
  readonly after: string
}

/** A line for each. */
export const LINES: Frame = { before: '', between: '\n', after: '\n' }
/** A JSON list. */
export const LIST: Frame = { before: '[', between: ',', after: ']' }

/**
 * The texts in UTF-8 within a frame. Each is written where it belongs: one long text of all of them, made only to be encoded,
 * takes twice as long, and requests wait meanwhile.
 */
export function joined(texts: readonly string[], { before, between, after }: Frame): Buffer {
  let length = before.length + after.length + Math.max(0, texts.length - 1)
  for (const text of texts) length += Buffer.byteLength(text)
  const bytes = Buffer.allocUnsafe(length)
  const mark = between.charCodeAt(0)
  let at = bytes.write(before, 0)
  for (const [place, text] of texts.entries()) {
    if (place > 0) bytes[at++] = mark
    at += bytes.write(text, at)
  }
  bytes.write(after, at)
  return bytes
}

/** Limits of a service for one batch. Bytes are those of the UTF-8 texts. */
interface BatchLimits {
  /** Most events of one batch. */
  readonly events: number
  /** Most bytes of one batch. */
  readonly bytes: number
  /** Most bytes of one event, at most those of a batch. */
  readonly eventBytes: number
  /** Bytes that the service counts for each event beside its text. */
  readonly overhead: number
}

/** Why a batch was not taken, or not as a whole. */
export interface BatchRejection extends SendFailure {
  /** Places in the batch of the events that were not taken, ascending. Left out: none was taken. */
  readonly places?: readonly number[]
}

interface Rest {
  /** Identifies the batch by its first event. */
  readonly first: string
  readonly last: string
  readonly size: number
  /** Rejected events, in the order of the batch. */
  events: readonly Left[]
}

interface Left {
  /** In the batch. */
  readonly place: number
  readonly text: string
}

/**
 * A sender to a service that accepts batches of limited size. It splits its input into such batches and remembers accepted
 * events, so that a retry sends only the others. An event above the size limit is sent without its object, and says so;
 * otherwise it would block all later events.
 */
export abstract class BatchSender implements Sender {
  abstract readonly most: number
  readonly #limits: BatchLimits
  /** Unsent events by queue: one for traffic events, one for all others. */
  readonly #rests = new Map<boolean, Rest>()

  constructor(limits: BatchLimits) {
    this.#limits = limits
  }

  /** Hands one batch to the service; undefined when all of it was taken. `list`: are they events of traffic? */
  protected abstract put(
    events: readonly string[],
    signal: AbortSignal,
    list: boolean
  ): Promise<BatchRejection | undefined>

  async send({ events, list }: Batch, signal: AbortSignal): Promise<SendFailure | undefined> {
    const rest = this.#restOf(events, list)
    while (rest.events.length > 0) {
      const batch = rest.events.slice(0, this.#fitting(rest.events))
      const texts = batch.map(({ text }) => text)
      const refusal = await this.put(texts, signal, list)
      if (refusal === undefined) rest.events = rest.events.slice(batch.length)
      else {
        const { places, ...failure } = refusal
        if (places === undefined) return { ...failure, ...takenBefore(batch[0]) }
        const refused = places.map((place) => batch[place]).filter((event) => event !== undefined)
        rest.events = [...refused, ...rest.events.slice(batch.length)]
        return failure
      }
    }
    this.#rests.delete(list)
    return undefined
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  /** Returns the unsent events of a batch: all of them on the first attempt. */
  #restOf(events: readonly string[], list: boolean): Rest {
    const known = this.#rests.get(list)
    const [first = '', last = ''] = [events[0], events.at(-1)]
    // The id of a batch is that of its first event: another one may begin with the same and be longer.
    if (known?.first === first && known.last === last && known.size === events.length) return known
    const rest = {
      first,
      last,
      size: events.length,
      events: events.map((event, place) => ({ place, text: this.#bounded(event) }))
    }
    this.#rests.set(list, rest)
    return rest
  }

  #bounded(event: string): string {
    const { eventBytes, overhead } = this.#limits
    if (Buffer.byteLength(event) + overhead <= eventBytes) return event
    const envelope = JSON.parse(event) as Record<string, unknown>
    return JSON.stringify({ ...envelope, object: null, object_omitted: true })
  }

  #fitting(events: readonly Left[]): number {
    const { bytes, overhead, events: most } = this.#limits
    let sum = 0
    let count = 0
    for (const { text } of events) {
      sum += Buffer.byteLength(text) + overhead
      if (count === most || (sum > bytes && count > 0)) break
      count += 1
    }
    return count
  }
}

/** Returns the number of events before the first rejected one; empty for 0. */
function takenBefore({ place }: Left = { place: 0, text: '' }): { taken?: number } {
  return place === 0 ? {} : { taken: place }
}
