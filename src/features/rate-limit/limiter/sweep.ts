import type { Clock } from '../../../lib/clock.js'
import type { Buckets } from './buckets.js'
import type { Directory } from './directory.js'
import { COUNTER, type Geometries, HEADER, SEGMENT } from './layout.js'
import type { Memory } from './memory.js'
import { windowOf } from './state.js'

/**
 * Visits the table a few segments at a time: drops empty buckets and shrinks the others. Threads may sweep concurrently; positions are only
 * a hint.
 */
export class Sweep {
  constructor(
    private readonly memory: Memory,
    private readonly directory: Directory,
    private readonly buckets: Buckets,
    private readonly geometries: Geometries,
    private readonly clock: Clock
  ) {}

  /** Continues for `maxMilliseconds` or one whole round; returns the number of buckets dropped. */
  run(maxMilliseconds: number): number {
    const { words, layout } = this.memory
    const start = this.clock.monotonic()
    let now = start
    let dropped = 0
    for (let visited = 0; visited < layout.segments && now - start <= maxMilliseconds; visited += 1) {
      const segment = words[HEADER.sweepSegment]! & (layout.segments - 1)
      words[HEADER.sweepSegment] = segment + 1
      dropped += this.visit(segment, now)
      now = this.clock.monotonic()
    }
    this.memory.count(COUNTER.dropped, dropped)
    return dropped
  }

  private visit(segment: number, now: number): number {
    const { locks } = this.memory
    const lock = this.directory.record(segment) + SEGMENT.lock
    if (!locks.acquire(lock)) return 0
    const dropped = this.clear(segment, now)
    this.memory.leave()
    locks.release(lock)
    return dropped
  }

  private clear(segment: number, now: number): number {
    const { directory, buckets, memory } = this
    const { words } = memory
    const size = words[directory.record(segment) + SEGMENT.size]!
    let dropped = 0
    for (let index = 0; index < size; ) {
      // So that other threads wait for one bucket at most.
      memory.leave()
      const address = directory.slot(segment, index)
      const state = words[address + 2]!
      if (state === 0) {
        index += 1
        continue
      }
      const geometry = this.geometries.of(windowOf(words, state))
      const live = buckets.expire(state, geometry, now)
      if (live > 0) {
        const smaller = buckets.shrink(state, geometry, live)
        if (smaller !== state) buckets.adopt(address + 2, state, smaller)
        index += 1
      } else if (memory.enter()) {
        // Another entry may move into this slot, so the same index is visited again.
        directory.remove(segment, index)
        buckets.discard(HEADER.leaving)
        dropped += 1
      } else {
        return dropped
      }
    }
    directory.shrink(segment)
    return dropped
  }
}
