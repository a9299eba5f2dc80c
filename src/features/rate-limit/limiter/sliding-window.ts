import type { StoreLoss } from '../../../lib/limit-ledger.js'
import { type BucketPeek, type BucketView, type Decision, MAX_CAPACITY, undecided } from './decision.js'
import type { Geometry } from './layout.js'
import type { Midstate, SipHash } from './siphash.js'
import type { Sink } from './state.js'
import type { LimiterStatistics } from './statistics.js'

/** One limit, wherever it counts. What it answers later where it has to ask another process. */
export interface LimitWindow {
  /** See `SlidingWindow.take`; `loss`: what a limit over the cluster does when its ledger does not answer. */
  take(key: string, capacity: number, cost?: number, loss?: StoreLoss): Readonly<Decision> | Promise<Readonly<Decision>>
  /** See `SlidingWindow.peek` and `forget`. */
  peek(key: string, capacity: number): BucketPeek | Promise<BucketPeek>
  forget(key: string): void | Promise<void>
}

/** Makes the limits of actions. */
export interface Limiter {
  /**
   * @param identity whose limit it is; together with the length and the key it names a bucket
   * @param rateSeconds length of the window: 60 to 86,400 seconds, a multiple of ten
   */
  window(identity: string, rateSeconds: number): Pick<SlidingWindow, 'take' | 'peek' | 'forget'>
  statistics(): LimiterStatistics
}

/**
 * A table that limits share; see `LimiterTable`, whose methods these are. The functions of the limiter that decide take more than five
 * parameters: an object would be an allocation for each request.
 */
interface BucketTable {
  readonly hash: SipHash
  geometry(seconds: number): Geometry
  decide(low: number, high: number, geometry: Geometry, capacity: number, cost: number, decision: Decision): void
  peek(low: number, high: number, geometry: Geometry, capacity: number): BucketPeek
  pour(low: number, high: number, geometry: Geometry, sink: Sink): number | undefined
  forget(low: number, high: number): void
}

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
  private readonly decision: Decision = undecided()

  /**
   * @param identity whose limit it is; together with the length and the key it names a bucket
   * @param rateSeconds the window: 60 to 86,400 seconds, a multiple of ten; anything else is a RangeError
   */
  constructor(
    private readonly table: BucketTable,
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
   * trailing window. `cost` is how many admissions the request counts for, a whole number. One of 0 counts nothing, and is
   * admitted while no more than `capacity` are alive; one of more than `capacity` is never admitted.
   */
  take(key: string, capacity: number, cost = 1): Readonly<Decision> {
    const { table, decision } = this
    table.hash.hashText(this.beginning, key)
    table.decide(table.hash.low, table.hash.high, this.geometry, capacity, cost, decision)
    if (decision.admitted) this.admitted += 1
    else this.refused += 1
    return decision
  }

  /**
   * Gives the live admissions of the bucket of `key` to `sink`, oldest first, each with a time that is not before its own. Answers the
   * exact time of the last one; undefined: there is none.
   */
  pour(key: string, sink: Sink): number | undefined {
    const { table } = this
    table.hash.hashText(this.beginning, key)
    return table.pour(table.hash.low, table.hash.high, this.geometry, sink)
  }

  /** What the bucket of `key` holds now; counts nothing. */
  inspect(key: string): BucketView {
    const { used: count, resetSeconds } = this.peek(key, MAX_CAPACITY)
    return { count, resetSeconds }
  }

  /** What `take` with `capacity` would find in the bucket of `key` now; counts nothing. */
  peek(key: string, capacity: number): BucketPeek {
    const { table } = this
    table.hash.hashText(this.beginning, key)
    return table.peek(table.hash.low, table.hash.high, this.geometry, capacity)
  }

  /** Empties the bucket of `key`: what was admitted counts no more, but for what is in the sketch. */
  forget(key: string): void {
    const { table } = this
    table.hash.hashText(this.beginning, key)
    table.forget(table.hash.low, table.hash.high)
  }
}
