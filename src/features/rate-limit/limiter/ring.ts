import type { Geometry } from './geometry.js'
import type { Memory } from './memory.js'
import { freeState, HEAD_WORDS, kindOf, lastOf, newState, type Sink, setLast, tensOf } from './state.js'

const KEEP = 0x3ffff

/**
 * The exact level: one 32-bit stamp in milliseconds for each live admission, oldest first, in a ring of 2 to 64.
 *
 * Stamps are compared modulo 2³². No stamp in a ring is older than two windows, because a bucket that rested for one
 * is cleared by the time of its last admission, so the comparison is never ambiguous.
 */
export class Ring {
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

  /** A ring that holds `total` stamps: this one, a larger copy in its place, or 0 without memory. */
  fit(state: number, total: number): number {
    const kind = kindOf(this.words, state)
    return total <= 2 << kind ? state : this.copy(state, kindFor(total))
  }

  shrink(state: number, live: number): number {
    const { words } = this
    const kind = kindOf(words, state)
    if (kind === 0 || live * 4 > 2 << kind) return state
    const smaller = kindFor(live + 1)
    // Shrinking must not push another bucket out.
    return this.memory.hasRoom(smaller) ? this.copy(state, smaller) : state
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

  /** Time of the stamp at `place` (0 is the oldest) relative to `moment`; mostly negative. */
  private age(state: number, moment: number, place: number): number {
    const head = this.words[state]!
    const index = (((head >>> 18) & 63) + place) & ((2 << (head & 15)) - 1)
    return (this.words[state + HEAD_WORDS + index]! - (moment | 0)) | 0
  }

  private copy(state: number, kind: number): number {
    const { words, memory } = this
    const target = newState(memory, kind, tensOf(words, state), words[state + 1]!)
    if (target === 0) return 0
    const head = words[state]!
    const count = head >>> 24
    const mask = (2 << (head & 15)) - 1
    const first = (head >>> 18) & 63
    for (let place = 0; place < count; place += 1) {
      words[target + HEAD_WORDS + place] = words[state + HEAD_WORDS + ((first + place) & mask)]!
    }
    words[target]! |= count << 24
    setLast(memory, target, lastOf(memory, state))
    freeState(memory, state)
    return target
  }
}

/** The smallest ring that holds `total` (at most 64) stamps. */
function kindFor(total: number): number {
  let kind = 0
  while (2 << kind < total) kind += 1
  return kind
}
