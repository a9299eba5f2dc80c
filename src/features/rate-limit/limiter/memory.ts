import { Locks } from '../../../lib/locks.js'
import { Journal } from './journal.js'
import {
  HEADER,
  LAYOUT_VERSION,
  type Layout,
  PAGE_BYTES,
  PAGE_RECORD,
  PAGE_WORDS,
  THREAD_CELLS,
  THREADS_BASE
} from './layout.js'

/** Sizes in bytes, all multiples of eight. Classes 0 to 4 are small rings; see `buckets.ts` and `directory.ts` for the others. */
const SIZES = [24, 32, 48, 80, 144, 272, 512, 64, 120, 1_024] as const
const SIZE_WORDS = SIZES.map((size) => size / 4)
const PER_PAGE = SIZES.map((size) => Math.floor(PAGE_BYTES / size))

export const SIZE_CLASSES = SIZES.length
/** Size classes below this one hold rings only: their pages can be emptied object by object. */
export const SMALL_CLASSES = 5
export const SIZE_CLASS = { full: 5, wide: 6, narrowBlock: 7, wideBlock: 8, slots: 9 } as const

/** Bytes of the stretches in which a table is written to a file. */
const STRETCH = 65_536

/** Makes room for an object of `sizeClass`, or returns false. It must not call `allocate`. */
export type Relief = (sizeClass: number) => boolean

/** The one buffer as numbers of several widths. */
export interface Views {
  readonly words: Uint32Array
  readonly halves: Uint16Array
  readonly doubles: Float64Array
}

/** What another thread needs to use a table; it can be posted to it. */
export interface LimiterHandle {
  readonly buffer: SharedArrayBuffer
  /** What hashes begin with: a secret. */
  readonly seed: Uint8Array
  readonly version: number
  /** Number of the thread that it is for. */
  readonly thread: number
  /** When the process began that counts: monotonic milliseconds. */
  readonly began: number
  /** Where the thread writes what it admits; undefined: nowhere. */
  readonly log: SharedArrayBuffer | undefined
}

export interface MemoryOptions {
  /** Memory of another thread; a new one is made without it. */
  readonly buffer?: SharedArrayBuffer | undefined
  /** Number of this thread. */
  readonly thread?: number | undefined
  /** What is written through; tests put themselves between two stores here. */
  readonly views?: ((views: Views) => Views) | undefined
}

/**
 * Hands out objects of a few sizes from one buffer. Each page holds objects of one size; a page without objects goes
 * back to the common pool, so nothing stays with a size that is no longer asked for.
 *
 * An object is known by its address, an index into `words`, which is a multiple of two. Word 0 of a free object is 0.
 * Objects are taken and given back only by the thread that has entered the structure, and in steps of the journal: until
 * `journal.commit` it can still be as if nothing had happened.
 */
export class Memory implements Views {
  readonly words: Uint32Array
  readonly halves: Uint16Array
  readonly doubles: Float64Array
  readonly buffer: SharedArrayBuffer
  readonly layout: Layout
  readonly locks: Locks
  readonly journal: Journal
  /** Number of this thread. */
  readonly thread: number
  /** Where the counters of this thread stand, as an index into `doubles`. */
  readonly cells: number
  /** Has this thread entered the structure? */
  entered = false
  /** Asked when no page is left. */
  relief: Relief = () => false

  constructor(layout: Layout, { buffer, thread = 0, views = (same) => same }: MemoryOptions = {}) {
    this.buffer = buffer ?? new SharedArrayBuffer(layout.bytes)
    this.layout = layout
    const { words, halves, doubles } = views({
      words: new Uint32Array(this.buffer),
      halves: new Uint16Array(this.buffer),
      doubles: new Float64Array(this.buffer)
    })
    this.words = words
    this.halves = halves
    this.doubles = doubles
    this.locks = new Locks(new Int32Array(this.buffer), thread, buffer !== undefined)
    this.journal = new Journal(words, buffer !== undefined)
    this.thread = thread
    this.cells = THREADS_BASE + thread * THREAD_CELLS
    if (buffer !== undefined) return
    words[HEADER.version] = LAYOUT_VERSION
    words[HEADER.freshPage] = layout.firstPage
  }

  /** From now on there may be other threads. Not while this one has a lock. */
  share(): void {
    this.locks.shared = true
    this.journal.recording = true
  }

  /** Makes this thread the only one that may change the structure, until `leave`; false: another one has it for too long. */
  enter(): boolean {
    if (!this.entered) this.entered = this.locks.acquire(HEADER.structureLock)
    return this.entered
  }

  /** Lets other threads change the structure, if this one has entered it. */
  leave(): void {
    if (!this.entered) return
    this.entered = false
    this.locks.release(HEADER.structureLock)
  }

  /** Adds `number` to a counter of this thread, one of COUNTER. */
  count(counter: number, number: number): void {
    this.doubles[this.cells + counter]! += number
  }

