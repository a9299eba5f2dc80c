import { Level, type Relayed } from './counters.js'
import type { Metrics } from './metrics.js'
import type { SharedSeries } from './series-memory.js'
import { type RateRecord, TrafficRates } from './traffic-rates.js'

/** Exchanges of one kind and their number. */
export type CountedRates = readonly (readonly [record: RateRecord, times: number])[]

/** Maximum number of kinds of records before a flush. */
const MOST = 1_000

/** Collects rates for the thread that counts them. */
export class RelayedRates extends TrafficRates {
  #waiting = new Map<string, [record: RateRecord, times: number]>()
  readonly #full: () => void

  /** `full`: called at the maximum number of kinds of records; it must call `take`. */
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

  /** Returns and clears the collected records. */
  take(): CountedRates {
    const waiting = this.#waiting
    this.#waiting = new Map()
    return [...waiting.values()]
  }
}

interface Read {
  readonly series: SharedSeries
  /** Numbers at the last read. */
  readonly seen: Float64Array
}

/** Thread whose counts are read. */
export interface CountingThread {
  /** Number of its finished exchanges at the last read. */
  requests: number
}

/** State of one thread: its series by id, and its share of the gauges. */
interface Counting {
  readonly series: Map<number, Read>
  readonly levels: Map<Level, number>
}

const REQUESTS = 'sluice_requests_total'

/** Adds the counts of other threads to the metrics of this thread by reading their shared memory. */
export class CountedElsewhere {
  readonly #metrics: ReadonlyMap<string, Relayed>
  readonly #threads = new Map<CountingThread, Counting>()

  constructor({ relayed }: Metrics) {
    this.#metrics = new Map(relayed.map((metric) => [metric.name, metric]))
  }

  /** Registers a new series of the thread. */
  begins(thread: CountingThread, series: SharedSeries): void {
    const counting = this.#threads.get(thread) ?? { series: new Map(), levels: new Map() }
    this.#threads.set(thread, counting)
    counting.series.set(series.id, { series, seen: new Float64Array(series.numbers.length) })
  }

  /** Adds what the threads have counted since the last call. */
  read(): void {
    for (const [thread, counting] of this.#threads) this.#read(thread, counting)
  }

  /** Removes a stopped thread with its connections and active requests. Its counts are kept. */
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
      // Distributions only grow: a new series uses the memory, and its message has not arrived yet.
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
