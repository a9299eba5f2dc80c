import { BLOCK_CELLS, type Geometry, HEADER } from './layout.js'
import { type Memory, SIZE_CLASS } from './memory.js'
import {
  BLOCKS,
  HEAD_WORDS,
  kindOf,
  lastOf,
  NARROW,
  newState,
  RING_LIMIT,
  type Sink,
  setLast,
  WIDE,
  windowOf
} from './state.js'

const TOTAL = HEAD_WORDS
/** Index of the oldest grain that may contain admissions; earlier ones are zero or dropped. */
const BASE = HEAD_WORDS + 1
/** Index of the counters. */
const BODY = HEAD_WORDS + 2
/** Flag for a block of 32-bit counters; addresses are below 2³⁰. */
const WIDE_BLOCK = 0x8000_0000
/** Mask of the address. */
const ADDRESS = 0x7fff_ffff
/** Maximum of a 16-bit counter. */
const MAX_NARROW = 0xffff
/** Number of 32-bit numbers. */
const TWO32 = 2 ** 32
/** Words for the addresses of blocks. */
const WORDS_OF_BLOCK = 49

/**
 * Dense level: the number of admissions in each grain of time, kept until the grain's end has left the window. 16-bit counters become
 * 32-bit ones when one is full. A window beyond two hours has its counters in blocks of 30, allocated on first use and released when they
 * expire.
 */
export class Counts {
  private readonly words: Uint32Array
  private readonly halves: Uint16Array

  constructor(private readonly memory: Memory) {
    this.words = memory.words
    this.halves = memory.halves
  }

  /**
   * Returns counters with the stamps of the unchanged ring `state`, wide enough for `cost` more; 0 without memory. Until a slot holds them,
   * the header's `building` names them. Only inside the structure.
   */
  fromRing(state: number, geometry: Geometry, stamp: number, cost: number): number {
    const { words, memory } = this
    const kind = geometry.blocks > 0 ? BLOCKS : cost + RING_LIMIT > MAX_NARROW ? WIDE : NARROW
    const target = newState(memory, kind, windowOf(words, state), words[state + 1]!)
    if (target === 0) return 0
    words.fill(0, target + TOTAL, target + BODY + bodyWords(kind, geometry))
    setLast(memory, target, lastOf(memory, state))
    memory.journal.set(HEADER.building, target)
    memory.journal.commit()
    const head = words[state]!
    const mask = (2 << (head & 15)) - 1
    for (let place = 0; place < head >>> 24; place += 1) {
      const index = (((head >>> 18) & 63) + place) & mask
      const time = stamp + ((words[state + HEAD_WORDS + index]! - (stamp | 0)) | 0)
      if (this.fit(target, geometry, time, 1) === 0) return 0
      this.add(target, geometry, time, 1)
    }
    return target
  }

  clear(state: number, geometry: Geometry): void {
    const { words } = this
    if (words[state + TOTAL] === 0) return
    const kind = kindOf(words, state)
    if (kind === BLOCKS) this.releaseBlocks(state)
    else words.fill(0, state + BODY, state + BODY + bodyWords(kind, geometry))
    words[state + TOTAL] = 0
  }

  /** Releases the blocks of `state`, if any. */
  releaseBlocks(state: number): void {
    const { words } = this
    if (kindOf(words, state) !== BLOCKS) return
    for (let place = 0; place < WORDS_OF_BLOCK; place += 1) this.dropBlock(state + BODY + place)
  }

