/**
 * Version of the buffer's layout, incremented with any change of place or meaning: threads that share a table, and kept copies, must agree.
 */
export const LAYOUT_VERSION = 3

/** Versions of kept copies that this one reads: in version 2 no window is shorter than a minute. */
export const READABLE_VERSIONS: readonly number[] = [LAYOUT_VERSION, 2]

/** Maximum number of threads on one table, numbered from 0. */
export const THREADS = 256

/**
 * Layout of the buffer. Addresses are indexes of 32-bit words; a page has 1,024 of them (4 KiB).
 *
 * header | threads | segments | lists of slot blocks | blocks of a rebuilt segment | page records | sketches | pages
 *
 * Only a few words of the header are written at start, so memory is committed on use.
 */
export interface Layout {
  /** Size of the buffer (bytes). */
  readonly bytes: number
  /** Segments of the directory: a power of two. */
  readonly segments: number
  readonly segmentBase: number
  /** Block k of segment s is at `listBase + k * segments + s`: the lists grow together and touch little memory. */
  readonly listBase: number
  readonly maxBlocks: number
  /** `maxBlocks` words for the blocks of a segment being rebuilt, then as many for its previous blocks. */
  readonly rebuildBase: number
  /** The record of page p is at `recordBase + p * PAGE_RECORD`, counted from page 0 of the buffer. */
  readonly recordBase: number
  readonly sketchBase: number
  /** Counters in a row of a sketch. */
  readonly sketchWidth: number
  readonly firstPage: number
  /** One after the last page. */
  readonly endPage: number
}

export const PAGE_WORDS = 1_024
export const PAGE_BYTES = 4_096

/** Words of the header. The first ones are set at creation and never change. */
export const HEADER = {
  version: 0,
  /** Lock of the structure: everything except the segments and their states; see `structure.ts`. */
  structureLock: 1,
  freePage: 2,
  freshPage: 3,
  pagesInUse: 4,
  pageCursor: 5,
  sweepSegment: 6,
  buckets: 7,
  /** State that no slot holds yet, and one that no slot holds any more; 0: none. */
  building: 8,
  leaving: 9,
  /** Removal in progress: its segment + 1 (0: none) and the slot to vacate. */
  removing: 10,
  hole: 11,
  /** Rebuild in progress: its stage (REBUILD), segment, new size, and number of blocks to release. */
  rebuild: 12,
  rebuilt: 13,
  wanted: 14,
  pending: 15,
  /** For each size class, the first page with room. */
  partial: 16,
  /** For each kind of state, their number. */
  kinds: 32,
  /** 16 words per sketch. */
  sketches: 64,
  /** Number of entries in the undo log, then two words for each: an address and its old value. */
  undone: 128,
  undo: 130
} as const

/** Entries of the undo log: more than twice the longest step. */
export const UNDO_ENTRIES = 96

/** Stages of a rebuild: allocate blocks, switch the segment to them, release the old ones. */
export const REBUILD = { none: 0, making: 1, taking: 2, giving: 3 } as const

/** 64-bit floating-point counters of each thread, in one cache line. */
export const COUNTER = {
  folded: 0,
  foldedAdmissions: 1,
  sketchDecisions: 2,
  dropped: 3,
  admitted: 4,
  refused: 5,
  sketchRefusals: 6,
  busy: 7
} as const

/** 8-byte cells of a thread. */
export const THREAD_CELLS = 8
/** Index of the first thread's cells. */
export const THREADS_BASE = PAGE_WORDS / 2

/** Words of a segment's record, which fills a cache line, so that neighbours do not slow each other down. */
export const SEGMENT = { lock: 0, count: 1, size: 2, blocks: 3, cursor: 4, foldedUntil: 5, words: 16 } as const

/** Words of a page's record; `packed`: size class (4 bits), objects in use (12), objects ever allocated (12). */
export const PAGE_RECORD = { next: 0, previous: 1, packed: 2, free: 3, words: 4 } as const

export const SKETCHES = 4
export const GENERATIONS = 5
export const ROWS = 4

/** Slots of one block, of three words each. */
export const BLOCK_SLOTS = 85

const MIN_BYTES = 256 * 1_024
const MAX_BYTES = 2 ** 32 - PAGE_BYTES
const MAX_SEGMENTS = 4_096
/** Budget per segment (bytes): small enough to rearrange a segment within a millisecond. */
const SEGMENT_BYTES = 131_072
/** Maximum width of a sketch. */
const MAX_WIDTH = 2 ** 19
/** Size of a bucket with one admission and its share of the directory (bytes): limits the room that a segment needs. */
const LEAST_BUCKET_BYTES = 36

/**
 * Returns the layout.
 * @param budget total bytes, 256 KiB to 4 GiB; otherwise throws a RangeError
 */
