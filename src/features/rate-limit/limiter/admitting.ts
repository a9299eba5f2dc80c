import type { Buckets } from './buckets.js'
import type { Directory } from './directory.js'
import type { Geometry } from './layout.js'
import type { Memory } from './memory.js'
import type { Pressure } from './pressure.js'
import { lastOf } from './state.js'

/** Counts admissions in their bucket, or on overflow in the sketch. Only for the owner of the bucket's segment. */
export class Admitting {
  constructor(
    private readonly memory: Memory,
    private readonly directory: Directory,
    private readonly buckets: Buckets,
    private readonly pressure: Pressure
  ) {}

  /**
   * Counts an admission of `cost` at `time`: the present or, when a table is refilled, the past. Returns false, without counting, if the
   * structure cannot be entered. `found`: the bucket's state after `expire` (0: none); `live`: its admissions.
   */
  admit(
    low: number,
    high: number,
    geometry: Geometry,
    found: number,
    live: number,
    cost: number,
    now: number,
    time = now
  ): boolean {
    const { memory, directory, buckets, pressure } = this
    const segment = directory.segmentOf(low)
    if (found === 0 && !memory.enter()) return false
    const state = found === 0 ? this.newBucket(segment, low, high, geometry, now) : found
    const stamp = Math.ceil(found === 0 ? time : Math.max(time, lastOf(memory, found)))
    if (state === 0) {
      pressure.spill(low, high, geometry.code, stamp, cost)
      return true
    }
    pressure.focus(segment, state, now)
    const fitted = buckets.fit(state, geometry, stamp, live, cost)
    if (fitted === 0) {
      if (!memory.enter()) return false
      // On overflow, counts in the sketch; the bucket is unchanged.
      pressure.spill(low, high, geometry.code, stamp, cost)
      return true
    }
    // Found again, because making room may have moved the slot.
    if (fitted !== state) buckets.adopt(directory.find(low, high) + 2, state, fitted)
    buckets.add(fitted, geometry, time, stamp, cost)
    return true
  }

  /** Adds an empty bucket to the directory; returns 0 without memory. Only inside the structure. */
  private newBucket(segment: number, low: number, high: number, geometry: Geometry, now: number): number {
    this.pressure.focus(segment, 0, now)
    if (!this.directory.reserve(segment) && !this.pressure.evictOne()) return 0
    const state = this.buckets.create(low, high, geometry)
    if (state !== 0) this.directory.insert(low, high, state)
    return state
  }
}
