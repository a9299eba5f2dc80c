import type { OutboundError, OutboundResponse } from '../../../lib/http-client/answer.js'
import type { Batch, Sender, SendFailure } from './sender.js'

/** A receiver that asks for more is asked again after this, in milliseconds. */
const LONGEST_WAIT = 3_600_000

/** Credentials that it does not accept, and a receiver that has no time: every event meets them. */
const OF_THE_RECEIVER: ReadonlySet<number> = new Set([401, 407, 408, 425, 429, 502, 503, 504, 507])
/** What a wrong address gets for every event, and a filter before the receiver gives for one. */
const UNCLEAR: ReadonlySet<number> = new Set([402, 403, 404, 405, 410, 421, 423, 426, 451])
/** Failures by which a receiver may fall over one event. */
const UNCLEAR_FAILURES: ReadonlySet<string> = new Set(['BROKEN', 'RESPONSE_MALFORMED', 'RESPONSE_TOO_LARGE'])

/** What the answer of a receiver means: any status of 2xx has taken it, everything else has not. */
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
    // Whatever it is, it says nothing.
    return {}
  }
}

/** A code that may be repeated to people; '' when it is anything but one word. */
export function wordOf(value: unknown): string {
  return typeof value === 'string' && WORD.test(value) ? value : ''
}

/** The objects of a list; empty when it is none. */
export function objectsOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(value)) return []
  return value.map((item: unknown) =>
    typeof item === 'object' && item !== null ? (item as Record<string, unknown>) : {}
  )
}

/** What stands around and between texts, in ASCII; `between` is one character. */
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

/** What a service takes at once. Bytes are those of the UTF-8 texts. */
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
  /** The batch that it is the rest of. */
  readonly first: string
  readonly last: string
  readonly size: number
  /** What was not taken, in the order of the batch. */
  events: readonly Left[]
}

interface Left {
  /** In the batch. */
  readonly place: number
  readonly text: string
}

/**
 * A sender to a service that takes batches of limited size. It cuts what it is given into such batches and remembers what was
 * taken, so that a repetition holds nothing else. An event that is larger than any that the service takes goes without its
 * object, and says so: waiting for ever would hold up all that follow.
 */
export abstract class BatchSender implements Sender {
  abstract readonly most: number
  readonly #limits: BatchLimits
  /** By queue: one sends events of traffic, the other one all others. */
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

  /** What is left of a batch; all of it unless it was begun before. */
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

/** Events before the first that was not taken; nothing when there are none. */
function takenBefore({ place }: Left = { place: 0, text: '' }): { taken?: number } {
  return place === 0 ? {} : { taken: place }
}
