import { randomBytes } from 'node:crypto'
import type { Clock } from '../../../lib/clock.js'
import { Buckets } from './buckets.js'
import { Directory } from './directory.js'
import { COUNTER, Geometries, type Geometry, HEADER, layoutOf, PAGE_BYTES, SEGMENT } from './layout.js'
import { Memory } from './memory.js'
import { Pressure } from './pressure.js'
import { type Midstate, SipHash } from './siphash.js'
import { Sketch } from './sketch.js'
import { lastOf, type Sink } from './state.js'
import { Sweep } from './sweep.js'

/*
 * The sliding-window limiter
 * ==========================
 *
 * Promise. In any trailing window (t − rate, t] never more than `capacity` admissions happen. A request is refused
 * only when at least `capacity` were admitted in the trailing `rate + grain`, where a grain is rate/120 up to two
 * hours and one minute beyond; while at most 64 admissions of a bucket have been alive since it was last empty, only
 * when `capacity` were admitted in the trailing `rate` (to the millisecond). While the memory budget is full the
 * second promise does not hold for keys in the sketch; the first one always does.
 *
 * Argument. Let T(t) be the admissions of a bucket in (t − rate, t], E(t) what its state reports. A request is
 * admitted only when E < capacity, so it is enough that E ≥ T at any time:
 *
 *   ring      A stamp is the clock rounded up to the millisecond; it is dropped when the clock rounded down is `rate`
 *             later, so only after the admission has left the window.
 *   counts    A counter is dropped when the last millisecond of its grain is `rate` ago. It is kept whole until then:
 *             a kept admission is less than rate + grain old, which is the bound on refusals.
 *   rest      The time of the last admission is kept exactly. When it is `rate` ago everything has left. A lone client
 *             that waits for `rate` is therefore admitted, although its grain has not ended for as long.
 *   change    Stamps move into the counter of their time, so E does not fall; counters become a ring only when empty.
 *             A full 16-bit counter is widened, never held back. A new capacity changes the comparison alone.
 *   hash      Two keys with one hash add up. A client cannot choose such keys without the table's secret.
 *   sketch    A bucket that must leave is added to a sketch that never reports less than was added; see sketch.ts.
 *             A segment remembers until when any of its keys may be there, and until then every decision in it adds
 *             the estimate. A key that gets no bucket is counted in the sketch too.
 *
 * Memory. One shared buffer of the whole budget, touched as it is used: nothing is allocated by capacity, and nothing
 * on the path of a decision takes time in proportion to the number of buckets. See layout.ts for where things stand.
 * Decisions run on one thread now; the state of a segment is only reached through its record, which has a word for a
 * lock.
 */

/** The answer to one request. */
export interface Decision {
  /** When it was taken: monotonic milliseconds. */
  at: number
  admitted: boolean
  /** Admissions that are left after this decision. */
  remaining: number
  /** Seconds, rounded up, until the whole capacity is free again when nothing more is admitted. */
  resetSeconds: number
  /** Seconds after which a client that is alone will be admitted: at least 1, at most the window; 0 when admitted. */
  retryAfterSeconds: number
}

/** One bucket at one moment. */
interface BucketView {
  /** Live admissions, as a decision would count them. */
  readonly count: number
  readonly resetSeconds: number
}

/** What the limiter holds now. */
export interface LimiterStatistics {
  readonly buckets: number
  /** Buckets with room for at most 8 stamps, with a larger ring, and with counters. */
  readonly sparse: number
  readonly rings: number
  readonly counts: number
  readonly bytesReserved: number
  /** Bytes of pages that hold slots or states. */
  readonly bytesInUse: number
  /** Bytes of all pages that there are for slots and states. */
  readonly bytesForPages: number
  readonly admitted: number
  readonly refused: number
  /** Refusals that the estimate of the sketch took part in. */
  readonly sketchRefusals: number
  /** Admissions that were counted in the sketch because their key got no bucket. */
  readonly sketchDecisions: number
  /** Buckets that were moved into the sketch, and the admissions they held. */
  readonly folded: number
  readonly foldedAdmissions: number
  /** Empty buckets that were removed. */
  readonly dropped: number
}

interface LimiterOptions {
  /** Memory for everything, in bytes: 256 KiB to 4 GiB (default 1 GiB). Reserved at once, used as it is needed. */
  readonly budgetBytes?: number
  readonly clock: Clock
  /** 16 secret bytes (default: random). */
  readonly seed?: Uint8Array
}

