import { randomBytes } from 'node:crypto'
import type { Clock } from '../../../lib/clock.js'
import { AdmissionLog, EMPTIED, TIME_PARTS } from './admission-log.js'
import { Admitting } from './admitting.js'
import { Buckets } from './buckets.js'
import { Contents } from './contents.js'
import { type BucketPeek, type Decision, MAX_CAPACITY } from './decision.js'
import { Directory } from './directory.js'
import { COUNTER, Geometries, type Geometry, HEADER, LAYOUT_VERSION, layoutOf, SEGMENT, THREADS } from './layout.js'
import { type LimiterHandle, Memory, type Views } from './memory.js'
import { Pressure } from './pressure.js'
import { repair } from './repair.js'
import { SipHash } from './siphash.js'
import { Sketch } from './sketch.js'
import { type Limiter, SlidingWindow } from './sliding-window.js'
import { lastOf, type Sink } from './state.js'
import { type LimiterStatistics, statisticsOf } from './statistics.js'
import { Sweep } from './sweep.js'

/*
 * The sliding-window limiter
 * ==========================
 *
 * Promise. An admission weighs the cost of its request: a whole number, usually 1; a cost of 0 counts nothing. In any trailing
 * window (t − rate, t] that ends with an admission of cost 1 or more, the admissions weigh at most the `capacity` of that
 * request. A request is refused only if the admissions of the trailing `rate + grain` and the request itself weigh more than
 * its capacity, where a grain is rate/120 up to two hours (below a minute rounded up to whole milliseconds) and one minute beyond; while at most 64 units of a bucket have been
 * alive since it was last empty, only if that holds for the trailing `rate` (to the millisecond). While the memory budget is
 * exhausted, the second promise does not hold for keys in the sketch; the first one always does.
 *
 * So with one capacity no window weighs more than it. If each request has its own capacity, for example by customer plan, each
 * is compared with all admissions: a different capacity neither recounts nor drops any of them.
 *
 * Argument. Let T(t) be the weight of a bucket's admissions in (t − rate, t], E(t) the weight that its state reports. A request
 * is admitted only if E + cost ≤ capacity, so it suffices that E ≥ T at any time. A window that ends between two admissions
 * contains only admissions of the earlier one's window, so the earlier one's capacity bounds it.
 *
 *   ring      A stamp is the clock rounded up to the millisecond; it is dropped when the clock rounded down is `rate`
 *             later, so only after the admission has left the window.
 *   counts    A counter is dropped when the last millisecond of its grain is `rate` ago. It is kept whole until then:
 *             a kept admission is less than rate + grain old, which is the bound on refusals.
 *   rest      The time of the last admission is exact. When it is `rate` ago every admission has left. A single client
 *             that waits for `rate` is therefore admitted, although its grain has not expired yet.
 *   change    Stamps move to the counter of their time, so E does not fall; counters become a ring only when empty.
 *             A full 16-bit counter is widened, never clipped. A new capacity changes the comparison alone.
 *   hash      Two keys with one hash add up. A client cannot choose such keys without the table's secret.
 *   sketch    A removed bucket is added to a sketch that never reports less than was added; see sketch.ts. A segment
 *             records until when any of its keys may be there, and until then every decision in it adds the estimate.
 *             A key without a bucket is counted in the sketch too.
 *
 * Memory. One shared buffer of the whole budget, used on demand: nothing is allocated by capacity, and no step of a decision
 * takes time in proportion to the number of buckets. See layout.ts for the layout.
 *
 * Threads. Any number of threads, each with its own LimiterTable on the same buffer, decide as one would:
 *
 *   segment   A decision holds the lock of its bucket's segment from before it reads the clock until it has counted. So
 *             the decisions of a bucket are sequential, and the clock, which all threads share (`Clock`), does not go back
 *             between them: the argument above holds as for one thread.
 *   structure Data of no segment (pages and their lists, the sketch, the number of buckets), and data that changes with it
 *             (slots, new and old states), is changed by the owner of one more lock. A thread that needs both locks the
 *             segment first; one inside the structure never waits for a segment, but skips locked ones. So there is no
 *             deadlock.
 *   sketch    It is read inside the structure too, and then the clock is read again: admissions dropped meanwhile have
 *             left the window by the time of the decision.
 *   numbers   Each thread has its own counters (COUNTER); a reader adds them up.
 *   waiting   Each wait is bounded (locks.ts). A decision without a lock is a refusal for a second, and is counted.
 *
 * Restarts. If admissions are logged (AdmissionLog), each is recorded after it was counted and before the decision is returned,
 * with its time rounded up. See ../kept/format.ts for the use of the records.
 *
 * Crashes. A thread may stop between any two stores; its locks are repaired by its number. Its decision was never returned, so
 * that it may be counted or not, but no earlier admission may be lost. See repair.ts.
 */

