import type { Relayed } from './counters.js'
import { ownMemory, type SeriesMemory } from './series-memory.js'

/** Buckets per doubling of the duration: percentiles have an error of at most 4.5 %. */
const STEPS = 8
/** Number of buckets, from 1 µs to over an hour. */
const BUCKETS = 32 * STEPS
/** Number of status classes; the first is "no response". */
const CLASSES = 6
/** Index of the byte counts: in, out. */
const BYTES = CLASSES + BUCKETS

/** Totals of all client exchanges since the start, as plain numbers that an exchange increments. */
export class TrafficMeter implements Relayed {
  readonly name = 'traffic'
  readonly #numbers: Float64Array
  /** Exchanges by first digit of the status; 0: no response. */
  readonly statuses: Float64Array
  /** Exchanges by duration: bucket i counts durations from 2^(i/8) µs. */
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

  /** Counts a finished exchange; `duration` in milliseconds. */
  count(status: number, duration: number, bytesIn: number, bytesOut: number): void {
    // An unknown class counts as 5xx (RFC 9110 15).
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

/** Returns the middle of a bucket in milliseconds. */
function durationOf(bucket: number): number {
  return 2 ** ((bucket + 0.5) / STEPS) / 1_000
}

/**
 * Returns exchanges by doublings of their duration, shortest first: each entry counts durations of at least half of `below` and less than
 * `below` milliseconds.
 */
export function octaves(counts: ArrayLike<number>): { readonly below: number; readonly count: number }[] {
  const found: { below: number; count: number }[] = []
  for (let from = 0; from < counts.length; from += STEPS) {
    let count = 0
    for (let i = from; i < Math.min(from + STEPS, counts.length); i++) count += counts[i] as number
    if (count > 0) found.push({ below: 2 ** (from / STEPS + 1) / 1_000, count })
  }
  return found
}

/** Returns percentiles in milliseconds; undefined for no exchanges. `counts`: by bucket; `shares`: ascending, from 0 to 1. */
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
