import type { CountedNumbers } from './counters.js'
import type { Metrics } from './metrics.js'
import { type RateRecord, TrafficRates } from './traffic-rates.js'

/** What a thread has counted since its last report, as plain data. */
export interface CountedTraffic {
  /** By the name of the metric. */
  readonly metrics: ReadonlyMap<string, CountedNumbers>
  /** Of `TrafficMeter`; undefined: nothing. */
  readonly meter: Float64Array | undefined
  readonly rates: readonly (readonly [record: RateRecord, times: number])[]
}

/** Kinds of records that are held back. */
const MOST = 1_000

/** Gathers rates for another thread, which counts them. */
export class RelayedRates extends TrafficRates {
  #waiting = new Map<string, [record: RateRecord, times: number]>()
  readonly #full: () => void

  /** `full`: called when no more kinds of records can be held back; calls `take`. */
  constructor(full: () => void) {
    super()
    this.#full = full
  }

  override count(record: RateRecord, times = 1): void {
    const { route, edge, inner, host, inside, revision, outcome } = record
    const key = `${route} ${edge} ${inner?.join() ?? ''} ${host} ${inside} ${revision} ${outcome}`
    const known = this.#waiting.get(key)
    if (known !== undefined) known[1] += times
    else this.#waiting.set(key, [record, times])
    if (this.#waiting.size >= MOST) this.#full()
  }

  /** What was counted since the last call. */
  take(): CountedTraffic['rates'] {
    const waiting = this.#waiting
    this.#waiting = new Map()
    return [...waiting.values()]
  }
}

/** Reports what the metrics of this thread have counted. */
export class TrafficReporter {
  readonly #metrics: Metrics
  readonly #rates: RelayedRates
  #meter: Float64Array

  constructor(metrics: Metrics, rates: RelayedRates) {
    this.#metrics = metrics
    this.#rates = rates
    this.#meter = metrics.meter.numbers()
  }

  /** What was counted since the last call; undefined: nothing. */
  report(): CountedTraffic | undefined {
    const metrics = new Map<string, CountedNumbers>()
    for (const metric of this.#metrics.relayed) {
      const numbers = metric.counted()
      if (numbers.size > 0) metrics.set(metric.name, numbers)
    }
    const now = this.#metrics.meter.numbers()
    const since = now.map((value, place) => value - (this.#meter[place] as number))
    this.#meter = now
    const meter = since.some((value) => value !== 0) ? since : undefined
    const rates = this.#rates.take()
    return metrics.size === 0 && meter === undefined && rates.length === 0 ? undefined : { metrics, meter, rates }
  }
}

/** What other threads count, in the metrics of this one. */
export class CountedElsewhere {
  readonly #metrics: Metrics
  readonly #levels: ReadonlySet<string>
  /** Of each thread: what it has of the metrics that say how many there are now. */
  readonly #held = new Map<object, Map<string, number>>()

  constructor(metrics: Metrics) {
    this.#metrics = metrics
    this.#levels = new Set([metrics.connections.name, metrics.inFlight.name])
  }

  /** `thread` tells one from another. */
  count(thread: object, { metrics, meter, rates }: CountedTraffic): void {
    for (const metric of this.#metrics.relayed) {
      const numbers = metrics.get(metric.name)
      if (numbers === undefined) continue
      metric.add(numbers)
      if (this.#levels.has(metric.name)) this.#hold(thread, metric.name, numbers)
    }
    if (meter !== undefined) this.#metrics.meter.add(meter)
    for (const [record, times] of rates) this.#metrics.rates.count(record, times)
  }

  /** The thread is gone, and its connections and requests with it. */
  ended(thread: object): void {
    const held = this.#held.get(thread)
    this.#held.delete(thread)
    for (const level of [this.#metrics.connections, this.#metrics.inFlight]) {
      const value = held?.get(level.name)
      if (value !== undefined && value !== 0) level.add(new Map([['', -value]]))
    }
  }

  #hold(thread: object, name: string, numbers: CountedNumbers): void {
    const held = this.#held.get(thread) ?? new Map<string, number>()
    this.#held.set(thread, held)
    for (const value of numbers.values()) if (typeof value === 'number') held.set(name, (held.get(name) ?? 0) + value)
  }
}
