import type { AwsService } from './aws-service.js'
import { Batches, type Refusal } from './batches.js'
import { refusedRecords } from './refused-records.js'
import type { Parcel, Sender, SendFailure } from './sender.js'

/** The limit of a request is 4 MB with its records in base64, which makes four bytes of three. */
const FIREHOSE_LIMITS = { events: 500, bytes: 3_000_000, eventBytes: 1_000 * 1024, overhead: 1 }

/**
 * A stream of Amazon Data Firehose: a line for each event, because what it delivers are its records behind each other. Audit
 * events travel one by one: of several the service may refuse one in the middle.
 */
export class Firehose implements Sender {
  readonly most = 1
  readonly #service: AwsService
  readonly #name: string
  readonly #batches = new Batches(FIREHOSE_LIMITS, (events, _list, signal) => this.#put(events, signal))

  constructor(service: AwsService, streamName: string) {
    this.#service = service
    this.#name = streamName
  }

  async send(parcel: Parcel, signal: AbortSignal): Promise<SendFailure | undefined> {
    return await this.#batches.send(parcel, signal)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  async #put(events: readonly string[], signal: AbortSignal): Promise<Refusal | undefined> {
    const Records = events.map((event) => ({ Data: Buffer.from(`${event}\n`).toString('base64') }))
    const body = { DeliveryStreamName: this.#name, Records }
    const answer = await this.#service.call('Firehose_20150804.PutRecordBatch', body, signal)
    return answer.ok ? refusedRecords(answer.data.RequestResponses, events.length) : answer.failure
  }
}
