import type { AwsService } from './aws-service.js'
import { Batches, type Refusal } from './batches.js'
import { refusedRecords } from './refused-records.js'
import type { Parcel, Sender, SendFailure } from './sender.js'

const MIB = 1024 * 1024
/** Room for a partition key, which counts. */
const KEY_BYTES = 32
const KINESIS_LIMITS = { events: 500, bytes: 5 * MIB, eventBytes: MIB, overhead: KEY_BYTES }
/** All of them meet in one shard: there is no order between shards. */
const AUDIT_KEY = 'audit'

/**
 * A data stream of Amazon Kinesis, a record for each event. Audit events keep their order: they travel one by one under one
 * partition key, each behind the one before. Traffic events are spread over the shards.
 */
export class Kinesis implements Sender {
  readonly most = 1
  readonly #service: AwsService
  readonly #arn: string
  readonly #batches = new Batches(KINESIS_LIMITS, (events, list, signal) =>
    list ? this.#many(events, signal) : this.#one(events, signal)
  )
  /** Sequence number of the last audit event, behind which the next one goes. */
  #last: string | undefined
  #count = 0

  constructor(service: AwsService, streamArn: string) {
    this.#service = service
    this.#arn = streamArn
  }

  async send(parcel: Parcel, signal: AbortSignal): Promise<SendFailure | undefined> {
    return await this.#batches.send(parcel, signal)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  async #one(events: readonly string[], signal: AbortSignal): Promise<Refusal | undefined> {
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

  async #many(events: readonly string[], signal: AbortSignal): Promise<Refusal | undefined> {
    const Records = events.map((event) => ({
      Data: Buffer.from(event).toString('base64'),
      PartitionKey: String(this.#count++)
    }))
    const answer = await this.#service.call('Kinesis_20131202.PutRecords', { StreamARN: this.#arn, Records }, signal)
    if (!answer.ok) return answer.failure
    return refusedRecords(answer.data.Records, events.length)
  }
}
