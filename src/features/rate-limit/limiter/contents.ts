import type { Clock } from '../../../lib/clock.js'
import type { Admitting } from './admitting.js'
import type { Buckets } from './buckets.js'
import type { Directory } from './directory.js'
import { type Geometries, HEADER, SEGMENT } from './layout.js'
import type { Memory } from './memory.js'
import type { Generation, Sketch } from './sketch.js'
import { type Sink, tensOf } from './state.js'

const TWO32 = 2 ** 32
/** A part of a segment ends when it has cost so much: one for a bucket, and one for so many numbers of it. About 0.1 ms. */
const MOST = 250
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

/** Takes buckets: first which one it is, then its admissions, oldest first. */
export interface BucketSink extends Sink {
  begin(low: number, high: number, tens: number): void
}

/** A part of a segment as it was at one moment: the buckets whose hash has a high half from `from` on and below `end`. */
export interface SegmentPart {
  /** Monotonic milliseconds. */
  readonly at: number
  /** Where the next part begins; 2³²: the segment is at its end. */
  readonly end: number
}

/**
 * What a table holds, as data that does not depend on its layout: to be written down beside decisions, and to fill another table with.
 *
 * A part of a segment ends at a slot that is free: no search passes it, so every bucket whose home lies before has been seen. Its
 * borders are hashes and not places, so they mean the same after the segment has grown and after entries have moved.
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

  /** Makes room for so many buckets, as far as there is memory for them. Before other threads use the table. */
  expect(buckets: number): void {
    const { memory, directory } = this.parts
    // Hashes spread evenly, but for a few percent.
    const each = Math.ceil((buckets / this.segments) * 1.05)
    for (let segment = 0; segment < this.segments; segment += 1) directory.expect(segment, each)
    memory.leave()
  }

  /**
   * Gives the live buckets of a part of `segment` to `sink`. What was admitted before `at` of the answer is in them, or in the sketch.
   * Undefined: another thread has the segment now.
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
   * Counts what was admitted at `stamp`, in whole milliseconds, as far as it is in its window at `now`, which is not after the present. For
   * one bucket calls come in the order of time; an earlier one counts as late as the last. False: another thread has the bucket for too long.
   */
  count(low: number, high: number, tens: number, stamp: number, cost: number, now: number): boolean {
    const { memory, directory, buckets, geometries, admitting } = this.parts
    const geometry = geometries.of(tens)
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

  /** What of the sketch is not over; the cells are those of the table itself. */
  generations(): Generation[] {
    return this.parts.sketch.generations(Math.floor(this.parts.clock.monotonic()))
  }

  /**
   * Raises a new table's sketch so that it estimates at least what cells of another one would, which begin with column `from` of `width`.
   * False: another thread has the structure for too long.
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
      // Behind the last slot comes the first one: entries that found no room before the end are there.
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
      // Entries of the part before; and each of the others once, those from the end when the end is reached.
      if (high < from || (wrapped ? home <= index : home > index)) continue
      const tens = tensOf(words, state)
      const geometry = geometries.of(tens)
      counting.cost += 1
      if (buckets.expire(state, geometry, now) > 0) {
        sink.begin(words[slot]!, high, tens)
        buckets.pour(state, geometry, moment, counting)
      }
      // So that other threads wait for one bucket at most.
      memory.leave()
    }
    return TWO32
  }
}

/** Passes admissions on and counts what that costs. */
class Counting implements Sink {
  cost = 0

  constructor(private readonly sink: Sink) {}

  add(stamp: number, count: number): void {
    this.cost += 1 / NUMBERS
    this.sink.add(stamp, count)
  }
}