  /**
   * What was ever written, to be given to `resume` in one piece: a head, then stretches of 64 KiB that are not empty, each behind its number.
   * Views of the table itself: take them before the next change.
   */
  *pieces(): Generator<Uint8Array> {
    yield this.head()
    const bytes = new Uint8Array(this.words.buffer, 0, this.words[HEADER.freshPage]! * PAGE_BYTES)
    const empty = Buffer.alloc(STRETCH)
    for (let at = 0; at < bytes.length; at += STRETCH) {
      const stretch = bytes.subarray(at, at + STRETCH)
      if (empty.compare(stretch, 0, stretch.length, 0, stretch.length) === 0) continue
      yield new Uint8Array(Uint32Array.of(at / STRETCH).buffer)
      yield stretch
    }
  }

  /** Takes what `pieces` gave; false: it is of another layout or damaged, and nothing has changed. */
  resume(pieces: Uint8Array): boolean {
    const head = this.head()
    if (Buffer.compare(pieces.subarray(0, head.length), head) !== 0) return false
    const bytes = new Uint8Array(this.words.buffer)
    const places: [from: number, at: number][] = []
    for (let from = head.length; from < pieces.length; from += 4 + STRETCH) {
      if (from + 4 > pieces.length) return false
      const at = new DataView(pieces.buffer, pieces.byteOffset + from, 4).getUint32(0, true) * STRETCH
      if (at >= bytes.length) return false
      places.push([from + 4, at])
    }
    for (const [from, at] of places)
      bytes.set(pieces.subarray(from, Math.min(from + STRETCH, from + bytes.length - at)), at)
    return true
  }

  /** What tells tables apart whose content means something else. */
  private head(): Uint8Array {
    return new Uint8Array(Float64Array.of(LAYOUT_VERSION, this.layout.bytes).buffer)
  }

  /** Address of an object of `sizeClass` with unknown content, or 0 when there is no room and none could be made. */
  allocate(sizeClass: number): number {
    const address = this.take(sizeClass)
    if (address !== 0 || !this.relief(sizeClass)) return address
    return this.take(sizeClass)
  }

  /** Like `allocate`, but never asks for relief. */
  take(sizeClass: number): number {
    const { words, journal } = this
    const page = words[HEADER.partial + sizeClass]! || this.openPage(sizeClass)
    if (page === 0) return 0
    const record = this.record(page)
    let packed = words[record + PAGE_RECORD.packed]!
    let address = words[record + PAGE_RECORD.free]!
    if (address !== 0) {
      journal.set(record + PAGE_RECORD.free, words[address + 1]!)
    } else {
      address = page * PAGE_WORDS + (packed >>> 16) * SIZE_WORDS[sizeClass]!
      packed += 0x10000
    }
    packed += 0x10
    journal.set(record + PAGE_RECORD.packed, packed)
    if (((packed >>> 4) & 0xfff) === PER_PAGE[sizeClass]) this.unlink(page, sizeClass)
    return address
  }

  /** Gives the object at `address` back. */
  release(address: number): void {
    const { words, journal } = this
    const page = address >>> 10
    const record = this.record(page)
    const packed = words[record + PAGE_RECORD.packed]!
    const sizeClass = packed & 15
    const used = (packed >>> 4) & 0xfff
    journal.set(address, 0)
    journal.set(address + 1, words[record + PAGE_RECORD.free]!)
    journal.set(record + PAGE_RECORD.free, address)
    journal.set(record + PAGE_RECORD.packed, packed - 0x10)
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
    const { words, journal } = this
    let page = words[HEADER.freePage]!
    if (page !== 0) {
      journal.set(HEADER.freePage, words[this.record(page) + PAGE_RECORD.next]!)
    } else {
      page = words[HEADER.freshPage]!
      if (page >= this.layout.endPage) return 0
      journal.set(HEADER.freshPage, page + 1)
    }
    const record = this.record(page)
    journal.set(record + PAGE_RECORD.packed, sizeClass)
    journal.set(record + PAGE_RECORD.free, 0)
    journal.set(HEADER.pagesInUse, words[HEADER.pagesInUse]! + 1)
    this.link(page, sizeClass)
    return page
  }

  private closePage(page: number, sizeClass: number): void {
    const { words, journal } = this
    this.unlink(page, sizeClass)
    journal.set(this.record(page) + PAGE_RECORD.next, words[HEADER.freePage]!)
    journal.set(HEADER.freePage, page)
    journal.set(HEADER.pagesInUse, words[HEADER.pagesInUse]! - 1)
  }

  private link(page: number, sizeClass: number): void {
    const { words, journal } = this
    const head = words[HEADER.partial + sizeClass]!
    journal.set(this.record(page) + PAGE_RECORD.next, head)
    journal.set(this.record(page) + PAGE_RECORD.previous, 0)
    if (head !== 0) journal.set(this.record(head) + PAGE_RECORD.previous, page)
    journal.set(HEADER.partial + sizeClass, page)
  }

  private unlink(page: number, sizeClass: number): void {
    const { words, journal } = this
    const next = words[this.record(page) + PAGE_RECORD.next]!
    const previous = words[this.record(page) + PAGE_RECORD.previous]!
    if (next !== 0) journal.set(this.record(next) + PAGE_RECORD.previous, previous)
    if (previous !== 0) journal.set(this.record(previous) + PAGE_RECORD.next, next)
    else journal.set(HEADER.partial + sizeClass, next)
  }
}
