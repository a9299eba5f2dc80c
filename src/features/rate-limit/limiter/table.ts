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
 * Promise. An admission weighs what its request costs: a whole number, 1 for most, 0 for one that counts nothing. In any
 * trailing window (t − rate, t] that ends with an admission of cost 1 or more, what was admitted weighs at most the `capacity`
 * of that request. A request is refused only when what was admitted in the trailing `rate + grain`, and itself, weigh
 * more than its capacity, where a grain is rate/120 up to two hours and one minute beyond; while at most 64 units of a
 * bucket have been alive since it was last empty, only when that holds for the trailing `rate` (to the millisecond). While
 * the memory budget is full the second promise does not hold for keys in the sketch; the first one always does.
 *
 * So with one capacity no window weighs more than it. Where each request brings its own, as plans of customers do, each is
 * held to its own, by all that was admitted: nothing is counted again, or forgotten, because a capacity is another one.
 *
 * Argument. Let T(t) be the weight of what a bucket admitted in (t − rate, t], E(t) what its state reports. A request is
 * admitted only when E + cost ≤ capacity, so it is enough that E ≥ T at any time. A window that ends between two
 * admissions holds nothing that the window of the earlier one does not hold, so the earlier one's capacity bounds it.
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
 *
 * Threads. Any number of threads, each with a LimiterTable of its own over the same buffer, decide as one would:
 *
 *   segment   A decision has the lock of its bucket's segment from before it reads the clock until it has counted. So the
 *             decisions of a bucket come one after the other, and the clock, which is one for all threads (`Clock`), does
 *             not go back between them: the argument above holds for them as for one thread.
 *   structure What belongs to no segment (pages and their lists, the sketch, the number of buckets) and what a change of
 *             it takes along (slots, new and old states) is changed by the owner of one more lock. A thread that wants
 *             both takes the segment first; one that has the structure never waits for a segment, but passes by those that are
 *             taken. So no circle of threads can wait for each other.
 *   sketch    It is read inside the structure too, and then the clock is read again: what was dropped from it meanwhile
 *             has left the window by the time of the decision.
 *   numbers   Each thread counts for itself (COUNTER); a reader adds them up.
 *   waiting   Each wait has an end (locks.ts). A decision that got no lock is a refusal for a second, and is counted.
 *
 * Restarts. Where admissions are logged (AdmissionLog), a record is written for each one after it was counted and before the decision is
 * answered, with its time rounded up. What is made of it stands in ../kept/format.ts.
 *
 * Ends. A thread may end between any two stores; what it had locked is repaired by its number. Its decision was never
 * answered, so that it may be counted or not, but nothing that was counted before may be lost. See repair.ts.
 */

interface LimiterOptions {
  /** Memory for everything, in bytes: 256 KiB to 4 GiB (default 1 GiB). Reserved at once, used as it is needed. */
  readonly budgetBytes?: number
  /** Its monotonic time is one for all threads that use the table: it never goes back from one to another. */
  readonly clock: Clock
  /** 16 secret bytes (default: random). */
  readonly seed?: Uint8Array
  /** The table of another thread, in place of a new one. `budgetBytes` and `seed` mean nothing then. */
  readonly handle?: LimiterHandle
  /** Is every admission written into a log, for a keeper to take? Only for a new table; see `AdmissionLog`. */
  readonly logged?: boolean
  /** What is written through; for tests. */
  readonly views?: (views: Views) => Views
}

const DEFAULT_BUDGET = 2 ** 30

/** The buckets of all limits of a process. Limits use it through `SlidingWindow`. */
export class LimiterTable implements Limiter {
  readonly hash: SipHash
  /** What the hash of keys depends on, 16 bytes. */
  readonly secret: Uint8Array
  /** What the table holds, to be written down and read again. */
  readonly contents: Contents
  /** What was admitted by this thread, and by the others; empty: it is not logged. */
  readonly logs = new Map<number, AdmissionLog>()
  private readonly log: AdmissionLog | undefined
  /** Admissions before it are another process's. */
  private readonly began: number
  private readonly clock: Clock
  private readonly memory: Memory
  private readonly directory: Directory
  private readonly buckets: Buckets
  private readonly sketch: Sketch
  private readonly admitting: Admitting
  private readonly sweeper: Sweep
  private readonly geometries = new Geometries()

