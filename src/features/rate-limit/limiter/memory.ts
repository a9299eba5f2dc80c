import { Locks } from '../../../lib/locks.js'
import { Journal } from './journal.js'
import {
  HEADER,
  LAYOUT_VERSION,
  type Layout,
  PAGE_BYTES,
  PAGE_RECORD,
  PAGE_WORDS,
  READABLE_VERSIONS,
  THREAD_CELLS,
  THREADS_BASE
} from './layout.js'

/** Sizes in bytes, all multiples of eight. Classes 0 to 4 are small rings; see `buckets.ts` and `directory.ts` for the others. */
const SIZES = [24, 32, 48, 80, 144, 272, 512, 64, 120, 1_024] as const
/** Sizes in words. */
const SIZE_WORDS = SIZES.map((size) => size / 4)
/** Objects per page. */
const PER_PAGE = SIZES.map((size) => Math.floor(PAGE_BYTES / size))

export const SIZE_CLASSES = SIZES.length
/** Size classes below this one contain only rings: their pages can be emptied object by object. */
export const SMALL_CLASSES = 5
/** Size classes of the other objects. */
export const SIZE_CLASS = { full: 5, wide: 6, narrowBlock: 7, wideBlock: 8, slots: 9 } as const

/** Bytes of a piece in which a table is written to a file. */
const STRETCH = 65_536

/** Makes room for an object of `sizeClass`, or returns false. Must not call `allocate`. */
export type Relief = (sizeClass: number) => boolean

/** Buffer as numbers of several widths. */
export interface Views {
  readonly words: Uint32Array
  readonly halves: Uint16Array
  readonly doubles: Float64Array
}

/** Data for another thread to use a table; can be posted. */
export interface LimiterHandle {
  readonly buffer: SharedArrayBuffer
  /** Secret that seeds the hashes. */
  readonly seed: Uint8Array
  readonly version: number
  /** Number of the receiving thread. */
  readonly thread: number
  /** Start of the process that counts: monotonic milliseconds. */
  readonly began: number
  /** Log for the thread's admissions; undefined for none. */
  readonly log: SharedArrayBuffer | undefined
}

export interface MemoryOptions {
  /** Memory of another thread. @default a new one */
  readonly buffer?: SharedArrayBuffer | undefined
  /** Number of this thread. */
  readonly thread?: number | undefined
  /** Wraps all stores; tests interrupt between two stores here. */
  readonly views?: ((views: Views) => Views) | undefined
}

/**
 * Allocates objects of a few sizes from one buffer. Each page has objects of one size; a page without objects returns to the common pool,
 * so that no unused size keeps memory.
 *
 * An object is identified by its address, an even index into `words`. Word 0 of a free object is 0. Only the thread inside the structure
 * allocates and releases objects, in steps of the journal: until `journal.commit` they can be undone.
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
  /** Index of this thread's counters in `doubles`. */
  readonly cells: number
  /** True while this thread is inside the structure. */
  entered = false
  /** Called when no page is left. */
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

  /** Prepares for other threads. Must not be called while this thread holds a lock. */
  share(): void {
    this.locks.shared = true
    this.journal.recording = true
  }

  /** Enters the structure, so that only this thread may change it until `leave`; returns false if another one holds it for too long. */
  enter(): boolean {
    if (!this.entered) this.entered = this.locks.acquire(HEADER.structureLock)
    return this.entered
  }

  /** Leaves the structure, if this thread has entered it. */
  leave(): void {
    if (!this.entered) return
    this.entered = false
    this.locks.release(HEADER.structureLock)
  }

  /** Adds `number` to one of this thread's counters (COUNTER). */
  count(counter: number, number: number): void {
    this.doubles[this.cells + counter]! += number
  }

  /**
   * Yields all data ever written, for `resume` in one piece: a head, then numbered non-empty pieces of 64 KiB. The views belong to the
   * table: read them before the next change.
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

  /** Restores the data of `pieces`; returns false, without changes, if it is damaged or has another layout. */
  resume(pieces: Uint8Array): boolean {
    const head = this.head()
    const given = pieces.subarray(0, head.length)
    if (!READABLE_VERSIONS.some((version) => Buffer.compare(given, this.head(version)) === 0)) return false
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
    this.words[HEADER.version] = LAYOUT_VERSION
    return true
  }

  /** Returns the head, which identifies compatible tables. */
  private head(version = LAYOUT_VERSION): Uint8Array {
    return new Uint8Array(Float64Array.of(version, this.layout.bytes).buffer)
  }

  /** Allocates an object of `sizeClass` with undefined content; returns 0 if there is no room and none could be made. */
  allocate(sizeClass: number): number {
    const address = this.take(sizeClass)
    if (address !== 0 || !this.relief(sizeClass)) return address
    return this.take(sizeClass)
  }

  /** Allocates like `allocate`, but without relief. */
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

  /** Releases the object at `address`. */
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

  /** Returns true if `take` would succeed. */
  hasRoom(sizeClass: number): boolean {
    const { words } = this
    return (
      words[HEADER.partial + sizeClass] !== 0 ||
      words[HEADER.freePage] !== 0 ||
      words[HEADER.freshPage]! < this.layout.endPage
    )
  }

  /** Returns the size class of a page that has been used, even if it is empty now. */
  classOfPage(page: number): number {
    return this.words[this.record(page) + PAGE_RECORD.packed]! & 15
  }

  /** Returns the number of objects in use on `page`. */
  usedOnPage(page: number): number {
    return (this.words[this.record(page) + PAGE_RECORD.packed]! >>> 4) & 0xfff
  }

  /** Returns the number of objects ever allocated on `page`: later ones have no content. */
  touchedOnPage(page: number): number {
    return this.words[this.record(page) + PAGE_RECORD.packed]! >>> 16
  }

  /** Returns the address of object `index` on `page`. */
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
