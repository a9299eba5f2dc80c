import type { Clock } from '../../lib/clock.js'
import type { AwsAnswer, AwsService } from './aws-service.js'
import { Batches, type Refusal } from './batches.js'
import { beforeEvents, type Parcel, type Sender, type SendFailure } from './sender.js'

export interface CloudWatchLogsParts {
  readonly service: AwsService
  /** Name of the log group. */
  readonly group: string
  readonly clock: Clock
}

/** Name of the log stream in the group of the user. It is made when it is missing. */
const STREAM = 'sluice'
const OVERHEAD = 26
const CLOUDWATCH_LIMITS = { events: 10_000, bytes: 1_048_576, eventBytes: 1_000_000, overhead: OVERHEAD }
/**
 * A batch spans a day at most, and what is older than the retention of the group, a day at least, is refused. An event that
 * has waited for longer gets this age, in milliseconds; it says itself when it happened.
 */
const OLDEST = 12 * 3_600_000

/** A log group of Amazon CloudWatch Logs: a log event for each event, in the log stream `sluice`. */
export class CloudWatchLogs implements Sender {
  readonly most = 100
  readonly #parts: CloudWatchLogsParts
  readonly #batches = new Batches(CLOUDWATCH_LIMITS, (events, _list, signal) => this.#put(events, signal))

  constructor(parts: CloudWatchLogsParts) {
    this.#parts = parts
  }

  async send(parcel: Parcel, signal: AbortSignal): Promise<SendFailure | undefined> {
    return await this.#batches.send(parcel, signal)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  async #put(events: readonly string[], signal: AbortSignal): Promise<Refusal | undefined> {
    const { group, clock } = this.#parts
    const logEvents = timed(events, clock.wall())
    const body = { logGroupName: group, logStreamName: STREAM, logEvents }
    const put = () => this.#call('PutLogEvents', body, signal)
    let answer = await put()
    if (!answer.ok && answer.error === 'ResourceNotFoundException') {
      const made = await this.#call('CreateLogStream', { logGroupName: group, logStreamName: STREAM }, signal)
      // Another process may have made it at the same time.
      if (!made.ok && made.error !== 'ResourceAlreadyExistsException') return beforeEvents(made.failure)
      answer = await put()
    }
    // Of a repetition whose first answer was lost.
    if (!answer.ok && answer.error === 'DataAlreadyAcceptedException') return undefined
    return answer.ok ? rejected(answer.data.rejectedLogEventsInfo, events.length) : answer.failure
  }

  #call(operation: string, body: object, signal: AbortSignal): Promise<AwsAnswer> {
    return this.#parts.service.call(`Logs_20140328.${operation}`, body, signal)
  }
}

/** With their times, which must not fall from one to the next. */
function timed(events: readonly string[], now: number): { timestamp: number; message: string }[] {
  let last = Math.floor(now - OLDEST)
  return events.map((message) => {
    const { event_timestamp: text } = JSON.parse(message) as { readonly event_timestamp?: string }
    const at = Math.min(Date.parse(text ?? ''), now)
    if (at > last) last = Math.floor(at)
    return { timestamp: last, message }
  })
}

/** Places of the events whose time the service does not take: it looks at the beginning and the end of the batch. */
function rejected(info: unknown, events: number): Refusal | undefined {
  if (typeof info !== 'object' || info === null) return undefined
  const { tooNewLogEventStartIndex: newFrom, ...ends } = info as Readonly<Record<string, unknown>>
  const oldTo = Math.max(0, indexOf(ends.tooOldLogEventEndIndex), indexOf(ends.expiredLogEventEndIndex))
  const from = typeof newFrom === 'number' ? newFrom : events
  const places = [...Array(events).keys()].filter((place) => place < oldTo || place >= from)
  if (places.length === 0) return undefined
  return { message: `the service refused the time of ${places.length} of ${events} events`, places }
}

function indexOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}