  /** RangeError for a budget or seed that is none, and for a handle of another version. */
  constructor({ budgetBytes = DEFAULT_BUDGET, clock, seed, handle, logged = false, views }: LimiterOptions) {
    if (handle !== undefined && handle.version !== LAYOUT_VERSION)
      throw new RangeError(`a table of version ${handle.version} is not one of version ${LAYOUT_VERSION}`)
    this.secret = handle?.seed ?? seed ?? randomBytes(16)
    this.hash = new SipHash(this.secret)
    this.clock = clock
    this.began = handle?.began ?? clock.monotonic()
    const log = handle === undefined ? (logged ? AdmissionLog.memory() : undefined) : handle.log
    // The keeper has the thread that made the table.
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
   * The handle for thread number `thread`, which must be used by no other living thread; the thread that made the table is
   * number 0. From now on decisions take locks.
   */
  share(thread: number): LimiterHandle {
    if (!(Number.isInteger(thread) && thread > 0 && thread < THREADS))
      throw new RangeError(`threads beside the first one have numbers from 1 to ${THREADS - 1}`)
    this.memory.share()
    const { began, secret: seed } = this
    return { buffer: this.memory.buffer, seed, version: LAYOUT_VERSION, thread, began, log: this.logOf(thread)?.buffer }
  }

  /**
   * Frees what thread number `thread` had locked when it ended, and brings it in order; returns the locks that it had. Call
   * it when the thread has ended, before its number is given to another one. It never makes a bucket hold less than was
   * admitted.
   */
  repair(thread: number): number {
    return repair(this.memory, this.directory, this.buckets, this.geometries, thread)
  }

  /** The log of another thread, which goes on where one of the same number has ended. */
  private logOf(thread: number): AdmissionLog | undefined {
    if (this.log === undefined) return undefined
    const known = this.logs.get(thread) ?? new AdmissionLog(AdmissionLog.memory(), true)
    this.logs.set(thread, known)
    return known
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
      folded = this.sketch.estimate(low, high, geometry.tens, Math.floor(now))
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
        if (cost > 0) this.log?.add(low, high, geometry.tens, now, cost)
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
        const sketchWait = -left > folded ? NEVER : this.sketch.wait(low, high, geometry.tens, Math.floor(now), -left)
        decision.retryAfterSeconds = clamp(Math.min(bucketWait, sketchWait) / 1_000, geometry.seconds)
      }
    }
    this.end(record)
  }

  /**
   * What a decision with `capacity` would find in the bucket with this hash at the present time. Error when another thread
   * has it for too long.
   */
  peek(low: number, high: number, geometry: Geometry, capacity: number): BucketPeek {
    const { memory, directory } = this
    const record = directory.record(directory.segmentOf(low))
    this.begin(record, true)
    const inSketch = this.clock.monotonic() < memory.words[record + SEGMENT.foldedUntil]! * 1_000
    if (inSketch) this.enter(record)
    const now = this.clock.monotonic()
    const folded = inSketch ? this.sketch.estimate(low, high, geometry.tens, Math.floor(now)) : 0
    const slot = directory.find(low, high)
    const state = slot === 0 ? 0 : memory.words[slot + 2]!
    const live = state === 0 ? 0 : this.buckets.expire(state, geometry, now)
    const left = capacity - live - folded
    let retryAfterSeconds = 0
    if (left <= 0) {
      const bucketWait = 1 - left > live ? NEVER : this.bucketWait(state, geometry, now, 1 - left)
      const sketchWait =
        1 - left > folded ? NEVER : this.sketch.wait(low, high, geometry.tens, Math.floor(now), 1 - left)
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
   * Removes the bucket with this hash, whatever it holds; what is in the sketch stays. Error when another thread has it for
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
      // What comes from now on has a later time than this, also when it is rounded.
      this.log?.add(low, high, 0, this.clock.monotonic() - 1 / TIME_PARTS, EMPTIED)
    }
    this.end(record)
  }

  /**
   * Removes empty buckets and gives memory back, for at most about `maxMilliseconds` (one segment at least) or one
   * round over the table; returns the buckets removed. Decisions are right without it: call it from a timer so that
   * memory is free before it is needed.
   */
  sweep(maxMilliseconds: number): number {
    return this.sweeper.run(maxMilliseconds)
  }

  /** Everything that the table holds, for a process with the same `secret` and clock; see `Memory.pieces`. */
  pieces(): Generator<Uint8Array> {
    return this.memory.pieces()
  }

  /** Goes on with what another table held, before the first decision; false: it has another budget or layout, and nothing changed. */
  resume(pieces: Uint8Array): boolean {
    return this.memory.resume(pieces)
  }

  statistics(): LimiterStatistics {
    return statisticsOf(this.memory, this.buckets)
  }

  /**
   * Gives the live admissions of the bucket with this hash to `sink`, oldest first; those in the sketch are not among them. Answers the
   * exact time of the last one. Error when another thread has the bucket for too long.
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

  /** Takes the segment with this record; false, or an error if that is `needed`, when another thread has it for too long. */
  private begin(record: number, needed = false): boolean {
    const { memory } = this
    const lock = record + SEGMENT.lock
    if (!memory.entered && memory.locks.acquire(lock)) return true
    return this.beginAgain(lock, needed)
  }

  /** A decision of this very thread may have been interrupted by an error of the machine, such as an exhausted stack. */
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

  /** The answer when the bucket cannot be looked at. */
  private busy(geometry: Geometry, decision: Decision): void {
    this.memory.count(COUNTER.busy, 1)
    decision.at = this.clock.monotonic()
    decision.admitted = false
    decision.remaining = 0
    decision.resetSeconds = geometry.seconds
    decision.retryAfterSeconds = 1
    decision.before = -1
  }

  /** When the last admission was that this process has counted; -1: there is none in the window. */
  private before(state: number, live: number): number {
    const last = live === 0 ? -1 : lastOf(this.memory, state)
    return last < this.began ? -1 : last
  }

  private reset(state: number, live: number, folded: number, geometry: Geometry, now: number): number {
    if (folded > 0) return geometry.seconds
    if (live === 0) return 0
    return clamp((lastOf(this.memory, state) + geometry.rate - now) / 1_000, geometry.seconds)
  }

  /** Milliseconds until `over` admissions have left the bucket, which holds as many. */
  private bucketWait(state: number, geometry: Geometry, now: number, over: number): number {
    const rest = lastOf(this.memory, state) + geometry.rate - now
    return Math.min(rest, this.buckets.wait(state, geometry, Math.floor(now), over))
  }
}

/** Wait for what holds less than has to leave. */
const NEVER = Number.POSITIVE_INFINITY

function tooBusy(): Error {
  return new Error('another thread has this part of the limiter for too long')
}

/** A wait in whole seconds: rounded up, at least 1, at most `most`. */
function clamp(seconds: number, most: number): number {
  return Math.min(most, Math.max(1, Math.ceil(seconds)))
}