interface LimiterOptions {
  /** Total memory in bytes: 256 KiB to 4 GiB; reserved at once, used on demand. @default 1 GiB */
  readonly budgetBytes?: number
  /** Clock whose monotonic time is the same for all threads of the table: it never goes back between them. */
  readonly clock: Clock
  /** 16 secret bytes. @default random */
  readonly seed?: Uint8Array
  /** Table of another thread instead of a new one; `budgetBytes` and `seed` are ignored. */
  readonly handle?: LimiterHandle
  /** Writes every admission to a log for a keeper. Only for a new table; see `AdmissionLog`. */
  readonly logged?: boolean
  /** Wraps all stores, for tests. */
  readonly views?: (views: Views) => Views
}

const DEFAULT_BUDGET = 2 ** 30

/** Buckets of all limits of a process. Limits use it through `SlidingWindow`. */
export class LimiterTable implements Limiter {
  readonly hash: SipHash
  /** Secret of the key hashes, 16 bytes. */
  readonly secret: Uint8Array
  /** Content of the table for writing and reading. */
  readonly contents: Contents
  /** Admissions of each thread; empty if they are not logged. */
  readonly logs = new Map<number, AdmissionLog>()
  private readonly log: AdmissionLog | undefined
  /** Earlier admissions are from another process. */
  private readonly began: number
  private readonly clock: Clock
  private readonly memory: Memory
  private readonly directory: Directory
  private readonly buckets: Buckets
  private readonly sketch: Sketch
  private readonly admitting: Admitting
  private readonly sweeper: Sweep
  private readonly geometries = new Geometries()

  /** Throws a RangeError for an invalid budget or seed, and for a handle of another version. */
  constructor({ budgetBytes = DEFAULT_BUDGET, clock, seed, handle, logged = false, views }: LimiterOptions) {
    if (handle !== undefined && handle.version !== LAYOUT_VERSION)
      throw new RangeError(`a table of version ${handle.version} is not one of version ${LAYOUT_VERSION}`)
    this.secret = handle?.seed ?? seed ?? randomBytes(16)
    this.hash = new SipHash(this.secret)
    this.clock = clock
    this.began = handle?.began ?? clock.monotonic()
    const log = handle === undefined ? (logged ? AdmissionLog.memory() : undefined) : handle.log
    // The keeper runs in the thread that created the table.
    this.log = log === undefined ? undefined : new AdmissionLog(log, handle !== undefined)
    if (this.log !== undefined && handle === undefined) this.logs.set(0, this.log)
    const layout = layoutOf(handle?.buffer.byteLength ?? budgetBytes)
    this.memory = new Memory(layout, { buffer: handle?.buffer, thread: handle?.thread, views })
    this.directory = new Directory(this.memory)
    this.buckets = new Buckets(this.memory)
    this.sketch = new Sketch(this.memory)
    const pressure = new Pressure(this.memory, this.directory, this.buckets, this.sketch, this.geometries)
    this.admitting = new Admitting(this.memory, this.directory, this.buckets, pressure)
    const { memory, directory, buckets, sketch, geometries, admitting } = this
    this.contents = new Contents({ memory, directory, buckets, sketch, geometries, admitting, clock })
    this.sweeper = new Sweep(this.memory, this.directory, this.buckets, this.geometries, this.clock)
  }

  /**
   * Returns the handle for thread number `thread`, which no other living thread may use; the thread that created the table is number 0.
   * From now on decisions take locks.
   */
  share(thread: number): LimiterHandle {
    if (!(Number.isInteger(thread) && thread > 0 && thread < THREADS))
      throw new RangeError(`threads beside the first one have numbers from 1 to ${THREADS - 1}`)
    this.memory.share()
    const { began, secret: seed } = this
    return { buffer: this.memory.buffer, seed, version: LAYOUT_VERSION, thread, began, log: this.logOf(thread)?.buffer }
  }

  /**
   * Repairs and releases what the stopped thread number `thread` had locked; returns the number of its locks. Call it after the thread has
   * ended and before its number is reused. No bucket ever loses an admission by it.
   */
  repair(thread: number): number {
    return repair(this.memory, this.directory, this.buckets, this.geometries, thread)
  }

  /** Returns the log of another thread, which continues that of a stopped one with the same number. */
  private logOf(thread: number): AdmissionLog | undefined {
    if (this.log === undefined) return undefined
    const known = this.logs.get(thread) ?? new AdmissionLog(AdmissionLog.memory(), true)
    this.logs.set(thread, known)
    return known
  }

