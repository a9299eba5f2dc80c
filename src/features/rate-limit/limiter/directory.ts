import { BLOCK_SLOTS, HEADER, SEGMENT } from './layout.js'
import { type Memory, SIZE_CLASS } from './memory.js'

const TWO32 = 2 ** 32
const MAX_LOAD = 0.85
/** Below this load a segment gives blocks back. */
const MIN_LOAD = 0.4

/**
 * From a 64-bit hash to the address of a bucket's state.
 *
 * Each segment is a hash table of its own with open addressing and linear probing; a slot is three words (hash low,
 * hash high, state), state 0 means free. A removal moves later entries back, so there are no tombstones. A segment
 * grows alone, by a quarter, so that no insertion waits for more than one small segment.
 */
export class Directory {
  /** Where the last successful `find` ended. */
  segment = 0
  index = 0
  private readonly words: Uint32Array
  private readonly mask: number
  private readonly scratch: Uint32Array

  constructor(private readonly memory: Memory) {
    const { layout } = memory
    this.words = memory.words
    this.mask = layout.segments - 1
    this.scratch = new Uint32Array(layout.maxBlocks * BLOCK_SLOTS * 3)
  }

  segmentOf(low: number): number {
    return low & this.mask
  }

  /** Address of a segment's record. */
  record(segment: number): number {
    return this.memory.layout.segmentBase + segment * SEGMENT.words
  }

  /** Address of slot `index` of `segment`. */
  slot(segment: number, index: number): number {
    const block = (index / BLOCK_SLOTS) | 0
    return this.block(segment, block) + (index - block * BLOCK_SLOTS) * 3
  }

  /** Address of the slot with this hash, or 0. */
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

  /** Address of the slot that holds `state`, whose hash has these low 12 and high 20 bits; 0 when there is none. */
  findState(state: number, backReference: number): number {
    const segment = backReference & 0xfff & this.mask
    const size = this.words[this.record(segment) + SEGMENT.size]!
    // The bits that are missing move the home slot by less than one, so this starts at or before it.
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

  /** Makes sure that `insert` finds a free slot in `segment`; false when memory is lacking and the segment too full. */
  reserve(segment: number): boolean {
    const record = this.record(segment)
    const size = this.words[record + SEGMENT.size]!
    const count = this.words[record + SEGMENT.count]! + 1
    if (count <= size * MAX_LOAD) return true
    const blocks = this.words[record + SEGMENT.blocks]!
    const wanted = blocks + Math.max(1, blocks >>> 2)
    // No bucket is pushed out for a shorter search: only a segment that is nearly full asks for relief.
    if (this.resize(segment, wanted, false) || count <= fullAt(size)) return true
    // Relief may have removed entries of this segment, so the count is read again.
    return this.resize(segment, wanted, true) || this.words[record + SEGMENT.count]! + 1 <= fullAt(size)
  }

  /** Adds an entry whose hash is not there yet. Only after `reserve`. */
  insert(low: number, high: number, state: number): void {
    const segment = low & this.mask
    this.place(segment, this.words[this.record(segment) + SEGMENT.size]!, low, high, state)
    this.words[this.record(segment) + SEGMENT.count]! += 1
    this.words[HEADER.buckets]! += 1
  }

  /** Removes the entry in slot `index`; a later entry may move into that slot. */
  remove(segment: number, index: number): void {
    const { words } = this
    const record = this.record(segment)
    const size = words[record + SEGMENT.size]!
    let hole = index
    let next = index
    for (;;) {
      next = next + 1 === size ? 0 : next + 1
      const from = this.slot(segment, next)
      if (words[from + 2] === 0) break
      const home = Math.floor((words[from + 1]! * size) / TWO32)
      // An entry may move back unless its home lies behind the hole.
      const behind = hole <= next ? home > hole && home <= next : home > hole || home <= next
      if (behind) continue
      words.copyWithin(this.slot(segment, hole), from, from + 3)
      hole = next
    }
    words.fill(0, this.slot(segment, hole), this.slot(segment, hole) + 3)
    words[record + SEGMENT.count]! -= 1
    words[HEADER.buckets]! -= 1
  }

  /** Gives back blocks that a segment with few entries no longer needs. */
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

  private place(segment: number, size: number, low: number, high: number, state: number): void {
    const { words } = this
    let index = Math.floor((high * size) / TWO32)
    let address = this.slot(segment, index)
    while (words[address + 2] !== 0) {
      index = index + 1 === size ? 0 : index + 1
      address = this.slot(segment, index)
    }
    words[address] = low
    words[address + 1] = high
    words[address + 2] = state
  }

  /** Brings a segment to `wanted` blocks; false, with nothing changed, when there is no memory for them. */
  private resize(segment: number, wanted: number, relief: boolean): boolean {
    const { words, memory } = this
    const { layout } = memory
    const record = this.record(segment)
    const before = words[record + SEGMENT.blocks]!
    if (wanted > layout.maxBlocks) return false
    for (let block = before; block < wanted; block += 1) {
      const address = relief ? memory.allocate(SIZE_CLASS.slots) : memory.take(SIZE_CLASS.slots)
      if (address === 0) {
        this.releaseBlocks(segment, before, block)
        return false
      }
      words[layout.listBase + block * layout.segments + segment] = address
    }
    const kept = this.takeOut(segment)
    this.releaseBlocks(segment, wanted, before)
    words[record + SEGMENT.blocks] = wanted
    words[record + SEGMENT.size] = wanted * BLOCK_SLOTS
    this.putBack(segment, kept)
    return true
  }

  private releaseBlocks(segment: number, from: number, end: number): void {
    for (let block = from; block < end; block += 1) this.memory.release(this.block(segment, block))
  }

  /** Copies the entries of a segment to the scratch memory; returns the words written. */
  private takeOut(segment: number): number {
    const { words, scratch } = this
    const size = words[this.record(segment) + SEGMENT.size]!
    let end = 0
    for (let index = 0; index < size; index += 1) {
      const address = this.slot(segment, index)
      if (words[address + 2] === 0) continue
      scratch[end] = words[address]!
      scratch[end + 1] = words[address + 1]!
      scratch[end + 2] = words[address + 2]!
      end += 3
    }
    return end
  }

  private putBack(segment: number, end: number): void {
    const { words, scratch } = this
    const size = words[this.record(segment) + SEGMENT.size]!
    for (let block = 0; block * BLOCK_SLOTS < size; block += 1) {
      const base = this.block(segment, block)
      words.fill(0, base, base + BLOCK_SLOTS * 3)
    }
    for (let at = 0; at < end; at += 3) this.place(segment, size, scratch[at]!, scratch[at + 1]!, scratch[at + 2]!)
  }
}

/** Entries up to which a segment of `size` slots is used when it cannot grow: some slots stay free, or a search would not end. */
function fullAt(size: number): number {
  return size - Math.ceil(size / 16)
}
