import { Counts } from './counts.js'
import { type Geometry, HEADER } from './layout.js'
import type { Memory } from './memory.js'
import {
  freeState,
  HEAD_WORDS,
  KINDS,
  kindOf,
  LAST_RING,
  lastOf,
  newState,
  RING_LIMIT,
  type Sink,
  setLast,
  windowOf
} from './state.js'

const KEEP = 0x3ffff

/**
 * Exact level: one 32-bit stamp in milliseconds for each live admission, oldest first, in a ring of 2 to 64.
 *
 * Stamps are compared modulo 2³². No stamp in a ring is older than two windows, because a bucket unused for one is cleared by the time of
 * its last admission, so the comparison is never ambiguous.
 */
class Ring {
  private readonly words: Uint32Array

  constructor(private readonly memory: Memory) {
    this.words = memory.words
  }

  clear(state: number): void {
    this.words[state]! &= KEEP
  }

  expire(state: number, geometry: Geometry, moment: number): number {
    const { words } = this
    const head = words[state]!
    const count = head >>> 24
    const mask = (2 << (head & 15)) - 1
    const now = moment | 0
    let first = (head >>> 18) & 63
    let left = count
    while (left > 0 && ((now - words[state + HEAD_WORDS + first]!) | 0) >= geometry.rate) {
      first = (first + 1) & mask
      left -= 1
    }
    if (left !== count) words[state] = (head & KEEP) | (first << 18) | (left << 24)
    return left
  }

  /** Returns a ring for `total` stamps: this one, a larger copy, or 0 without memory. */
  fit(state: number, total: number): number {
    const kind = kindOf(this.words, state)
    return total <= 2 << kind ? state : this.copy(state, kindFor(total))
  }

  shrink(state: number, live: number): number {
    const { words } = this
    const kind = kindOf(words, state)
    if (kind === 0 || live * 4 > 2 << kind) return state
    const smaller = kindFor(live + 1)
    // Shrinking must not evict another bucket.
    return this.memory.enter() && this.memory.hasRoom(smaller) ? this.copy(state, smaller) : state
  }

  add(state: number, stamp: number, cost: number): void {
    const { words } = this
    const head = words[state]!
    const mask = (2 << (head & 15)) - 1
    const first = (head >>> 18) & 63
    let count = head >>> 24
    for (let added = 0; added < cost; added += 1) {
      words[state + HEAD_WORDS + ((first + count) & mask)] = stamp
      count += 1
    }
    words[state] = (head & 0xffffff) | (count << 24)
  }

  wait(state: number, geometry: Geometry, moment: number, need: number): number {
    return this.age(state, moment, need - 1) + geometry.rate
  }

  pour(state: number, moment: number, sink: Sink): void {
    const count = this.words[state]! >>> 24
    for (let place = 0; place < count; place += 1) sink.add(moment + this.age(state, moment, place), 1)
  }

  /** Returns the time of the stamp at `place` (0 is the oldest) relative to `moment`; mostly negative. */
  private age(state: number, moment: number, place: number): number {
    const head = this.words[state]!
    const index = (((head >>> 18) & 63) + place) & ((2 << (head & 15)) - 1)
    return (this.words[state + HEAD_WORDS + index]! - (moment | 0)) | 0
  }

  private copy(state: number, kind: number): number {
    const { words, memory } = this
    const target = memory.enter() ? newState(memory, kind, windowOf(words, state), words[state + 1]!) : 0
    if (target === 0) return 0
    memory.journal.set(HEADER.building, target)
    memory.journal.commit()
    const head = words[state]!
    const count = head >>> 24
    const mask = (2 << (head & 15)) - 1
    const first = (head >>> 18) & 63
    for (let place = 0; place < count; place += 1) {
      words[target + HEAD_WORDS + place] = words[state + HEAD_WORDS + ((first + place) & mask)]!
    }
    setLast(memory, target, lastOf(memory, state))
    words[target]! |= count << 24
    return target
  }
}

/** Returns the smallest ring for `total` (at most 64) stamps. */
function kindFor(total: number): number {
  let kind = 0
  while (2 << kind < total) kind += 1
  return kind
}