  window(identity: string, rateSeconds: number): SlidingWindow {
    return new SlidingWindow(this, identity, rateSeconds)
  }

  /** Returns the geometry of a window of `seconds`; throws a RangeError for an invalid length. */
  geometry(seconds: number): Geometry {
    return this.geometries.ofSeconds(seconds)
  }

  /**
   * Decides one request for the bucket with this hash now; writes the result to `decision`. See `SlidingWindow.take` for `capacity` and
   * `cost`.
   */
  decide(low: number, high: number, geometry: Geometry, capacity: number, cost: number, decision: Decision): void {
    const { memory, directory } = this
    const { words } = memory
    const record = directory.record(directory.segmentOf(low))
    if (!this.begin(record)) {
      this.busy(geometry, decision)
      return
    }
    let now = this.clock.monotonic()
    let folded = 0
    if (now < words[record + SEGMENT.foldedUntil]! * 1_000) {
      if (!memory.enter()) {
        this.end(record)
        this.busy(geometry, decision)
        return
      }
      now = this.clock.monotonic()
      folded = this.sketch.estimate(low, high, geometry.code, Math.floor(now))
    }
    const limit = capacity > MAX_CAPACITY ? MAX_CAPACITY : capacity
    const slot = directory.find(low, high)
    const state = slot === 0 ? 0 : words[slot + 2]!
    const live = state === 0 ? 0 : this.buckets.expire(state, geometry, now)
    const left = limit - live - folded - cost
    decision.at = now
    decision.before = this.before(state, live)
    if (left >= 0) {
      if (cost === 0 || this.admitting.admit(low, high, geometry, state, live, cost, now)) {
        if (cost > 0) this.log?.add(low, high, geometry.code, now, cost)
        memory.count(COUNTER.admitted, 1)
        decision.admitted = true
        decision.remaining = left
        decision.resetSeconds = geometry.seconds
        decision.retryAfterSeconds = 0
      } else {
        this.busy(geometry, decision)
      }
    } else {
      memory.count(COUNTER.refused, 1)
      if (folded > 0) memory.count(COUNTER.sketchRefusals, 1)
      decision.admitted = false
      decision.remaining = Math.max(0, left + cost)
      decision.resetSeconds = this.reset(state, live, folded, geometry, now)
      decision.retryAfterSeconds = geometry.seconds
      if (cost <= limit) {
        const bucketWait = -left > live ? NEVER : this.bucketWait(state, geometry, now, -left)
        const sketchWait = -left > folded ? NEVER : this.sketch.wait(low, high, geometry.code, Math.floor(now), -left)
        decision.retryAfterSeconds = clamp(Math.min(bucketWait, sketchWait) / 1_000, geometry.seconds)
      }
    }
    this.end(record)
  }

  /**
   * Returns what a decision with `capacity` would find in the bucket with this hash now. Throws an Error if another thread holds it for too
   * long.
   */
  peek(low: number, high: number, geometry: Geometry, capacity: number): BucketPeek {
    const { memory, directory } = this
    const record = directory.record(directory.segmentOf(low))
    this.begin(record, true)
    const inSketch = this.clock.monotonic() < memory.words[record + SEGMENT.foldedUntil]! * 1_000
    if (inSketch) this.enter(record)
    const now = this.clock.monotonic()
    const folded = inSketch ? this.sketch.estimate(low, high, geometry.code, Math.floor(now)) : 0
    const slot = directory.find(low, high)
    const state = slot === 0 ? 0 : memory.words[slot + 2]!
    const live = state === 0 ? 0 : this.buckets.expire(state, geometry, now)
    const left = capacity - live - folded
    let retryAfterSeconds = 0
    if (left <= 0) {
      const bucketWait = 1 - left > live ? NEVER : this.bucketWait(state, geometry, now, 1 - left)
      const sketchWait =
        1 - left > folded ? NEVER : this.sketch.wait(low, high, geometry.code, Math.floor(now), 1 - left)
      retryAfterSeconds = clamp(Math.min(bucketWait, sketchWait) / 1_000, geometry.seconds)
    }
    const seen = {
      at: now,
      used: live + folded,
      folded,
      remaining: Math.max(0, left),
      resetSeconds: this.reset(state, live, folded, geometry, now),
      retryAfterSeconds,
      before: this.before(state, live)
    }
    this.end(record)
    return seen
  }