const DEFAULT_BUDGET = 2 ** 30
const MAX_CAPACITY = 2 ** 32 - 1

/** The buckets of all limits of a process. Limits use it through `SlidingWindow`. */
export class LimiterTable implements Limiter {
  readonly hash: SipHash
  private readonly clock: Clock
  private readonly memory: Memory
  private readonly directory: Directory
  private readonly buckets: Buckets
  private readonly sketch: Sketch
  private readonly pressure: Pressure
  private readonly sweeper: Sweep
  private readonly geometries = new Geometries()

  constructor(options: LimiterOptions) {
    this.hash = new SipHash(options.seed ?? randomBytes(16))
    this.clock = options.clock
    this.memory = new Memory(layoutOf(options.budgetBytes ?? DEFAULT_BUDGET))
    this.directory = new Directory(this.memory)
    this.buckets = new Buckets(this.memory)
    this.sketch = new Sketch(this.memory)
    this.pressure = new Pressure(this.memory, this.directory, this.buckets, this.sketch, this.geometries)
    this.sweeper = new Sweep(this.memory, this.directory, this.buckets, this.geometries, this.clock)
  }

  window(identity: string, rateSeconds: number): SlidingWindow {
    return new SlidingWindow(this, identity, rateSeconds)
  }

  /** How time is cut for a window of `seconds`; RangeError when it is no valid length. */
  geometry(seconds: number): Geometry {
    return this.geometries.of(seconds / 10)
  }

  /**
   * Decides one request for the bucket with this hash at the present time; the answer is written into `decision`.
   * See `SlidingWindow.take` for what `capacity` and `cost` mean.
   */
  decide(low: number, high: number, geometry: Geometry, capacity: number, cost: number, decision: Decision): void {
    const { words } = this.memory
    const now = this.clock.monotonic()
    const limit = capacity > MAX_CAPACITY ? MAX_CAPACITY : capacity
    const slot = this.directory.find(low, high)
    const state = slot === 0 ? 0 : words[slot + 2]!
    const live = state === 0 ? 0 : this.buckets.expire(state, geometry, now)
    const folded = this.estimate(low, high, geometry, now)
    const left = limit - live - folded - cost
    decision.at = now
    if (left >= 0) {
      this.memory.doubles[COUNTER.admitted]! += 1
      this.admit(low, high, geometry, state, live, cost, now)
      decision.admitted = true
      decision.remaining = left
      decision.resetSeconds = geometry.seconds
      decision.retryAfterSeconds = 0
    } else {
      this.memory.doubles[COUNTER.refused]! += 1
      if (folded > 0) this.memory.doubles[COUNTER.sketchRefusals]! += 1
      decision.admitted = false
      decision.remaining = Math.max(0, left + cost)
      decision.resetSeconds = this.reset(state, live, folded, geometry, now)
      decision.retryAfterSeconds =
        cost > limit ? geometry.seconds : this.retry(low, high, state, live, folded, -left, geometry, now)
    }
  }

  /** The bucket with this hash at the present time. */
  view(low: number, high: number, geometry: Geometry): BucketView {
    const now = this.clock.monotonic()
    const slot = this.directory.find(low, high)
    const state = slot === 0 ? 0 : this.memory.words[slot + 2]!
    const live = state === 0 ? 0 : this.buckets.expire(state, geometry, now)
    const folded = this.estimate(low, high, geometry, now)
    return { count: live + folded, resetSeconds: this.reset(state, live, folded, geometry, now) }
  }

  /**
   * Removes empty buckets and gives memory back, for at most about `maxMilliseconds` (one segment at least) or one
   * round over the table; returns the buckets removed. Decisions are right without it: call it from a timer so that
   * memory is free before it is needed.
   */
  sweep(maxMilliseconds: number): number {
    return this.sweeper.run(maxMilliseconds)
  }

  statistics(): LimiterStatistics {
    const { words, doubles, layout } = this.memory
    return {
      ...this.buckets.census(),
      buckets: words[HEADER.buckets]!,
      bytesReserved: layout.bytes,
      bytesInUse: words[HEADER.pagesInUse]! * PAGE_BYTES,
      bytesForPages: (layout.endPage - layout.firstPage) * PAGE_BYTES,
      admitted: doubles[COUNTER.admitted]!,
      refused: doubles[COUNTER.refused]!,
      sketchRefusals: doubles[COUNTER.sketchRefusals]!,
      sketchDecisions: doubles[COUNTER.sketchDecisions]!,
      folded: doubles[COUNTER.folded]!,
      foldedAdmissions: doubles[COUNTER.foldedAdmissions]!,
      dropped: doubles[COUNTER.dropped]!
    }
  }

