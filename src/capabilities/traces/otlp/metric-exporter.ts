import type { Registry } from 'prom-client'
import type { Clock } from '../../../lib/clock.js'
import { atMost } from '../../../lib/concurrency.js'
import { Slices } from '../../../lib/slices.js'
import type { Delivery } from './delivery.js'
import type { EncodedItem, Encoding } from './encoding.js'
import { metricsOf } from './metric-messages.js'

/** Dependencies of the metric exporter. */
export interface MetricExporterParts {
  readonly registry: Registry
  /** Resolves when the counts of every thread are here. */
  readonly count: () => Promise<unknown>
  readonly delivery: Pick<Delivery, 'deliver' | 'hurry' | 'stop'>
  readonly encoding: Pick<Encoding, 'item' | 'request'>
  /** Milliseconds. */
  readonly interval: number
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
}

/** Sends all metrics again and again; values that could not be sent are part of the next ones, because they count since the start. */
export class MetricExporter {
  readonly #parts: MetricExporterParts
  readonly #since: number
  readonly #timer: NodeJS.Timeout
  #running: Promise<void> | undefined

  constructor(parts: MetricExporterParts) {
    this.#parts = parts
    this.#since = parts.clock.wall()
    this.#timer = setInterval(() => void this.#begin(), parts.interval).unref()
  }

  /** Sends the last values, within this time (ms). */
  async stop(within: number): Promise<void> {
    clearInterval(this.#timer)
    const { delivery } = this.#parts
    delivery.hurry()
    await atMost(
      within,
      (this.#running ?? Promise.resolve()).then(() => this.#begin())
    )
    delivery.stop()
    await this.#running
  }

  #begin(): Promise<void> {
    this.#running ??= this.#export().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #export(): Promise<void> {
    const { registry, count, delivery, encoding, clock, log } = this.#parts
    try {
      await count()
      const slices = new Slices({ hold: 1 })
      const items: EncodedItem[] = []
      for (const metric of await metricsOf(registry, { since: this.#since, at: clock.wall() })) {
        items.push(encoding.item(metric))
        if (slices.due) await slices.rest()
      }
      await delivery.deliver(encoding.request(items))
    } catch (error) {
      log.warn({ err: error }, 'metrics could not be written')
    }
  }
}
