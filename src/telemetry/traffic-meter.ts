/** Buckets of durations for each doubling: a percentile is off by 4.5 % at most. */
const STEPS = 8
/** From 1 µs to an hour and more. */
const BUCKETS = 32 * STEPS
/** Classes of statuses; the first is "no answer". */
const CLASSES = 6

/** What all exchanges of clients came to since the start, as plain numbers that an exchange changes by itself. */
export class TrafficMeter {
  /** Exchanges by the first digit of the status; 0: no answer. */
  readonly statuses = new Float64Array(CLASSES)
  /** Exchanges by duration: bucket i holds those of 2^(i/8) µs and more. */
  readonly durations = new Float64Array(BUCKETS)
  bytesIn = 0
  bytesOut = 0

  /** An exchange has ended; `duration` in milliseconds. */
  count(status: number, duration: number, bytesIn: number, bytesOut: number): void {
    const group = (status / 100) | 0
    this.statuses[group] = (this.statuses[group] ?? 0) + 1
    const bucket = duration <= 0.001 ? 0 : Math.min((STEPS * Math.log2(duration * 1_000)) | 0, BUCKETS - 1)
    this.durations[bucket] = (this.durations[bucket] as number) + 1
    this.bytesIn += bytesIn
    this.bytesOut += bytesOut
  }

  /** All numbers in one list, which `add` takes. */
  numbers(): Float64Array {
    return new Float64Array([...this.statuses, ...this.durations, this.bytesIn, this.bytesOut])
  }

  /** Counts what another thread has counted. */
  add(numbers: Float64Array): void {
    for (let i = 0; i < CLASSES; i++) this.statuses[i] = (this.statuses[i] as number) + (numbers[i] ?? 0)
    for (let i = 0; i < BUCKETS; i++) this.durations[i] = (this.durations[i] as number) + (numbers[CLASSES + i] ?? 0)
    this.bytesIn += numbers[CLASSES + BUCKETS] ?? 0
    this.bytesOut += numbers[CLASSES + BUCKETS + 1] ?? 0
  }
}

/** Milliseconds in the middle of a bucket. */
function durationOf(bucket: number): number {
  return 2 ** ((bucket + 0.5) / STEPS) / 1_000
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
