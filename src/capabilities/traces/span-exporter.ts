import { atMost } from '../../lib/concurrency.js'
import { Slices } from '../../lib/slices.js'
import type { Delivered, Delivery } from './otlp/delivery.js'
import type { EncodedItem, Encoding } from './otlp/encoding.js'
import { spansOf } from './spans.js'
import { memoryOf, type TracedExchange } from './traced-exchange.js'

/** Result of spans, for the metric. */
type SpanResult = 'exported' | 'queue_full' | 'refused' | 'unreachable' | 'stopped'

/** Dependencies of the span exporter. */
export interface SpanExporterParts {
  readonly delivery: Pick<Delivery, 'deliver' | 'hurry' | 'stop'>
  readonly encoding: Pick<Encoding, 'item' | 'request'>
  /** Bytes of memory that exchanges may take while they wait. */
  readonly queue: number
  /** Milliseconds from the first exchange that waits to the request that carries it. */
  readonly delay: number
  readonly log: { warn(fields: object, message: string): void }
}

interface Waiting {
  readonly traced: TracedExchange
  readonly bytes: number
}

/** Exchanges of one request. */
const MOST_EXCHANGES = 512

/**
 * Exports sampled exchanges beside traffic: in batches, after a delay or when a batch is full, one request at a time.
 * Exchanges beyond the queue's limit are dropped and counted.
 */
export class SpanExporter {
  readonly #parts: SpanExporterParts
  readonly #counts: Record<SpanResult, number> = { exported: 0, queue_full: 0, refused: 0, unreachable: 0, stopped: 0 }
  #waiting: Waiting[] = []
  #bytes = 0
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #reported = false
  #stopped = false

  constructor(parts: SpanExporterParts) {
    this.#parts = parts
  }

  /** Number of spans by result, since the start. */
  get counts(): Readonly<Record<SpanResult, number>> {
    return this.#counts
  }

  /** Takes an exchange. Does not throw. */
  readonly take = (traced: TracedExchange): void => {
    const bytes = memoryOf(traced)
    const { queue, delay } = this.#parts
    if (this.#stopped || this.#bytes + bytes > queue) {
      this.#drop(this.#stopped ? 'stopped' : 'queue_full', traced)
      return
    }
    this.#waiting.push({ traced, bytes })
    this.#bytes += bytes
    if (this.#running !== undefined) return
    if (this.#waiting.length >= MOST_EXCHANGES) this.#begin()
    else this.#timer ??= setTimeout(() => this.#begin(), delay).unref()
  }

  /** Counts spans that were dropped on their way to the exporter. */
  readonly lost = (spans: number): void => {
    this.#counts.queue_full += spans
    this.#reportFull()
  }

  /** Sends the queue within this time (ms); remaining spans are dropped and counted. */
  async stop(within: number): Promise<void> {
    const { delivery } = this.#parts
    delivery.hurry()
    await atMost(within, this.#flush())
    this.#stopped = true
    clearTimeout(this.#timer)
    delivery.stop()
    for (const { traced } of this.#waiting.splice(0)) this.#drop('stopped', traced)
    this.#bytes = 0
    await this.#running
  }

  async #flush(): Promise<void> {
    while (this.#running !== undefined || this.#waiting.length > 0) {
      this.#begin()
      await this.#running
    }
  }

  /** Starts exporting the queue, unless already running. */
  #begin(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#running ??= this.#export().finally(() => {
      this.#running = undefined
      if (this.#waiting.length === 0 || this.#stopped) return
      const pause = this.#waiting.length >= MOST_EXCHANGES ? 0 : this.#parts.delay
      this.#timer ??= setTimeout(() => this.#begin(), pause).unref()
    })
  }

  async #export(): Promise<void> {
    const batch = this.#waiting.splice(0, MOST_EXCHANGES)
    if (batch.length === 0) return
    const { encoding, delivery, log } = this.#parts
    const slices = new Slices({ hold: 1 })
    const items: EncodedItem[] = []
    try {
      for (const { traced } of batch) {
        for (const span of spansOf(traced)) items.push(encoding.item(span))
        if (slices.due) await slices.rest()
      }
      const outcome = await delivery.deliver(encoding.request(items))
      this.#count(outcome, items.length)
    } catch (error) {
      this.#counts.refused += items.length
      log.warn({ err: error }, 'spans could not be written')
    } finally {
      for (const { bytes } of batch) this.#bytes -= bytes
    }
  }

  #count(outcome: Delivered, spans: number): void {
    if (outcome.kind === 'taken') {
      const rejected = Math.min(spans, outcome.rejected)
      this.#counts.exported += spans - rejected
      this.#counts.refused += rejected
      this.#reported = false
    } else this.#counts[outcome.kind] += spans
  }

  #drop(why: SpanResult, { tries }: TracedExchange): void {
    this.#counts[why] += 1 + tries.length
    if (why === 'queue_full') this.#reportFull()
  }

  #reportFull(): void {
    if (this.#reported) return
    this.#reported = true
    this.#parts.log.warn(
      { queue: this.#parts.queue },
      'spans are dropped: the receiver takes them too slowly; raise otlp.queue or sample less'
    )
  }
}
