import type { Buckets } from './buckets.js'
import type { Directory } from './directory.js'
import { COUNTER, type Geometries, HEADER, SEGMENT } from './layout.js'
import { type Memory, SMALL_CLASSES } from './memory.js'
import type { Sketch } from './sketch.js'
import { windowOf } from './state.js'

const SAMPLE = 8
const MAX_SLOTS_READ = 64
const MAX_PAGES_READ = 64
const ANY_CLASS = -1

/**
 * Handling of an exhausted budget. Empty buckets are removed first; then the smallest of eight buckets of the segment that needs room is
 * moved to the sketch. If that frees no object of the wanted size, a whole page of smaller buckets is moved. Every step is bounded, and
 * none loses a live admission. Runs inside the structure.
 */
export class Pressure {
  private segment = 0
  /** State of the bucket being decided, which must not move. */
  private pinned = 0
  private now = 0

  constructor(
    private readonly memory: Memory,
    private readonly directory: Directory,
    private readonly buckets: Buckets,
    private readonly sketch: Sketch,
    private readonly geometries: Geometries
  ) {
    memory.relief = (sizeClass) => this.relieve(sizeClass)
  }

  /** Sets the context of later calls: the segment that needs room, the state that must not move (or 0), the time. */
  focus(segment: number, pinned: number, now: number): void {
    this.segment = segment
    this.pinned = pinned
    this.now = now
  }

  /** Removes one bucket of the segment in focus, of any size; returns false if none can be removed. */
  evictOne(): boolean {
    const before = this.words[this.directory.record(this.segment) + SEGMENT.count]!
    const victim = this.sample(ANY_CLASS)
    if (this.words[this.directory.record(this.segment) + SEGMENT.count]! < before) return true
    if (victim === 0) return false
    this.fold(victim)
    return true
  }

  /** Moves a bucket's live admissions to the sketch and removes the bucket. */
  fold(state: number): void {
    const { words, directory, memory } = this
    const address = directory.findState(state, words[state + 1]!)
    if (address === 0) return
    const { segment, index } = directory
    const geometry = this.geometries.of(windowOf(words, state))
    const live = this.buckets.expire(state, geometry, this.now)
    if (live > 0) {
      const moment = Math.floor(this.now)
      this.sketch.begin(words[address]!, words[address + 1]!, geometry.code, moment)
      this.buckets.pour(state, geometry, moment, this.sketch)
      this.mark(segment, this.sketch.end())
      memory.count(COUNTER.folded, 1)
      memory.count(COUNTER.foldedAdmissions, live)
    }
    directory.remove(segment, index)
    this.buckets.discard(HEADER.leaving)
  }

  /** Counts admissions of a key without a bucket. */
  spill(low: number, high: number, code: number, stamp: number, cost: number): void {
    this.sketch.begin(low, high, code, Math.floor(this.now))
    this.sketch.add(stamp, cost)
    this.mark(this.directory.segmentOf(low), this.sketch.end())
    this.memory.count(COUNTER.sketchDecisions, 1)
  }

  private get words(): Uint32Array {
    return this.memory.words
  }

  /** Records the time until which keys of this segment may have an estimate above zero. */
  private mark(segment: number, until: number): void {
    const word = this.directory.record(segment) + SEGMENT.foldedUntil
    this.words[word] = Math.max(this.words[word]!, Math.ceil(until / 1_000))
  }

  private relieve(sizeClass: number): boolean {
    const victim = this.sample(sizeClass)
    if (this.memory.hasRoom(sizeClass)) return true
    if (victim !== 0) this.fold(victim)
    else this.emptyPage(sizeClass)
    return this.memory.hasRoom(sizeClass)
  }

  /** Checks eight buckets, drops empty ones, and returns the smallest other one of `sizeClass`, or 0. */
  private sample(sizeClass: number): number {
    const { words, directory, memory } = this
    const record = directory.record(this.segment)
    const size = words[record + SEGMENT.size]!
    let index = words[record + SEGMENT.cursor]!
    let victim = 0
    let least = Number.POSITIVE_INFINITY
    let seen = 0
    for (let read = 0; read < Math.min(MAX_SLOTS_READ, size) && seen < SAMPLE; read += 1) {
      if (index >= size) index = 0
      const state = words[directory.slot(this.segment, index) + 2]!
      if (state === 0 || state === this.pinned) {
        index += 1
        continue
      }
      seen += 1
      const live = this.buckets.expire(state, this.geometries.of(windowOf(words, state)), this.now)
      if (live === 0) {
        directory.remove(this.segment, index)
        this.buckets.discard(HEADER.leaving)
        memory.count(COUNTER.dropped, 1)
        continue
      }
      if (live < least && (sizeClass === ANY_CLASS || memory.classOfPage(state >>> 10) === sizeClass)) {
        least = live
        victim = state
      }
      index += 1
    }
    words[record + SEGMENT.cursor] = index
    return victim
  }

  /** Folds every bucket of a page of smaller objects, which frees the page for another size. */
  private emptyPage(sizeClass: number): void {
    const page = this.choosePage(sizeClass)
    if (page === 0) return
    const end = this.memory.touchedOnPage(page)
    for (let index = 0; index < end; index += 1) {
      const state = this.memory.objectOnPage(page, index)
      if (this.words[state] !== 0) this.foldIn(this.directory.segmentOf(this.words[state + 1]! & 0xfff), state)
    }
  }

  /** Folds a bucket of any segment unless another thread holds that segment: a thread inside the structure never waits. */
  private foldIn(segment: number, state: number): void {
    const { locks } = this.memory
    const lock = this.directory.record(segment) + SEGMENT.lock
    if (segment === this.segment) this.fold(state)
    else if (locks.tryAcquire(lock)) {
      this.fold(state)
      locks.release(lock)
    }
  }

  /** Returns the page with the smallest objects among the next few candidates, or 0. */
  private choosePage(sizeClass: number): number {
    const { words, memory } = this
    const { firstPage } = memory.layout
    const end = words[HEADER.freshPage]!
    let page = words[HEADER.pageCursor]!
    let chosen = 0
    let least = Math.min(sizeClass, SMALL_CLASSES)
    for (let read = 0; read < MAX_PAGES_READ && least > 0; read += 1) {
      page = page + 1 >= end || page + 1 < firstPage ? firstPage : page + 1
      if (page >= end || page === this.pinned >>> 10 || memory.usedOnPage(page) === 0) continue
      if (memory.classOfPage(page) >= least) continue
      least = memory.classOfPage(page)
      chosen = page
    }
    words[HEADER.pageCursor] = page
    return chosen
  }
}