export function layoutOf(budget: number): Layout {
  if (!(budget >= MIN_BYTES && budget <= 2 ** 32)) throw new RangeError('the memory budget is 256 KiB to 4 GiB')
  const bytes = Math.floor(Math.min(budget, MAX_BYTES) / PAGE_BYTES) * PAGE_BYTES
  const pages = bytes / PAGE_BYTES
  let segments = 1
  while (segments < MAX_SEGMENTS && segments * 2 * SEGMENT_BYTES <= bytes) segments *= 2
  const maxBlocks = Math.ceil((2 * bytes) / segments / LEAST_BUCKET_BYTES / BLOCK_SLOTS)
  const cellsForSketches = Math.floor(bytes / 8 / 4)
  const sketchWidth = Math.min(MAX_WIDTH, Math.floor(cellsForSketches / (SKETCHES * GENERATIONS * ROWS)))

  const segmentBase = PAGE_WORDS + THREADS * THREAD_CELLS * 2
  const listBase = segmentBase + segments * SEGMENT.words
  const rebuildBase = listBase + segments * maxBlocks
  const recordBase = rebuildBase + 2 * maxBlocks
  const sketchBase = recordBase + pages * PAGE_RECORD.words
  const firstPage = Math.ceil((sketchBase + SKETCHES * GENERATIONS * ROWS * sketchWidth) / PAGE_WORDS)
  return {
    ...{ bytes, segments, segmentBase, listBase, maxBlocks, rebuildBase, recordBase },
    ...{ sketchBase, sketchWidth, firstPage, endPage: pages }
  }
}

/** Division of time for one window length. All times are whole milliseconds. */
export interface Geometry {
  /** Window in seconds, and its code. */
  readonly seconds: number
  readonly code: number
  readonly rate: number
  /** Time covered by one counter. */
  readonly grain: number
  /** Maximum number of live counters: those that the window touches, and the one that ends in it. */
  readonly cells: number
  /** Maximum number of live blocks of 30 counters; 0 if counters are not in blocks. */
  readonly blocks: number
}

/** Counters in a block of a long window. */
export const BLOCK_CELLS = 30

const SHORT_LIMIT = 7_200
const LONG_GRAIN = 60_000

/** Length from which windows are multiples of ten seconds; shorter ones are whole seconds. */
const MINUTE = 60
/** Longest window in seconds. */
const DAY = 86_400
/** Code of a day. The codes above it are windows below a minute. */
export const DAY_CODE = DAY / 10

/**
 * Returns the code of a window of `seconds`, 14 bits: its tens of seconds; below a minute `DAY_CODE` and its seconds. Throws a RangeError
 * for other lengths.
 */
function windowCode(seconds: number): number {
  if (Number.isInteger(seconds) && seconds >= 1 && seconds < MINUTE) return DAY_CODE + seconds
  if (seconds >= MINUTE && seconds <= DAY && seconds % 10 === 0) return seconds / 10
  throw new RangeError('a window is 1 to 59 whole seconds, or 60 to 86,400 seconds and a multiple of ten')
}

/** Returns the seconds of a window by its code. */
export function windowSeconds(code: number): number {
  return code > DAY_CODE ? code - DAY_CODE : code * 10
}

/**
 * Returns the geometry of a window of `seconds`; throws a RangeError for a length without a code.
 *
 * Up to two hours a grain is 1/120 of the window in whole milliseconds, rounded down from a minute on and up below it, so that the counters
 * of any window fit into the same state; beyond, one minute.
 */
export function geometryOf(seconds: number): Geometry {
  const code = windowCode(seconds)
  const rate = seconds * 1_000
  const long = seconds > SHORT_LIMIT
  const grain = long ? LONG_GRAIN : seconds < MINUTE ? Math.ceil(rate / 120) : Math.floor(rate / 120)
  const cells = Math.ceil(rate / grain) + 1
  const blocks = long ? Math.ceil((cells + BLOCK_CELLS - 1) / BLOCK_CELLS) : 0
  return { seconds, code, rate, grain, cells, blocks }
}

/** Cache of geometries by window length. */
export class Geometries {
  private readonly known: (Geometry | undefined)[] = []

  /** Returns the geometry of the window with this code; throws a RangeError if there is none. */
  of(code: number): Geometry {
    let geometry = this.known[code]
    if (geometry === undefined) {
      geometry = geometryOf(windowSeconds(code))
      if (geometry.code !== code) throw new RangeError(`${code} is the code of no window`)
      this.known[code] = geometry
    }
    return geometry
  }

  /** Returns the geometry of a window of `seconds`; throws a RangeError for a length without a code. */
  ofSeconds(seconds: number): Geometry {
    return this.of(windowCode(seconds))
  }
}

/**
 * Encodes a tuple of strings unambiguously.
 *
 * Every part is preceded by its length in UTF-16 units and a colon: `['a', 'bc']` is `1:a2:bc`, `['ab', 'c']` is `2:ab1:c`. The text can be
 * split in one way only.
 */
export function encodeKey(parts: readonly string[]): string {
  let text = ''
  for (const part of parts) text += `${part.length}:${part}`
  return text
}
