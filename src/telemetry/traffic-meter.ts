import type { Relayed } from './counters.js'
import { ownMemory, type SeriesMemory } from './series-memory.js'

/** Buckets of durations for each doubling: a percentile is off by 4.5 % at most. */
const STEPS = 8
/** From 1 µs to an hour and more. */
const BUCKETS = 32 * STEPS
/** Classes of statuses; the first is "no answer". */
const CLASSES = 6
/** Behind them: bytes in and out. */
const BYTES = CLASSES + BUCKETS

/** What all exchanges of clients came to since the start, as plain numbers that an exchange changes by itself. */
export class TrafficMeter implements Relayed {
  readonly name = 'traffic'
  readonly #numbers: Float64Array
  /** Exchanges by the first digit of the status; 0: no answer. */
  readonly statuses: Float64Array
  /** Exchanges by duration: bucket i holds those of 2^(i/8) µs and more. */
  readonly durations: Float64Array

  constructor(memory: SeriesMemory = ownMemory) {
    const numbers = memory.allot(this.name, '', BYTES + 2)
    this.#numbers = numbers
    this.statuses = numbers.subarray(0, CLASSES)
    this.durations = numbers.subarray(CLASSES, BYTES)
  }

  get bytesIn(): number {
    return this.#numbers[BYTES] as number
  }

  get bytesOut(): number {
    return this.#numbers[BYTES + 1] as number
  }

  /** An exchange has ended; `duration` in milliseconds. */
  count(status: number, duration: number, bytesIn: number, bytesOut: number): void {
    // A class that is not known counts as 5xx (RFC 9110 15).
    const group = Math.min((status / 100) | 0, CLASSES - 1)
    this.statuses[group] = (this.statuses[group] ?? 0) + 1
    const bucket = duration <= 0.001 ? 0 : Math.min((STEPS * Math.log2(duration * 1_000)) | 0, BUCKETS - 1)
    this.durations[bucket] = (this.durations[bucket] as number) + 1
    this.#numbers[BYTES] = this.bytesIn + bytesIn
    this.#numbers[BYTES + 1] = this.bytesOut + bytesOut
  }

  add(_series: string, others: Float64Array): void {
    const numbers = this.#numbers
    for (let i = 0; i < numbers.length; i++) numbers[i] = (numbers[i] as number) + (others[i] ?? 0)
  }
}

/** Milliseconds in the middle of a bucket. */
function durationOf(bucket: number): number {
  return 2 ** ((bucket + 0.5) / STEPS) / 1_000
}

/** Exchanges by doublings of their duration, the shortest first: the number of those below `below` milliseconds and not below half of it. */
export function octaves(counts: ArrayLike<number>): { readonly below: number; readonly count: number }[] {
  const found: { below: number; count: number }[] = []
  for (let from = 0; from < counts.length; from += STEPS) {
    let count = 0
    for (let i = from; i < Math.min(from + STEPS, counts.length); i++) count += counts[i] as number
    if (count > 0) found.push({ below: 2 ** (from / STEPS + 1) / 1_000, count })
  }
  return found
}

/**
 * Durations that shares of all do not exceed, milliseconds; undefined: there are none. `counts`: by bucket; `shares`: ascending,
 * from 0 to 1.
 */
export function percentiles(counts: ArrayLike<number>, shares: readonly number[]): readonly (number | undefined)[] {
  let all = 0
  for (let i = 0; i < counts.length; i++) all += counts[i] as number
  if (all === 0) return shares.map(() => undefined)
  let [seen, bucket] = [0, -1]
  return shares.map((share) => {
    const wanted = Math.max(1, Math.ceil(all * share))
    while (seen < wanted && bucket < counts.length - 1) seen += counts[++bucket] as number
    return durationOf(bucket)
  })
}