  /**
   * Removes the bucket with this hash, whatever its content; admissions in the sketch stay. Throws an Error if another thread holds it for
   * too long.
   */
  forget(low: number, high: number): void {
    const { directory } = this
    const record = directory.record(directory.segmentOf(low))
    this.begin(record, true)
    if (directory.find(low, high) !== 0) {
      this.enter(record)
      directory.remove(directory.segment, directory.index)
      this.buckets.discard(HEADER.leaving)
      // Later admissions have a later time than this, even when rounded.
      this.log?.add(low, high, 0, this.clock.monotonic() - 1 / TIME_PARTS, EMPTIED)
    }
    this.end(record)
  }

  /**
   * Removes empty buckets and releases memory for about `maxMilliseconds` (one segment at least) or one round over the table; returns the
   * number of buckets removed. Decisions are correct without it: call it from a timer so that memory is free in advance.
   */
  sweep(maxMilliseconds: number): number {
    return this.sweeper.run(maxMilliseconds)
  }

  /** Yields the content of the table for a process with the same `secret` and clock; see `Memory.pieces`. */
  pieces(): Generator<Uint8Array> {
    return this.memory.pieces()
  }

  /** Restores the content of another table before the first decision; returns false, without changes, if its budget or layout differs. */
  resume(pieces: Uint8Array): boolean {
    return this.memory.resume(pieces)
  }

  statistics(): LimiterStatistics {
    return statisticsOf(this.memory, this.buckets)
  }

  /**
   * Passes the live admissions of the bucket with this hash to `sink`, oldest first, without those in the sketch. Returns the exact time of
   * the last one. Throws an Error if another thread holds the bucket for too long.
   */
  pour(low: number, high: number, geometry: Geometry, sink: Sink): number | undefined {
    const { memory, directory, buckets } = this
    const record = directory.record(directory.segmentOf(low))
    this.begin(record, true)
    try {
      const now = this.clock.monotonic()
      const slot = directory.find(low, high)
      const state = slot === 0 ? 0 : memory.words[slot + 2]!
      if (state === 0 || buckets.expire(state, geometry, now) === 0) return undefined
      buckets.pour(state, geometry, Math.floor(now), sink)
      return lastOf(memory, state)
    } finally {
      this.end(record)
    }
  }

  /** Locks the segment with this record. If another thread holds it for too long, returns false, or throws if `needed`. */
  private begin(record: number, needed = false): boolean {
    const { memory } = this
    const lock = record + SEGMENT.lock
    if (!memory.entered && memory.locks.acquire(lock)) return true
    return this.beginAgain(lock, needed)
  }

  /** Repairs a decision of this thread that was interrupted by an engine error, such as a stack overflow. */
  private beginAgain(lock: number, needed: boolean): boolean {
    const { memory } = this
    if (memory.entered || memory.locks.owns(lock)) {
      this.repair(memory.thread)
      if (memory.locks.acquire(lock)) return true
    }
    if (needed) throw tooBusy()
    return false
  }

  private end(record: number): void {
    this.memory.leave()
    this.memory.locks.release(record + SEGMENT.lock)
  }

  private enter(record: number): void {
    if (this.memory.enter()) return
    this.end(record)
    throw tooBusy()
  }

  /** Writes the result for a bucket that cannot be read. */
  private busy(geometry: Geometry, decision: Decision): void {
    this.memory.count(COUNTER.busy, 1)
    decision.at = this.clock.monotonic()
    decision.admitted = false
    decision.remaining = 0
    decision.resetSeconds = geometry.seconds
    decision.retryAfterSeconds = 1
    decision.before = -1
  }

  /** Returns the time of the last admission counted by this process; -1: none in the window. */
  private before(state: number, live: number): number {
    const last = live === 0 ? -1 : lastOf(this.memory, state)
    return last < this.began ? -1 : last
  }

  private reset(state: number, live: number, folded: number, geometry: Geometry, now: number): number {
    if (folded > 0) return geometry.seconds
    if (live === 0) return 0
    return clamp((lastOf(this.memory, state) + geometry.rate - now) / 1_000, geometry.seconds)
  }

  /** Returns the milliseconds until `over` admissions have left the bucket, which holds at least as many. */
  private bucketWait(state: number, geometry: Geometry, now: number, over: number): number {
    const rest = lastOf(this.memory, state) + geometry.rate - now
    return Math.min(rest, this.buckets.wait(state, geometry, Math.floor(now), over))
  }
}

/** Wait if a bucket holds less than has to leave. */
const NEVER = Number.POSITIVE_INFINITY

function tooBusy(): Error {
  return new Error('another thread has this part of the limiter for too long')
}

/** Converts a wait to whole seconds: rounded up, at least 1, at most `most`. */
function clamp(seconds: number, most: number): number {
  return Math.min(most, Math.max(1, Math.ceil(seconds)))
}