  /**
   * Gives the live admissions of the bucket with this hash to `sink`, oldest first; those in the sketch are not among them. Answers the
   * exact time of the last one.
   */
  pour(low: number, high: number, geometry: Geometry, sink: Sink): number | undefined {
    const now = this.clock.monotonic()
    const slot = this.directory.find(low, high)
    const state = slot === 0 ? 0 : this.memory.words[slot + 2]!
    if (state === 0 || this.buckets.expire(state, geometry, now) === 0) return undefined
    this.buckets.pour(state, geometry, Math.floor(now), sink)
    return lastOf(this.memory, state)
  }

  private estimate(low: number, high: number, geometry: Geometry, now: number): number {
    const record = this.directory.record(this.directory.segmentOf(low))
    if (now >= this.memory.words[record + SEGMENT.foldedUntil]! * 1_000) return 0
    return this.sketch.estimate(low, high, geometry.tens, Math.floor(now))
  }

  private admit(
    low: number,
    high: number,
    geometry: Geometry,
    found: number,
    live: number,
    cost: number,
    now: number
  ): void {
    const segment = this.directory.segmentOf(low)
    const state = found === 0 ? this.newBucket(segment, low, high, geometry, now) : found
    const stamp = Math.ceil(found === 0 ? now : Math.max(now, lastOf(this.memory, found)))
    if (state === 0) {
      this.pressure.spill(low, high, geometry.tens, stamp, cost)
      return
    }
    this.pressure.focus(segment, state, now)
    const fitted = this.buckets.fit(state, geometry, stamp, live, cost)
    if (fitted === 0) {
      // The bucket stays as it is; what it cannot hold is counted beside it.
      this.pressure.spill(low, high, geometry.tens, stamp, cost)
      return
    }
    // Found again, because making room may have moved the slot.
    if (fitted !== state) this.memory.words[this.directory.find(low, high) + 2] = fitted
    this.buckets.add(fitted, geometry, now, stamp, cost)
  }

  /** An empty bucket in the directory, or 0 without memory. */
  private newBucket(segment: number, low: number, high: number, geometry: Geometry, now: number): number {
    this.pressure.focus(segment, 0, now)
    if (!this.directory.reserve(segment) && !this.pressure.evictOne()) return 0
    const state = this.buckets.create(low, high, geometry)
    if (state !== 0) this.directory.insert(low, high, state)
    return state
  }

  private reset(state: number, live: number, folded: number, geometry: Geometry, now: number): number {
    if (folded > 0) return geometry.seconds
    if (live === 0) return 0
    return clamp((lastOf(this.memory, state) + geometry.rate - now) / 1_000, geometry.seconds)
  }

  /** Seconds until `over` admissions have left, from the bucket or from the sketch. */
  private retry(
    low: number,
    high: number,
    state: number,
    live: number,
    folded: number,
    over: number,
    geometry: Geometry,
    now: number
  ): number {
    const moment = Math.floor(now)
    let wait = Number.POSITIVE_INFINITY
    if (over <= live) {
      const rest = lastOf(this.memory, state) + geometry.rate - now
      wait = Math.min(rest, this.buckets.wait(state, geometry, moment, over))
    }
    if (over <= folded) wait = Math.min(wait, this.sketch.wait(low, high, geometry.tens, moment, over))
    return clamp(wait / 1_000, geometry.seconds)
  }
}

/** Makes the limits of actions. */
export interface Limiter {
  /**
   * @param identity whose limit it is; together with the length and the key it names a bucket
   * @param rateSeconds length of the window: 60 to 86,400 seconds, a multiple of ten
   */
  window(identity: string, rateSeconds: number): Pick<SlidingWindow, 'take'>
  statistics(): LimiterStatistics
}

/** A wait in whole seconds: rounded up, at least 1, at most `most`. */
function clamp(seconds: number, most: number): number {
  return Math.min(most, Math.max(1, Math.ceil(seconds)))
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
  private readonly decision: Decision = { at: 0, admitted: false, remaining: 0, resetSeconds: 0, retryAfterSeconds: 0 }

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
    const { table } = this
    table.hash.hashText(this.beginning, key)
    return table.view(table.hash.low, table.hash.high, this.geometry)
  }
}
