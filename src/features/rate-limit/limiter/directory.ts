import { BLOCK_SLOTS, HEADER, REBUILD, SEGMENT } from './layout.js'
import { type Memory, SIZE_CLASS } from './memory.js'

const TWO32 = 2 ** 32
const MAX_LOAD = 0.85
/** Load below which a segment releases blocks. */
const MIN_LOAD = 0.4

/**
 * Maps a 64-bit hash to the address of a bucket's state.
 *
 * Each segment is a hash table with open addressing and linear probing; a slot is three words (hash low, hash high, state), state 0 is
 * free. A removal moves later entries back, so there are no tombstones. A segment grows alone, by a quarter, so that no insertion waits for
 * more than one small segment.
 *
 * A segment is read and changed only by the owner of its lock, and changed only inside the structure as well. The header records the
 * progress of a removal or rebuild, so that another thread can finish it: every single store may be repeated, and nothing is overwritten
 * that exists only once.
 */
export class Directory {
  /** Segment of the last successful `find`. */
  segment = 0
  index = 0
  private readonly words: Uint32Array
  private readonly mask: number

  constructor(private readonly memory: Memory) {
    const { layout } = memory
    this.words = memory.words
    this.mask = layout.segments - 1
  }

  segmentOf(low: number): number {
    return low & this.mask
  }

  /** Returns the address of a segment's record. */
  record(segment: number): number {
    return this.memory.layout.segmentBase + segment * SEGMENT.words
  }

  /** Returns the address of slot `index` in `segment`. */
  slot(segment: number, index: number): number {
    const block = (index / BLOCK_SLOTS) | 0
    return this.block(segment, block) + (index - block * BLOCK_SLOTS) * 3
  }

  /** Returns the address of the slot with this hash, or 0. */
  find(low: number, high: number): number {
    const { words } = this
    const segment = low & this.mask
    const size = words[this.record(segment) + SEGMENT.size]!
    if (size === 0) return 0
    let index = Math.floor((high * size) / TWO32)
    let block = (index / BLOCK_SLOTS) | 0
    let address = this.slot(segment, index)
    let last = block * BLOCK_SLOTS + BLOCK_SLOTS
    for (;;) {
      if (words[address + 2] === 0) return 0
      if (words[address] === low && words[address + 1] === high) {
        this.segment = segment
        this.index = index
        return address
      }
      index += 1
      address += 3
      if (index === last) {
        block = index === size ? 0 : block + 1
        index = block * BLOCK_SLOTS
        last = index + BLOCK_SLOTS
        address = this.block(segment, block)
      }
    }
  }

  /** Returns the address of the slot with `state`, whose hash has these low 12 and high 20 bits; 0 if there is none. */
  findState(state: number, backReference: number): number {
    const segment = backReference & 0xfff & this.mask
    const size = this.words[this.record(segment) + SEGMENT.size]!
    // The missing bits move the home slot by less than one, so the search starts at or before it.
    let index = Math.floor((((backReference >>> 12) << 12) >>> 0) * (size / TWO32))
    for (let step = 0; step < size; step += 1) {
      const address = this.slot(segment, index)
      if (this.words[address + 2] === state) {
        this.segment = segment
        this.index = index
        return address
      }
      index = index + 1 === size ? 0 : index + 1
    }
    return 0
  }

  /** Ensures a free slot for `insert` in `segment`; returns false if memory is short and the segment too full. */
  reserve(segment: number): boolean {
    const record = this.record(segment)
    const size = this.words[record + SEGMENT.size]!
    const count = this.words[record + SEGMENT.count]! + 1
    if (count <= size * MAX_LOAD) return true
    const blocks = this.words[record + SEGMENT.blocks]!
    const wanted = blocks + Math.max(1, blocks >>> 2)
    // No bucket is evicted for a shorter search: only a nearly full segment requests relief.
    if (this.resize(segment, wanted, false) || count <= fullAt(size)) return true
    // Relief may have removed entries of this segment, so the count is read again.
    return this.resize(segment, wanted, true) || this.words[record + SEGMENT.count]! + 1 <= fullAt(size)
  }

  /**
   * Makes room for the expected entries of `segment`, if there is memory. Necessary before insertions in order of hashes, which in a small
   * segment would all have the same home.
   */
  expect(segment: number, entries: number): void {
    const wanted = Math.ceil(entries / MAX_LOAD / BLOCK_SLOTS)
    if (wanted > this.words[this.record(segment) + SEGMENT.blocks]!) this.resize(segment, wanted, false)
  }

  /** Inserts an entry with a new hash, and ends the step. Only after `reserve`. */
  insert(low: number, high: number, state: number): void {
    const { words, memory } = this
    const segment = low & this.mask
    const record = this.record(segment)
    const size = words[record + SEGMENT.size]!
    let index = Math.floor((high * size) / TWO32)
    let address = this.slot(segment, index)
    while (words[address + 2] !== 0) {
      index = index + 1 === size ? 0 : index + 1
      address = this.slot(segment, index)
    }
    words[address] = low
    words[address + 1] = high
    memory.journal.set(address + 2, state)
    memory.journal.set(record + SEGMENT.count, words[record + SEGMENT.count]! + 1)
    memory.journal.set(HEADER.buckets, words[HEADER.buckets]! + 1)
    memory.journal.commit()
  }

  /**
   * Removes the entry in slot `index`; a later entry may move there. The header's `leaving` then names its state, which the caller
   * discards.
   */
  remove(segment: number, index: number): void {
    const { words, memory } = this
    const record = this.record(segment)
    memory.journal.set(HEADER.leaving, words[this.slot(segment, index) + 2]!)
    memory.journal.set(HEADER.removing, segment + 1)
    memory.journal.set(HEADER.hole, index)
    memory.journal.set(record + SEGMENT.count, words[record + SEGMENT.count]! - 1)
    memory.journal.set(HEADER.buckets, words[HEADER.buckets]! - 1)
    memory.journal.commit()
    this.finishRemoval()
  }