/**
 * State of one bucket at any level: a ring of exact stamps while at most 64 admissions are alive, then counters for each grain of time
 * until the bucket is empty again.
 *
 * `live` is never below the number of admissions in the trailing window: a stamp is the clock rounded up and leaves when the clock rounded
 * down is a whole window later; a counter leaves when its end does. The time of the last admission is exact, so a bucket unused for a whole
 * window is known to be empty.
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

  /**
   * Returns a new, empty state, or 0 without memory. `low` and `high`: its hash in the directory. It starts a step that the insertion into
   * the directory ends.
   */
  create(low: number, high: number, geometry: Geometry): number {
    return newState(this.memory, 0, geometry.code, ((high & 0xfffff000) | (low & 0xfff)) >>> 0)
  }

  /** Replaces `state` in the slot by `fresh` from `fit` or `shrink`. Cannot fail. */
  adopt(slot: number, state: number, fresh: number): void {
    const { journal } = this.memory
    journal.set(slot, fresh)
    journal.set(HEADER.building, 0)
    journal.set(HEADER.leaving, state)
    journal.commit()
    this.discard(HEADER.leaving)
  }

  /** Releases the memory of a state without a slot, which the header's word `holder` names, if any. */
  discard(holder: typeof HEADER.building | typeof HEADER.leaving): void {
    const { memory, words } = this
    const state = words[holder]!
    if (state === 0) return
    this.counts.releaseBlocks(state)
    freeState(memory, state)
    memory.journal.set(holder, 0)
    memory.journal.commit()
  }

  /** Counts the content of `state` again, after the thread that was changing it has ended. */
  recount(state: number, geometry: Geometry): void {
    if (kindOf(this.words, state) > LAST_RING) this.counts.recount(state, geometry)
  }

  /** Drops admissions that have left the window at `now` and returns the rest. */
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
   * Returns a state with room for `cost` more at `stamp`: the same one, another one for `adopt`, or 0 without memory or if the structure
   * cannot be entered. `state` is unchanged. Only after `expire`.
   */
  fit(state: number, geometry: Geometry, stamp: number, live: number, cost: number): number {
    if (kindOf(this.words, state) > LAST_RING) return this.counts.fit(state, geometry, stamp, cost)
    if (live + cost <= RING_LIMIT) return this.ring.fit(state, live + cost)
    if (!this.memory.enter()) return 0
    const promoted = this.counts.fromRing(state, geometry, stamp, cost)
    if (promoted !== 0 && this.counts.fit(promoted, geometry, stamp, cost) === promoted) return promoted
    this.discard(HEADER.building)
    return 0
  }

  /** Counts `cost` admissions at `now`. Only after `fit`; cannot fail. */
  add(state: number, geometry: Geometry, now: number, stamp: number, cost: number): void {
    // First the time, then the number: admissions counted and cleared by this time have left the window.
    setLast(this.memory, state, Math.max(now, lastOf(this.memory, state)))
    if (kindOf(this.words, state) <= LAST_RING) this.ring.add(state, stamp, cost)
    else this.counts.add(state, geometry, stamp, cost)
  }

  /** Returns the milliseconds from `moment` until `need` admissions have left, if none is added. Only after `expire`. */
  wait(state: number, geometry: Geometry, moment: number, need: number): number {
    return kindOf(this.words, state) <= LAST_RING
      ? this.ring.wait(state, geometry, moment, need)
      : this.counts.wait(state, geometry, moment, need)
  }

  /** Passes all live admissions to `sink`, each with a time not before its own. Only after `expire`. */
  pour(state: number, geometry: Geometry, moment: number, sink: Sink): void {
    if (kindOf(this.words, state) <= LAST_RING) this.ring.pour(state, moment, sink)
    else this.counts.pour(state, geometry, Math.ceil(lastOf(this.memory, state)), sink)
  }

  /**
   * Returns the smallest form of the state with its `live` admissions and room for one more; counters become a ring only when empty.
   * Returns the same address if nothing is gained; another one is for `adopt`. Only after `expire`.
   */
  shrink(state: number, geometry: Geometry, live: number): number {
    if (kindOf(this.words, state) <= LAST_RING) return this.ring.shrink(state, live)
    return live > 0 ? state : this.replaceEmpty(state, geometry)
  }

  private replaceEmpty(state: number, geometry: Geometry): number {
    const { memory } = this
    if (!memory.enter() || !memory.hasRoom(0)) return state
    const fresh = newState(memory, 0, geometry.code, this.words[state + 1]!)
    setLast(memory, fresh, lastOf(memory, state))
    memory.journal.set(HEADER.building, fresh)
    memory.journal.commit()
    return fresh
  }

  /** Returns the number of states of each form. */
  census(): { readonly sparse: number; readonly rings: number; readonly counts: number } {
    const of = (from: number, end: number) =>
      this.words.subarray(HEADER.kinds + from, HEADER.kinds + end).reduce(sum, 0)
    return { sparse: of(0, 3), rings: of(3, LAST_RING + 1), counts: of(LAST_RING + 1, KINDS) }
  }
}

const sum = (a: number, b: number) => a + b
