import { HEADER, type Layout, PAGE_BYTES, PAGE_RECORD, PAGE_WORDS } from './layout.js'

/** Sizes in bytes, all multiples of eight. Classes 0 to 4 are small rings; see `buckets.ts` and `directory.ts` for the others. */
const SIZES = [24, 32, 48, 80, 144, 272, 512, 64, 120, 1_024] as const
const SIZE_WORDS = SIZES.map((size) => size / 4)
const PER_PAGE = SIZES.map((size) => Math.floor(PAGE_BYTES / size))

export const SIZE_CLASSES = SIZES.length
/** Size classes below this one hold rings only: their pages can be emptied object by object. */
export const SMALL_CLASSES = 5
export const SIZE_CLASS = { full: 5, wide: 6, narrowBlock: 7, wideBlock: 8, slots: 9 } as const

/** Makes room for an object of `sizeClass`, or returns false. It must not call `allocate`. */
export type Relief = (sizeClass: number) => boolean

/**
 * Hands out objects of a few sizes from one buffer. Each page holds objects of one size; a page without objects goes
 * back to the common pool, so nothing stays with a size that is no longer asked for.
 *
 * An object is known by its address, an index into `words`, which is a multiple of two. Word 0 of a free object is 0.
 */
export class Memory {
  readonly words: Uint32Array
  readonly halves: Uint16Array
  readonly doubles: Float64Array
  readonly layout: Layout
  /** Asked when no page is left. */
  relief: Relief = () => false

  constructor(layout: Layout) {
    const buffer = new SharedArrayBuffer(layout.bytes)
    this.layout = layout
    this.words = new Uint32Array(buffer)
    this.halves = new Uint16Array(buffer)
    this.doubles = new Float64Array(buffer)
    this.words[HEADER.freshPage] = layout.firstPage
  }

  /** Address of an object of `sizeClass` with unknown content, or 0 when there is no room and none could be made. */
  allocate(sizeClass: number): number {
    const address = this.take(sizeClass)
    if (address !== 0 || !this.relief(sizeClass)) return address
    return this.take(sizeClass)
  }

  /** Like `allocate`, but never asks for relief. */
  take(sizeClass: number): number {
    const { words } = this
    const page = words[HEADER.partial + sizeClass]! || this.openPage(sizeClass)
    if (page === 0) return 0
    const record = this.record(page)
    let packed = words[record + PAGE_RECORD.packed]!
    let address = words[record + PAGE_RECORD.free]!
    if (address !== 0) {
      words[record + PAGE_RECORD.free] = words[address + 1]!
    } else {
      address = page * PAGE_WORDS + (packed >>> 16) * SIZE_WORDS[sizeClass]!
      packed += 0x10000
    }
    packed += 0x10
    words[record + PAGE_RECORD.packed] = packed
    if (((packed >>> 4) & 0xfff) === PER_PAGE[sizeClass]) this.unlink(page, sizeClass)
    return address
  }

  /** Gives the object at `address` back. */
  release(address: number): void {
    const { words } = this
    const page = address >>> 10
    const record = this.record(page)
    const packed = words[record + PAGE_RECORD.packed]!
    const sizeClass = packed & 15
    const used = (packed >>> 4) & 0xfff
    words[address] = 0
    words[address + 1] = words[record + PAGE_RECORD.free]!
    words[record + PAGE_RECORD.free] = address
    words[record + PAGE_RECORD.packed] = packed - 0x10
    if (used === PER_PAGE[sizeClass]) this.link(page, sizeClass)
    if (used === 1) this.closePage(page, sizeClass)
  }

  /** True when `take` would give an object. */
  hasRoom(sizeClass: number): boolean {
    const { words } = this
    return (
      words[HEADER.partial + sizeClass] !== 0 ||
      words[HEADER.freePage] !== 0 ||
      words[HEADER.freshPage]! < this.layout.endPage
    )
  }

  /** Size class of a page that has been in use, whether or not it holds objects now. */
  classOfPage(page: number): number {
    return this.words[this.record(page) + PAGE_RECORD.packed]! & 15
  }

  /** Objects in use on `page`. */
  usedOnPage(page: number): number {
    return (this.words[this.record(page) + PAGE_RECORD.packed]! >>> 4) & 0xfff
  }

  /** Objects that were ever handed out of `page`: those after them have no content. */
  touchedOnPage(page: number): number {
    return this.words[this.record(page) + PAGE_RECORD.packed]! >>> 16
  }

  /** Address of object number `index` on `page`. */
  objectOnPage(page: number, index: number): number {
    return page * PAGE_WORDS + index * SIZE_WORDS[this.classOfPage(page)]!
  }

  private record(page: number): number {
    return this.layout.recordBase + page * PAGE_RECORD.words
  }

  private openPage(sizeClass: number): number {
    const { words } = this
    let page = words[HEADER.freePage]!
    if (page !== 0) {
      words[HEADER.freePage] = words[this.record(page) + PAGE_RECORD.next]!
    } else {
      page = words[HEADER.freshPage]!
      if (page >= this.layout.endPage) return 0
      words[HEADER.freshPage] = page + 1
    }
    const record = this.record(page)
    words[record + PAGE_RECORD.packed] = sizeClass
    words[record + PAGE_RECORD.free] = 0
    words[HEADER.pagesInUse]! += 1
    this.link(page, sizeClass)
    return page
  }

  private closePage(page: number, sizeClass: number): void {
    const { words } = this
    this.unlink(page, sizeClass)
    words[this.record(page) + PAGE_RECORD.next] = words[HEADER.freePage]!
    words[HEADER.freePage] = page
    words[HEADER.pagesInUse]! -= 1
  }

  private link(page: number, sizeClass: number): void {
    const { words } = this
    const head = words[HEADER.partial + sizeClass]!
    words[this.record(page) + PAGE_RECORD.next] = head
    words[this.record(page) + PAGE_RECORD.previous] = 0
    if (head !== 0) words[this.record(head) + PAGE_RECORD.previous] = page
    words[HEADER.partial + sizeClass] = page
  }

  private unlink(page: number, sizeClass: number): void {
    const { words } = this
    const next = words[this.record(page) + PAGE_RECORD.next]!
    const previous = words[this.record(page) + PAGE_RECORD.previous]!
    if (next !== 0) words[this.record(next) + PAGE_RECORD.previous] = previous
    if (previous !== 0) words[this.record(previous) + PAGE_RECORD.next] = next
    else words[HEADER.partial + sizeClass] = next
  }
}
