import type { Clock } from '../../../lib/clock.js'
import type { AwsAnswer, AwsService } from './aws.js'
import { type BatchRejection, BatchSender, objectsOf, wordOf } from './payload.js'
import { beforeEvents } from './sender.js'

interface CloudWatchLogsParts {
  readonly service: AwsService
  /** Name of the log group. */
  readonly group: string
  readonly clock: Clock
}

/** Name of the log stream in the user's log group, created if missing. */
const STREAM = 'sluice'
/** Bytes that CloudWatch adds for each event. */
const OVERHEAD = 26
/** Limits of one request (PutLogEvents). */
const CLOUDWATCH_LIMITS = { events: 10_000, bytes: 1_048_576, eventBytes: 1_000_000, overhead: OVERHEAD }
/**
 * Age given to older events (ms). CloudWatch accepts a batch that spans at most a day, and rejects events older than the log
 * group's retention, at least a day. Events have their own time in their text.
 */
const OLDEST = 12 * 3_600_000

/** A log group of Amazon CloudWatch Logs: a log event for each event, in the log stream `sluice`. */
export class CloudWatchLogs extends BatchSender {
  readonly most = 100
  readonly #parts: CloudWatchLogsParts

  constructor(parts: CloudWatchLogsParts) {
    super(CLOUDWATCH_LIMITS)
    this.#parts = parts
  }

  protected async put(events: readonly string[], signal: AbortSignal): Promise<BatchRejection | undefined> {
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
    // A retry after a lost response.
    if (!answer.ok && answer.error === 'DataAlreadyAcceptedException') return undefined
    return answer.ok ? rejected(answer.data.rejectedLogEventsInfo, events.length) : answer.failure
  }

  #call(operation: string, body: object, signal: AbortSignal): Promise<AwsAnswer> {
    return this.#parts.service.call(`Logs_20140328.${operation}`, body, signal)
  }
}

/** Adds timestamps, which must not decrease. */
function timed(events: readonly string[], now: number): { timestamp: number; message: string }[] {
  let last = Math.floor(now - OLDEST)
  return events.map((message) => {
    const { event_timestamp: text } = JSON.parse(message) as { readonly event_timestamp?: string }
    const at = Math.min(Date.parse(text ?? ''), now)
    if (at > last) last = Math.floor(at)
    return { timestamp: last, message }
  })
}

/** Returns the positions of events with a rejected time: too old at the start of the batch, too new at its end. */
function rejected(info: unknown, events: number): BatchRejection | undefined {
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

/**
 * Reads a response with one result per record: those with an `ErrorCode` were rejected. Returns undefined if all were
 * accepted. A response without a result for every record counts as a failure.
 */
function refusedRecords(results: unknown, records: number): BatchRejection | undefined {
  const list = objectsOf(results)
  if (list.length !== records) return { message: 'the service did not say what became of each record' }
  const places = list.flatMap(({ ErrorCode: code }, place) => (code == null ? [] : [place]))
  const [first] = places
  if (first === undefined) return undefined
  const code = wordOf(list[first]?.ErrorCode)
  return { message: `the service refused ${places.length} of ${records} records${code && ` (${code})`}`, places }
}

/** The limit of a request is 4 MB with its records in base64, which makes four bytes of three. */
const FIREHOSE_LIMITS = { events: 500, bytes: 3_000_000, eventBytes: 1_000 * 1024, overhead: 1 }

/**
 * A stream of Amazon Data Firehose: a line for each event, because it concatenates records. Audit events are sent one by
 * one: the service may reject one in the middle of a batch.
 */
export class Firehose extends BatchSender {
  readonly most = 1
  readonly #service: AwsService
  readonly #name: string

  constructor(service: AwsService, streamName: string) {
    super(FIREHOSE_LIMITS)
    this.#service = service
    this.#name = streamName
  }

  protected async put(events: readonly string[], signal: AbortSignal): Promise<BatchRejection | undefined> {
    const Records = events.map((event) => ({ Data: Buffer.from(`${event}\n`).toString('base64') }))
    const body = { DeliveryStreamName: this.#name, Records }
    const answer = await this.#service.call('Firehose_20150804.PutRecordBatch', body, signal)
    return answer.ok ? refusedRecords(answer.data.RequestResponses, events.length) : answer.failure
  }
}

const MIB = 1024 * 1024
/** Room for a partition key, which counts. */
const KEY_BYTES = 32
/** Limits of one request (PutRecords). */
const KINESIS_LIMITS = { events: 500, bytes: 5 * MIB, eventBytes: MIB, overhead: KEY_BYTES }
/** All of them meet in one shard: there is no order between shards. */
const AUDIT_KEY = 'audit'

/**
 * A data stream of Amazon Kinesis, a record for each event. Audit events keep their order: they travel one by one under one
 * partition key, each behind the one before. Traffic events are spread over the shards.
 */
export class Kinesis extends BatchSender {
  readonly most = 1
  readonly #service: AwsService
  readonly #arn: string
  /** Sequence number of the last audit event, which orders the next one after it. */
  #last: string | undefined
  #count = 0

  constructor(service: AwsService, streamArn: string) {
    super(KINESIS_LIMITS)
    this.#service = service
    this.#arn = streamArn
  }

  protected put(events: readonly string[], signal: AbortSignal, list: boolean): Promise<BatchRejection | undefined> {
    return list ? this.#many(events, signal) : this.#one(events, signal)
  }

  async #one(events: readonly string[], signal: AbortSignal): Promise<BatchRejection | undefined> {
    for (const [place, event] of events.entries()) {
      const body = {
        StreamARN: this.#arn,
        PartitionKey: AUDIT_KEY,
        Data: Buffer.from(event).toString('base64'),
        ...(this.#last === undefined ? {} : { SequenceNumberForOrdering: this.#last })
      }
      const answer = await this.#service.call('Kinesis_20131202.PutRecord', body, signal)
      const { SequenceNumber: number } = answer.ok ? answer.data : {}
      // The number of a shard that has been split or merged is refused.
      this.#last = typeof number === 'string' ? number : undefined
      if (!answer.ok) return { ...answer.failure, places: [...events.keys()].slice(place) }
    }
    return undefined
  }

  async #many(events: readonly string[], signal: AbortSignal): Promise<BatchRejection | undefined> {
    const Records = events.map((event) => ({
      Data: Buffer.from(event).toString('base64'),
      PartitionKey: String(this.#count++)
    }))
    const answer = await this.#service.call('Kinesis_20131202.PutRecords', { StreamARN: this.#arn, Records }, signal)
    if (!answer.ok) return answer.failure
    return refusedRecords(answer.data.Records, events.length)
  }
}
