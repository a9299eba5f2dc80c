import { Counts } from './counts.js'
import type { Geometry } from './geometry.js'
import { HEADER } from './layout.js'
import type { Memory } from './memory.js'
import { Ring } from './ring.js'
import { freeState, KINDS, kindOf, LAST_RING, lastOf, newState, RING_LIMIT, type Sink, setLast } from './state.js'

/**
 * The state of one bucket at any level: a ring of exact stamps while at most 64 admissions are alive, then counters
 * for each grain of time until the bucket is empty again.
 *
 * `live` numbers never fall below the number of admissions in the trailing window: a stamp is the clock rounded up
 * and leaves when the clock rounded down is a whole window later; a counter leaves when its end does. The time of the
 * last admission is kept exactly, so a bucket that rested for a whole window is known to be empty.
 */
export class Buckets {
  private readonly ring: Ring
  private readonly counts: Counts
  private readonly words: Uint32Array

  constructor(private readonly memory: Memory) {
    this.words = memory.words
    this.ring = new Ring(memory)
    this.counts = new Counts(memory)
  }

  /** A new, empty state, or 0 without memory. `low` and `high` are the hash under which the directory will hold it. */
  create(low: number, high: number, geometry: Geometry): number {
    return newState(this.memory, 0, geometry.tens, ((high & 0xfffff000) | (low & 0xfff)) >>> 0)
  }

  /** Gives the memory of `state` back. */
  release(state: number): void {
    if (kindOf(this.words, state) > LAST_RING) this.counts.discard(state)
    else freeState(this.memory, state)
  }

  /** Drops what has left the window at `now` and returns what is left. */
  expire(state: number, geometry: Geometry, now: number): number {
    const kind = kindOf(this.words, state)
    if (now >= lastOf(this.memory, state) + geometry.rate) {
      if (kind <= LAST_RING) this.ring.clear(state)
      else this.counts.clear(state, geometry)
      return 0
    }
    const moment = Math.floor(now)
    return kind <= LAST_RING ? this.ring.expire(state, geometry, moment) : this.counts.expire(state, geometry, moment)
  }

  /**
   * A state that can take `cost` more at `stamp`: the same one, another one that replaces it, or 0 without memory, and
   * then `state` is as it was. Only after `expire`.
   */
  fit(state: number, geometry: Geometry, stamp: number, live: number, cost: number): number {
    if (kindOf(this.words, state) > LAST_RING) return this.counts.fit(state, geometry, stamp, cost)
    if (live + cost <= RING_LIMIT) return this.ring.fit(state, live + cost)
    const promoted = this.counts.fromRing(state, geometry, stamp)
    if (promoted === 0) return 0
    const fitted = this.counts.fit(promoted, geometry, stamp, cost)
    this.release(fitted === 0 ? promoted : state)
    return fitted
  }

  /** Counts `cost` admissions at `now`. Only after `fit`; cannot fail. */
  add(state: number, geometry: Geometry, now: number, stamp: number, cost: number): void {
    if (kindOf(this.words, state) <= LAST_RING) this.ring.add(state, stamp, cost)
    else this.counts.add(state, geometry, stamp, cost)
    setLast(this.memory, state, Math.max(now, lastOf(this.memory, state)))
  }

  /** Milliseconds from `moment` until `need` admissions have left, when nothing is added. Only after `expire`. */
  wait(state: number, geometry: Geometry, moment: number, need: number): number {
    return kindOf(this.words, state) <= LAST_RING
      ? this.ring.wait(state, geometry, moment, need)
      : this.counts.wait(state, geometry, moment, need)
  }

  /** Gives all live admissions to `sink`, each with a time that is not before its own. Only after `expire`. */
  pour(state: number, geometry: Geometry, moment: number, sink: Sink): void {
    if (kindOf(this.words, state) <= LAST_RING) this.ring.pour(state, moment, sink)
    else this.counts.pour(state, geometry, Math.ceil(lastOf(this.memory, state)), sink)
  }

  /**
   * The state in the smallest form that still holds its `live` admissions with room for one more; counters become a
   * ring again when empty. The same address when there is nothing to gain. Only after `expire`.
   */
  shrink(state: number, geometry: Geometry, live: number): number {
    if (kindOf(this.words, state) <= LAST_RING) return this.ring.shrink(state, live)
    return live > 0 ? state : this.replaceEmpty(state, geometry)
  }

  private replaceEmpty(state: number, geometry: Geometry): number {
    if (!this.memory.hasRoom(0)) return state
    const fresh = newState(this.memory, 0, geometry.tens, this.words[state + 1]!)
    setLast(this.memory, fresh, lastOf(this.memory, state))
    this.release(state)
    return fresh
  }

  /** How many states there are of each form. */
  census(): { readonly sparse: number; readonly rings: number; readonly counts: number } {
    const of = (from: number, end: number) =>
      this.words.subarray(HEADER.kinds + from, HEADER.kinds + end).reduce(sum, 0)
    return { sparse: of(0, 3), rings: of(3, LAST_RING + 1), counts: of(LAST_RING + 1, KINDS) }
  }
}

const sum = (a: number, b: number) => a + b
