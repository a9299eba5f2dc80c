import type { Geometry } from './geometry.js'
import type { Midstate } from './siphash.js'
import type { BucketView, Decision, LimiterTable } from './table.js'

/**
 * One limit: a sliding window of fixed length over any number of keys, kept in a table that many limits share.
 *
 * Two windows of the same table with equal identity and length share their buckets; another length is another
 * identity, because admissions cannot be recounted for it.
 */
export class SlidingWindow {
  /** Decisions of this window so far. */
  admitted = 0
  refused = 0
  private readonly geometry: Geometry
  private readonly beginning: Midstate
  private readonly decision: Decision = { admitted: false, remaining: 0, resetSeconds: 0, retryAfterSeconds: 0 }

  /**
   * @param identity whose limit it is; together with the length and the key it names a bucket
   * @param rateSeconds the window: 60 to 86,400 seconds, a multiple of ten; anything else is a RangeError
   */
  constructor(
    private readonly table: LimiterTable,
    identity: string,
    rateSeconds: number
  ) {
    this.geometry = table.geometry(rateSeconds)
    this.beginning = table.hash.prefix(`${rateSeconds}:${identity}`)
  }

  /**
   * Decides one request now and counts it when it is admitted. Never throws for any key.
   *
   * The answer is one object that the next call of this window overwrites: read it before. It is admitted when at
   * most `capacity - cost` admissions are alive, so never more than `capacity` (up to 4,294,967,295) happen in any
   * trailing window. `cost` is how many admissions the request counts for, a whole number from 1 on.
   */
  take(key: string, capacity: number, cost = 1): Readonly<Decision> {
    const { table, decision } = this
    table.hash.hashText(this.beginning, key)
    table.decide(table.hash.low, table.hash.high, this.geometry, capacity, cost, decision)
    if (decision.admitted) this.admitted += 1
    else this.refused += 1
    return decision
  }

  /** What the bucket of `key` holds now; counts nothing. */
  inspect(key: string): BucketView {
    const { table } = this
    table.hash.hashText(this.beginning, key)
    return table.view(table.hash.low, table.hash.high, this.geometry)
  }
}