  /** Continues a removal: vacates the slot in the header's `hole`. */
  finishRemoval(): void {
    const { words } = this
    const segment = words[HEADER.removing]! - 1
    if (segment < 0) return
    const size = words[this.record(segment) + SEGMENT.size]!
    let hole = words[HEADER.hole]!
    let next = hole
    for (;;) {
      next = next + 1 === size ? 0 : next + 1
      const from = this.slot(segment, next)
      if (words[from + 2] === 0) break
      const home = Math.floor((words[from + 1]! * size) / TWO32)
      // An entry may move back unless its home is after the hole.
      const behind = hole <= next ? home > hole && home <= next : home > hole || home <= next
      if (behind) continue
      const to = this.slot(segment, hole)
      words[to] = words[from]!
      words[to + 1] = words[from + 1]!
      words[to + 2] = words[from + 2]!
      hole = next
      words[HEADER.hole] = hole
    }
    const last = this.slot(segment, hole)
    words[last + 2] = 0
    words[last] = 0
    words[last + 1] = 0
    words[HEADER.removing] = 0
  }

  /** Releases blocks that a segment with few entries no longer needs. */
  shrink(segment: number): void {
    const record = this.record(segment)
    const blocks = this.words[record + SEGMENT.blocks]!
    const count = this.words[record + SEGMENT.count]!
    if (blocks <= 1 || count > blocks * BLOCK_SLOTS * MIN_LOAD) return
    this.resize(segment, Math.max(1, Math.ceil((count * 1.4) / BLOCK_SLOTS)), false)
  }

  private block(segment: number, block: number): number {
    const { layout } = this.memory
    return this.words[layout.listBase + block * layout.segments + segment]!
  }

  /** Changes a segment to `wanted` blocks; returns false, without changes, if there is no memory. */
  private resize(segment: number, wanted: number, relief: boolean): boolean {
    const { words, memory } = this
    const { layout, journal } = memory
    if (wanted > layout.maxBlocks || !memory.enter()) return false
    words[HEADER.rebuilt] = segment
    words[HEADER.pending] = 0
    words[HEADER.rebuild] = REBUILD.making
    for (let block = 0; block < wanted; block += 1) {
      const address = relief ? memory.allocate(SIZE_CLASS.slots) : memory.take(SIZE_CLASS.slots)
      if (address === 0) {
        this.finishRebuild()
        return false
      }
      journal.set(layout.rebuildBase + block, address)
      journal.set(HEADER.pending, block + 1)
      journal.commit()
      words.fill(0, address, address + BLOCK_SLOTS * 3)
    }
    this.fill(segment, wanted)
    const before = words[this.record(segment) + SEGMENT.blocks]!
    const former = layout.rebuildBase + layout.maxBlocks
    for (let block = 0; block < before; block += 1) words[former + block] = this.block(segment, block)
    journal.set(HEADER.wanted, wanted)
    journal.set(HEADER.pending, before)
    journal.set(HEADER.rebuild, REBUILD.taking)
    journal.commit()
    this.finishRebuild()
    return true
  }

  /** Finishes the rebuild of a segment, or undoes it if its blocks were still being made. */
  finishRebuild(): void {
    const { words, memory } = this
    const { layout, journal } = memory
    const made = layout.rebuildBase
    if (words[HEADER.rebuild] === REBUILD.taking) {
      const segment = words[HEADER.rebuilt]!
      const wanted = words[HEADER.wanted]!
      for (let block = 0; block < wanted; block += 1) {
        words[layout.listBase + block * layout.segments + segment] = words[made + block]!
      }
      words[this.record(segment) + SEGMENT.blocks] = wanted
      words[this.record(segment) + SEGMENT.size] = wanted * BLOCK_SLOTS
      words[HEADER.rebuild] = REBUILD.giving
    }
    if (words[HEADER.rebuild] === REBUILD.none) return
    const list = words[HEADER.rebuild] === REBUILD.giving ? made + layout.maxBlocks : made
    for (let left = words[HEADER.pending]!; left > 0; left -= 1) {
      memory.release(words[list + left - 1]!)
      journal.set(HEADER.pending, left - 1)
      journal.commit()
    }
    words[HEADER.rebuild] = REBUILD.none
  }

  /** Writes the entries of a segment into its `wanted` new blocks. */
  private fill(segment: number, wanted: number): void {
    const { words } = this
    const size = wanted * BLOCK_SLOTS
    const made = this.memory.layout.rebuildBase
    const slotOf = (index: number) => {
      const block = (index / BLOCK_SLOTS) | 0
      return words[made + block]! + (index - block * BLOCK_SLOTS) * 3
    }
    const former = words[this.record(segment) + SEGMENT.size]!
    for (let from = 0; from < former; from += 1) {
      const entry = this.slot(segment, from)
      if (words[entry + 2] === 0) continue
      let index = Math.floor((words[entry + 1]! * size) / TWO32)
      let address = slotOf(index)
      while (words[address + 2] !== 0) {
        index = index + 1 === size ? 0 : index + 1
        address = slotOf(index)
      }
      words[address] = words[entry]!
      words[address + 1] = words[entry + 1]!
      words[address + 2] = words[entry + 2]!
    }
  }
}

/** Returns the maximum number of entries in a segment of `size` slots that cannot grow: some slots stay free, or a search would not end. */
function fullAt(size: number): number {
  return size - Math.ceil(size / 16)
}
