import { Level, type Relayed } from './counters.js'
import type { Metrics } from './metrics.js'
import type { SharedSeries } from './series-memory.js'
import { type RateRecord, TrafficRates } from './traffic-rates.js'

/** Exchanges of one kind, and how many. */
export type CountedRates = readonly (readonly [record: RateRecord, times: number])[]

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
  take(): CountedRates {
    const waiting = this.#waiting
    this.#waiting = new Map()
    return [...waiting.values()]
  }
}

interface Read {
  readonly series: SharedSeries
  /** The numbers as they were when they were read last. */
  readonly seen: Float64Array
}

/** A thread that counts. */
export interface CountingThread {
  /** Exchanges that it had ended when it was read last. */
  requests: number
}

/** Of one thread: its series by their ids, and what it has of the metrics that say how many there are now. */
interface Counting {
  readonly series: Map<number, Read>
  readonly levels: Map<Level, number>
}

const REQUESTS = 'sluice_requests_total'

/** What other threads count, in the metrics of this one: it reads their numbers where they stand. */
export class CountedElsewhere {
  readonly #metrics: ReadonlyMap<string, Relayed>
  readonly #threads = new Map<CountingThread, Counting>()

  constructor({ relayed }: Metrics) {
    this.#metrics = new Map(relayed.map((metric) => [metric.name, metric]))
  }

  /** The thread has a series from now on. */
  begins(thread: CountingThread, series: SharedSeries): void {
    const counting = this.#threads.get(thread) ?? { series: new Map(), levels: new Map() }
    this.#threads.set(thread, counting)
    counting.series.set(series.id, { series, seen: new Float64Array(series.numbers.length) })
  }

  /** Counts what threads have counted since the last call. */
  read(): void {
    for (const [thread, counting] of this.#threads) this.#read(thread, counting)
  }

  /** The thread is gone, and its connections and requests with it. What it has counted stays. */
  ended(thread: CountingThread): void {
    const counting = this.#threads.get(thread)
    if (counting === undefined) return
    this.#read(thread, counting)
    this.#threads.delete(thread)
    for (const [level, count] of counting.levels) level.inc(-count)
  }

  #read(thread: CountingThread, { series: all, levels }: Counting): void {
    for (const { series, seen } of all.values()) {
      if (series.numbers.every((value, place) => value === seen[place])) continue
      const now = series.numbers.slice()
      const since = now.map((value, place) => value - (seen[place] as number))
      // Those of a distribution only rise: another series has begun in its place, and the news of it is on its way.
      if (since.length > 1 && since.some((value) => value < 0)) continue
      seen.set(now)
      const metric = this.#metrics.get(series.metric)
      metric?.add(series.series, since)
      const [count = 0] = since
      if (series.metric === REQUESTS) thread.requests += count
      if (metric instanceof Level) levels.set(metric, (levels.get(metric) ?? 0) + count)
    }
  }
}
