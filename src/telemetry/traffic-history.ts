import type { Clock } from '../lib/clock.js'
import { percentiles, type TrafficMeter } from './traffic-meter.js'
import type { TrafficRates } from './traffic-rates.js'

/** Seconds kept. */
const HISTORY_SECONDS = 600
/** Seconds whose codes are kept. */
const CODE_SECONDS = 60
/** Reported percentiles, from 0 to 1. */
const SHARES = [0.5, 0.99]

/** Traffic of one second. */
export interface TrafficSecond {
  /** Wall clock at its end, milliseconds since the Unix epoch. */
  readonly at: number
  readonly requests: number
  /** By first digit of the status; 0: no response. */
  readonly statuses: readonly number[]
  /** Milliseconds; undefined if no exchange finished. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  /** Exchanges that Sluice refused itself. */
  readonly refused: number
  /** Responses with status 500 and above, and exchanges without a response. */
  readonly failed: number
  readonly bytesIn: number
  readonly bytesOut: number
  /** Open connections at its end. */
  readonly connections: number
  readonly inFlight: number
}

/** Sum of several seconds, with the codes of failed and refused exchanges. */
export interface TrafficSummary extends Omit<TrafficSecond, 'at' | 'connections' | 'inFlight'> {
  readonly seconds: number
  readonly codes: ReadonlyMap<string, number>
}

/** Counts since the start. */
export interface TrafficNumbers {
  readonly meter: TrafficMeter
  readonly rates: Pick<TrafficRates, 'totals'>
  /** Returns failed and refused exchanges by code. */
  codes(): ReadonlyMap<string, number>
  readonly connections: { readonly value: number }
  readonly inFlight: { readonly value: number }
}

/** Counts at one moment. */
export interface Reading {
  readonly statuses: Float64Array
  readonly durations: Float64Array
  readonly bytesIn: number
  readonly bytesOut: number
  readonly failed: number
  readonly refused: number
}

/**
 * Traffic of the last ten minutes by second. Counts are read at the end of each second, so that exchanges have no extra cost. Its owner
 * calls `tick` each second.
 */
export class TrafficHistory {
  readonly #numbers: TrafficNumbers
  readonly #clock: Pick<Clock, 'wall'>
  readonly #seconds: TrafficSecond[] = []
  /** Readings and codes of the last minute, oldest first, one more than seconds. */
  readonly #readings: { readonly reading: Reading; readonly codes: ReadonlyMap<string, number> }[] = []
  readonly #followers = new Set<(second: TrafficSecond) => void>()

  constructor(numbers: TrafficNumbers, clock: Pick<Clock, 'wall'>) {
    this.#numbers = numbers
    this.#clock = clock
    this.#readings.push({ reading: this.#read(), codes: numbers.codes() })
  }

  /** Closes a second. */
  tick(): void {
    const { connections, inFlight } = this.#numbers
    const before = this.#readings.at(-1)?.reading as Reading
    const reading = this.#read()
    this.#readings.push({ reading, codes: this.#numbers.codes() })
    if (this.#readings.length > CODE_SECONDS + 1) this.#readings.shift()
    const second = {
      at: this.#clock.wall(),
      ...difference(before, reading),
      connections: connections.value,
      inFlight: inFlight.value
    }
    this.#seconds.push(second)
    if (this.#seconds.length > HISTORY_SECONDS) this.#seconds.shift()
    for (const follower of this.#followers) follower(second)
  }

  /** Returns the last `count` seconds, oldest first. */
  seconds(count: number): readonly TrafficSecond[] {
    return this.#seconds.slice(-count)
  }

  /** Returns the sum of the last minute, or of the part that is available. */
  lastMinute(): TrafficSummary {
    const [first] = this.#readings
    const last = this.#readings.at(-1)
    if (first === undefined || last === undefined) throw new RangeError('there is a reading from the start')
    const codes = new Map<string, number>()
    for (const [code, count] of last.codes) {
      const more = count - (first.codes.get(code) ?? 0)
      if (more > 0) codes.set(code, more)
    }
    return { seconds: this.#readings.length - 1, ...difference(first.reading, last.reading), codes }
  }

  /** Calls `take` after each second until the returned function is called. `take` must not throw. */
  follow(take: (second: TrafficSecond) => void): () => void {
    this.#followers.add(take)
    return () => this.#followers.delete(take)
  }

  #read(): Reading {
    return readNumbers(this.#numbers)
  }
}

/** Returns the current counts. */
export function readNumbers({ meter, rates }: Pick<TrafficNumbers, 'meter' | 'rates'>): Reading {
  const [, failed = 0, refused = 0] = rates.totals
  const { bytesIn, bytesOut } = meter
  return { statuses: meter.statuses.slice(), durations: meter.durations.slice(), bytesIn, bytesOut, failed, refused }
}

/** Returns the traffic between two readings. */
export function difference(before: Reading, after: Reading) {
  const statuses = Array.from(after.statuses, (count, at) => count - (before.statuses[at] as number))
  const [p50, p99] = percentiles(
    after.durations.map((count, at) => count - (before.durations[at] as number)),
    SHARES
  )
  return {
    requests: statuses.reduce((sum, count) => sum + count, 0),
    statuses,
    p50,
    p99,
    refused: after.refused - before.refused,
    failed: after.failed - before.failed,
    bytesIn: after.bytesIn - before.bytesIn,
    bytesOut: after.bytesOut - before.bytesOut
  }
}