  expire(state: number, geometry: Geometry, moment: number): number {
    const { words } = this
    const first = firstGrain(geometry, moment)
    let base = this.base(state, first)
    if (first <= base) return words[state + TOTAL]!
    let total = words[state + TOTAL]!
    // After it every counter has been seen; a remaining total is from a thread that ended while it counted.
    const end = first + 2 * Math.max(geometry.cells, geometry.blocks * BLOCK_CELLS)
    while (total > 0) {
      if (base >= end) {
        total = 0
        break
      }
      const count = this.read(state, geometry, base)
      // Also skips empty grains of the window, so that `wait` finds the oldest admission at once.
      if (count > 0) {
        if (base >= first) break
        this.write(state, geometry, base, 0)
        total -= count
      }
      base += 1
      if (geometry.blocks > 0 && base % BLOCK_CELLS === 0) this.dropBlock(this.blockWord(state, geometry, base - 1))
    }
    words[state + TOTAL] = total
    words[state + BASE] = Math.max(first, base)
    return total
  }

  /** Returns a state whose counter for `stamp` can take `cost` more: this one, a wider copy, or 0 without memory. */
  fit(state: number, geometry: Geometry, stamp: number, cost: number): number {
    const kind = kindOf(this.words, state)
    if (kind === WIDE) return state
    const grain = grainOf(stamp, geometry)
    const narrow = this.read(state, geometry, grain) + cost <= MAX_NARROW
    if (kind === BLOCKS) return this.fitBlock(this.blockWord(state, geometry, grain), narrow) ? state : 0
    return narrow ? state : this.widen(state, geometry)
  }

  add(state: number, geometry: Geometry, stamp: number, cost: number): void {
    const { words } = this
    const grain = grainOf(stamp, geometry)
    if (words[state + TOTAL] === 0) words[state + BASE] = grain
    // First the total: it is never less than the sum of the counters.
    words[state + TOTAL]! += cost
    this.write(state, geometry, grain, this.read(state, geometry, grain) + cost)
  }

  /** Sets the total to the sum of the counters. */
  recount(state: number, geometry: Geometry): void {
    let total = 0
    for (let grain = 0; grain < Math.max(geometry.cells, geometry.blocks * BLOCK_CELLS); grain += 1) {
      total += this.read(state, geometry, grain)
    }
    this.words[state + TOTAL] = total
  }

  wait(state: number, geometry: Geometry, moment: number, need: number): number {
    const base = this.base(state, firstGrain(geometry, moment))
    const end = base + geometry.cells
    let left = need
    let grain = base
    for (; grain < end; grain += 1) {
      left -= this.read(state, geometry, grain)
      if (left <= 0) break
    }
    return (grain + 1) * geometry.grain - 1 + geometry.rate - moment
  }

  pour(state: number, geometry: Geometry, latest: number, sink: Sink): void {
    const base = this.base(state, grainOf(latest, geometry))
    let left = this.words[state + TOTAL]!
    for (let grain = base; left > 0 && grain < base + geometry.cells; grain += 1) {
      const count = this.read(state, geometry, grain)
      if (count > 0) sink.add(Math.min((grain + 1) * geometry.grain - 1, latest), count)
      left -= count
    }
  }

  /** Returns the oldest grain of `state` that may contain admissions; it is stored modulo 2³² and less than 2³¹ grains from `near`. */
  private base(state: number, near: number): number {
    return near + ((this.words[state + BASE]! - near) | 0)
  }

  private read(state: number, geometry: Geometry, grain: number): number {
    const kind = kindOf(this.words, state)
    if (kind === NARROW) return this.halves[(state + BODY) * 2 + counterIndex(grain, geometry)]!
    if (kind === WIDE) return this.words[state + BODY + counterIndex(grain, geometry)]!
    const block = this.words[this.blockWord(state, geometry, grain)]!
    if (block === 0) return 0
    const place = grain % BLOCK_CELLS
    return block >= WIDE_BLOCK ? this.words[(block & ADDRESS) + place]! : this.halves[block * 2 + place]!
  }

