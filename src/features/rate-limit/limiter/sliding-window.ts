import type { StoreLoss } from '../../../lib/limit-ledger.js'
import { type BucketPeek, type BucketView, type Decision, MAX_CAPACITY, undecided } from './decision.js'
import type { Geometry } from './layout.js'
import type { Midstate, SipHash } from './siphash.js'
import type { Sink } from './state.js'
import type { LimiterStatistics } from './statistics.js'

/** Limit, wherever it counts. Asynchronous if another process must be called. */
export interface LimitWindow {
  /** See `SlidingWindow.take`; `loss`: behaviour of a cluster limit without a ledger response. */
  take(key: string, capacity: number, cost?: number, loss?: StoreLoss): Readonly<Decision> | Promise<Readonly<Decision>>
  /** See `SlidingWindow.peek` and `forget`. */
  peek(key: string, capacity: number): BucketPeek | Promise<BucketPeek>
  forget(key: string): void | Promise<void>
}

/** Creates the limits of actions. */
export interface Limiter {
  /**
   * @param identity identity of the limit; with length and key it identifies a bucket
   * @param rateSeconds window length: 1 to 59 whole seconds, or 60 to 86,400 seconds and a multiple of ten
   */
  window(identity: string, rateSeconds: number): Pick<SlidingWindow, 'take' | 'peek' | 'forget'>
  statistics(): LimiterStatistics
}

/**
 * Table shared by limits; see `LimiterTable`. The deciding functions of the limiter have more than five parameters, because an object would
 * be an allocation for each request.
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
 * Limit: a sliding window of fixed length over any number of keys, in a table that many limits share.
 *
 * Two windows of a table with equal identity and length share their buckets; another length is another identity, because admissions cannot
 * be recounted for it.
 */
export class SlidingWindow {
  /** Decisions of this window so far. */
  admitted = 0
  refused = 0
  private readonly geometry: Geometry
  private readonly beginning: Midstate
  private readonly decision: Decision = undecided()

  /**
   * @param identity identity of the limit; with length and key it identifies a bucket
   * @param rateSeconds window: 1 to 59 whole seconds, or 60 to 86,400 seconds and a multiple of ten; otherwise throws a RangeError
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
   * Decides one request now and counts it if admitted. Never throws for any key.
   *
   * The result is an object that the next call of this window overwrites. A request is admitted if at most `capacity - cost` admissions are
   * alive, so never more than `capacity` (up to 4,294,967,295) happen in any trailing window. `cost`: whole number of admissions that the
   * request counts as. A cost of 0 counts nothing, and is admitted while at most `capacity` are alive; a cost above `capacity` is never
   * admitted.
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
   * Passes the live admissions of the bucket of `key` to `sink`, oldest first, each with a time not before its own. Returns the exact time
   * of the last one; undefined for none.
   */
  pour(key: string, sink: Sink): number | undefined {
    const { table } = this
    table.hash.hashText(this.beginning, key)
    return table.pour(table.hash.low, table.hash.high, this.geometry, sink)
  }

  /** Returns the content of the bucket of `key`; counts nothing. */
  inspect(key: string): BucketView {
    const { used: count, resetSeconds } = this.peek(key, MAX_CAPACITY)
    return { count, resetSeconds }
  }

  /** Returns what `take` with `capacity` would find in the bucket of `key`; counts nothing. */
  peek(key: string, capacity: number): BucketPeek {
    const { table } = this
    table.hash.hashText(this.beginning, key)
    return table.peek(table.hash.low, table.hash.high, this.geometry, capacity)
  }

  /** Clears the bucket of `key`, except for admissions in the sketch. */
  forget(key: string): void {
    const { table } = this
    table.hash.hashText(this.beginning, key)
    table.forget(table.hash.low, table.hash.high)
  }
}
