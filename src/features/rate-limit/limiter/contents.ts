import type { Clock } from '../../../lib/clock.js'
import type { Admitting } from './admitting.js'
import type { Buckets } from './buckets.js'
import type { Directory } from './directory.js'
import { type Geometries, HEADER, SEGMENT } from './layout.js'
import type { Memory } from './memory.js'
import type { Generation, Sketch } from './sketch.js'
import { type Sink, windowOf } from './state.js'

const TWO32 = 2 ** 32
/** Cost at which a part of a segment ends, about 0.1 ms: 1 for a bucket, and 1 for its numbers below. */
const MOST = 250
/** Numbers of a bucket that cost 1. */
const NUMBERS = 16

interface ContentsParts {
  readonly memory: Memory
  readonly directory: Directory
  readonly buckets: Buckets
  readonly sketch: Sketch
  readonly geometries: Geometries
  readonly admitting: Admitting
  readonly clock: Clock
}

/** Receives buckets: first the bucket, then its admissions, oldest first. */
export interface BucketSink extends Sink {
  begin(low: number, high: number, code: number): void
}

/** Part of a segment at one moment: the buckets whose high hash half is at least `from` and below `end`. */
export interface SegmentPart {
  /** Monotonic milliseconds. */
  readonly at: number
  /** Start of the next part; 2³²: the end of the segment. */
  readonly end: number
}

/**
 * Content of a table as data independent of its layout, for writing beside decisions and for filling another table.
 *
 * A part of a segment ends at a free slot: no search passes it, so every bucket with an earlier home has been seen. Its borders are hashes,
 * not places, so they stay valid after the segment grows and entries move.
 */
export class Contents {
  private readonly parts: ContentsParts

  constructor(parts: ContentsParts) {
    this.parts = parts
  }

  get segments(): number {
    return this.parts.memory.layout.segments
  }

  get buckets(): number {
    return this.parts.memory.words[HEADER.buckets]!
  }

  /** Monotonic milliseconds. */
  now(): number {
    return this.parts.clock.monotonic()
  }

  /** Makes room for this number of buckets, as far as memory allows. Before other threads use the table. */
  expect(buckets: number): void {
    const { memory, directory } = this.parts
    // Hashes spread evenly to within a few percent.
    const each = Math.ceil((buckets / this.segments) * 1.05)
    for (let segment = 0; segment < this.segments; segment += 1) directory.expect(segment, each)
    memory.leave()
  }

  /**
   * Passes the live buckets of a part of `segment` to `sink`. They, or the sketch, contain all admissions before the result's `at`.
   * Undefined: another thread has the segment.
   */
  part(segment: number, from: number, sink: BucketSink): SegmentPart | undefined {
    const { memory, directory, clock } = this.parts
    const lock = directory.record(segment) + SEGMENT.lock
    if (!memory.locks.tryAcquire(lock)) return undefined
    try {
      const at = clock.monotonic()
      return { at, end: this.read(segment, from, at, sink) }
    } finally {
      memory.leave()
      memory.locks.release(lock)
    }
  }

  /**
   * Counts admissions at `stamp` (whole milliseconds) that are in their window at `now`, which is not after the present. Calls for one
   * bucket must be in order of time; an earlier one counts as late as the last. Returns false if another thread holds the bucket for too
   * long.
   */
  count(low: number, high: number, code: number, stamp: number, cost: number, now: number): boolean {
    const { memory, directory, buckets, geometries, admitting } = this.parts
    const geometry = geometries.of(code)
    const lock = directory.record(directory.segmentOf(low)) + SEGMENT.lock
    if (!memory.locks.acquire(lock)) return false
    try {
      if (now - stamp >= geometry.rate) return true
      const slot = directory.find(low, high)
      const state = slot === 0 ? 0 : memory.words[slot + 2]!
      const live = state === 0 ? 0 : buckets.expire(state, geometry, now)
      return admitting.admit(low, high, geometry, state, live, cost, now, stamp)
    } finally {
      memory.leave()
      memory.locks.release(lock)
    }
  }

  /** Returns the live generations of the sketch; the cells are those of the table itself. */
  generations(): Generation[] {
    return this.parts.sketch.generations(Math.floor(this.parts.clock.monotonic()))
  }

  /**
   * Raises the sketch of a new table to at least the estimates of another one's cells, from column `from` of `width`. Returns false if
   * another thread holds the structure for too long.
   */
  raise(generation: Omit<Generation, 'rows'>, row: number, from: number, cells: Uint32Array): boolean {
    const { memory, sketch, directory } = this.parts
    if (!memory.enter()) return false
    const until = Math.ceil(sketch.raise(generation, row, from, cells) / 1_000)
    memory.leave()
    for (let segment = 0; segment < this.segments; segment += 1) {
      const word = directory.record(segment) + SEGMENT.foldedUntil
      memory.words[word] = Math.max(memory.words[word]!, until)
    }
    return true
  }

  private read(segment: number, from: number, now: number, sink: BucketSink): number {
    const { memory, directory, buckets, geometries } = this.parts
    const { words } = memory
    const size = words[directory.record(segment) + SEGMENT.size]!
    const begin = Math.floor((from * size) / TWO32)
    const moment = Math.floor(now)
    const counting = new Counting(sink)
    for (let step = 0; step < 2 * size; step += 1) {
      // The first slot follows the last one: it contains entries that found no room before the end.
      const index = (begin + step) % size
      const wrapped = begin + step >= size
      const slot = directory.slot(segment, index)
      const state = words[slot + 2]!
      if (state === 0) {
        if (wrapped) return TWO32
        const end = Math.ceil(((index + 1) * TWO32) / size)
        if (counting.cost >= MOST && end < TWO32) return end
        continue
      }
      const high = words[slot + 1]!
      const home = Math.floor((high * size) / TWO32)
      // Skips entries of the previous part; each of the others is seen once, those from the end when the end is reached.
      if (high < from || (wrapped ? home <= index : home > index)) continue
      const code = windowOf(words, state)
      const geometry = geometries.of(code)
      counting.cost += 1
      if (buckets.expire(state, geometry, now) > 0) {
        sink.begin(words[slot]!, high, code)
        buckets.pour(state, geometry, moment, counting)
      }
      // So that other threads wait for one bucket at most.
      memory.leave()
    }
    return TWO32
  }
}

/** Passes admissions on and counts their cost. */
class Counting implements Sink {
  cost = 0

  constructor(private readonly sink: Sink) {}

  add(stamp: number, count: number): void {
    this.cost += 1 / NUMBERS
    this.sink.add(stamp, count)
  }
}