  private write(state: number, geometry: Geometry, grain: number, count: number): void {
    const kind = kindOf(this.words, state)
    if (kind === NARROW) {
      this.halves[(state + BODY) * 2 + counterIndex(grain, geometry)] = count
    } else if (kind === WIDE) {
      this.words[state + BODY + counterIndex(grain, geometry)] = count
    } else {
      const block = this.words[this.blockWord(state, geometry, grain)]!
      const place = grain % BLOCK_CELLS
      if (block >= WIDE_BLOCK) this.words[(block & ADDRESS) + place] = count
      else this.halves[block * 2 + place] = count
    }
  }

  /** Returns the address of the word with the block of `grain`. */
  private blockWord(state: number, geometry: Geometry, grain: number): number {
    return state + BODY + (((grain / BLOCK_CELLS) >>> 0) % geometry.blocks)
  }

  private fitBlock(word: number, narrow: boolean): boolean {
    const { words, memory } = this
    const before = words[word]!
    if (before >= WIDE_BLOCK || (before !== 0 && narrow)) return true
    if (!memory.enter()) return false
    const block = memory.allocate(narrow ? SIZE_CLASS.narrowBlock : SIZE_CLASS.wideBlock)
    if (block === 0) return false
    // After a rollback the block is free again: then its first two words are restored, and the others have no meaning.
    memory.journal.set(block, 0)
    memory.journal.set(block + 1, 0)
    words.fill(0, block + 2, block + (narrow ? BLOCK_CELLS / 2 : BLOCK_CELLS))
    if (before !== 0) {
      memory.journal.set(block, this.halves[before * 2]!)
      memory.journal.set(block + 1, this.halves[before * 2 + 1]!)
      for (let place = 2; place < BLOCK_CELLS; place += 1) words[block + place] = this.halves[before * 2 + place]!
      memory.release(before)
    }
    memory.journal.set(word, narrow ? block : block + WIDE_BLOCK)
    memory.journal.commit()
    return true
  }

  private dropBlock(word: number): void {
    const { words, memory } = this
    const block = words[word]!
    if (block === 0) return
    if (!memory.enter()) {
      // It is reused in its next turn, so it only has to be empty.
      words.fill(0, block & ADDRESS, (block & ADDRESS) + (block >= WIDE_BLOCK ? BLOCK_CELLS : BLOCK_CELLS / 2))
      return
    }
    memory.release(block & ADDRESS)
    memory.journal.set(word, 0)
    memory.journal.commit()
  }

  private widen(state: number, geometry: Geometry): number {
    const { words, memory } = this
    const target = memory.enter() ? newState(memory, WIDE, windowOf(words, state), words[state + 1]!) : 0
    if (target === 0) return 0
    memory.journal.set(HEADER.building, target)
    memory.journal.commit()
    setLast(memory, target, lastOf(memory, state))
    words[target + TOTAL] = words[state + TOTAL]!
    words[target + BASE] = words[state + BASE]!
    const from = (state + BODY) * 2
    for (let cell = 0; cell < geometry.cells; cell += 1) words[target + BODY + cell] = this.halves[from + cell]!
    return target
  }
}

/** Returns the words for the counters, or for the addresses of their blocks. */
function bodyWords(kind: number, { cells }: Geometry): number {
  if (kind === BLOCKS) return WORDS_OF_BLOCK
  return kind === WIDE ? cells : (cells + 1) >>> 1
}

function grainOf(stamp: number, geometry: Geometry): number {
  return Math.floor(stamp / geometry.grain)
}

/**
 * Returns the index of a grain's counter. Grains of the shortest window exceed 32 bits after 14 months of the clock; before, the remainder is
 * that of 32-bit numbers, because the one of 64-bit floating-point numbers takes ten times as long.
 */
function counterIndex(grain: number, { cells }: Geometry): number {
  return grain < TWO32 ? (grain >>> 0) % cells : grain % cells
}

/** Returns the oldest grain in the window when the clock rounded down is `moment`. */
function firstGrain(geometry: Geometry, moment: number): number {
  return moment + 1 < geometry.rate ? 0 : grainOf(moment + 1 - geometry.rate, geometry)
}
