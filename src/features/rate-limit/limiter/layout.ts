/**
 * Counts up whenever anything in the buffer changes its place or its meaning: threads that share a table, and copies of
 * one that are kept, must agree on it.
 */
export const LAYOUT_VERSION = 2

/** Threads that may use one table at a time, numbered from 0. */
export const THREADS = 256

/**
 * Where things stand in the one buffer. Addresses are indexes of 32-bit words; a page has 1,024 of them (4 KiB).
 *
 *   header | threads | segments | lists of slot blocks | blocks of a rebuilt segment | page records | sketches | pages
 *
 * Nothing is written at start except a few words of the header, so memory is committed only as it is used.
 */
export interface Layout {
  /** Bytes of the buffer. */
  readonly bytes: number
  /** Segments of the directory: a power of two. */
  readonly segments: number
  readonly segmentBase: number
  /** Block k of segment s stands at `listBase + k * segments + s`: the lists grow together and touch little memory. */
  readonly listBase: number
  readonly maxBlocks: number
  /** `maxBlocks` words for the blocks of a segment that is rebuilt, then as many for those that it had. */
  readonly rebuildBase: number
  /** The record of page p stands at `recordBase + p * PAGE_RECORD`; it counts from page 0 of the buffer. */
  readonly recordBase: number
  readonly sketchBase: number
  /** Counters of one row of a sketch. */
  readonly sketchWidth: number
  readonly firstPage: number
  /** One behind the last page. */
  readonly endPage: number
}

export const PAGE_WORDS = 1_024
export const PAGE_BYTES = 4_096

/** Words of the header. The first ones are set when the table is made and never change. */
export const HEADER = {
  version: 0,
  /** Owner of the structure: of everything but the segments and the states in them; see `structure.ts`. */
  structureLock: 1,
  freePage: 2,
  freshPage: 3,
  pagesInUse: 4,
  pageCursor: 5,
  sweepSegment: 6,
  buckets: 7,
  /** A state that no slot holds yet, and one that no slot holds any more; 0: none. */
  building: 8,
  leaving: 9,
  /** A removal that goes on: its segment + 1 (0: none) and the slot that is to be vacated. */
  removing: 10,
  hole: 11,
  /** A segment that is rebuilt: how far (REBUILD), which, its new size, and how many blocks there are to give back. */
  rebuild: 12,
  rebuilt: 13,
  wanted: 14,
  pending: 15,
  /** One word for each size class: the first page that has room. */
  partial: 16,
  /** One word for each kind of state: how many there are. */
  kinds: 32,
  /** 16 words for each sketch. */
  sketches: 64,
  /** How many entries the undo log has, then two words for each: an address and what it held. */
  undone: 128,
  undo: 130
} as const

/** Entries of the undo log: more than twice what the longest step writes. */
export const UNDO_ENTRIES = 96

/** How far the rebuilding of a segment is: blocks are made, the segment takes them over, the former ones are given back. */
export const REBUILD = { none: 0, making: 1, taking: 2, giving: 3 } as const

/** 64-bit floating-point counters that each thread has of its own, in one line of the processor's cache. */
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

/** 8-byte cells of a thread, and where those of the first one stand. */
export const THREAD_CELLS = 8
export const THREADS_BASE = PAGE_WORDS / 2

/** Words of a segment's record, which fills a line of the processor's cache: neighbours do not slow each other down. */
export const SEGMENT = { lock: 0, count: 1, size: 2, blocks: 3, cursor: 4, foldedUntil: 5, words: 16 } as const

/** Words of a page's record; `packed` is size class (4 bits), objects in use (12), objects ever handed out (12). */
export const PAGE_RECORD = { next: 0, previous: 1, packed: 2, free: 3, words: 4 } as const

export const SKETCHES = 4
export const GENERATIONS = 5
export const ROWS = 4

/** Slots of one block, three words each. */
export const BLOCK_SLOTS = 85

const MIN_BYTES = 256 * 1_024
const MAX_BYTES = 2 ** 32 - PAGE_BYTES
const MAX_SEGMENTS = 4_096
/** Share of the budget that one segment stands for: small enough that a segment is rearranged within a millisecond. */
const SEGMENT_BYTES = 131_072
const MAX_WIDTH = 2 ** 19
/** A bucket with one admission and its share of the directory: no segment needs room for many more than this gives. */
const LEAST_BUCKET_BYTES = 36

/** @param budget bytes for everything, 256 KiB to 4 GiB; anything else is a RangeError. */
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

/** How time is cut for one window length. All times are whole milliseconds. */
export interface Geometry {
  /** The window, in seconds and in tens of seconds. */
  readonly seconds: number
  readonly tens: number
  readonly rate: number
  /** Length of one counter's time. */
  readonly grain: number
  /** Counters that can be alive at once: those that the window touches, and the one that ends in it. */
  readonly cells: number
  /** Blocks of 30 counters that can be alive at once, when counters come in blocks; 0 when they stand in one piece. */
  readonly blocks: number
}

/** Counters of one block of a long window. */
export const BLOCK_CELLS = 30

const SHORT_LIMIT = 7_200
const LONG_GRAIN = 60_000

/**
 * The geometry of a window of `seconds` (60 to 86,400, a multiple of ten; anything else is a RangeError).
 *
 * Up to two hours a grain is the 120th part of the window, rounded down to whole milliseconds; beyond, one minute.
 */
export function geometryOf(seconds: number): Geometry {
  if (!(seconds >= 60 && seconds <= 86_400 && seconds % 10 === 0)) {
    throw new RangeError('a window is 60 to 86,400 seconds long and a multiple of ten')
  }
  const rate = seconds * 1_000
  const long = seconds > SHORT_LIMIT
  const grain = long ? LONG_GRAIN : Math.floor(rate / 120)
  const cells = Math.ceil(rate / grain) + 1
  const blocks = long ? Math.ceil((cells + BLOCK_CELLS - 1) / BLOCK_CELLS) : 0
  return { seconds, tens: seconds / 10, rate, grain, cells, blocks }
}

/** Geometries by window length, each computed once. */
export class Geometries {
  private readonly known: (Geometry | undefined)[] = []

  /** @param tens the window in tens of seconds */
  of(tens: number): Geometry {
    let geometry = this.known[tens]
    if (geometry === undefined) {
      geometry = geometryOf(tens * 10)
      this.known[tens] = geometry
    }
    return geometry
  }
}

/**
 * One string for a tuple of strings, so that different tuples never give the same string.
 *
 * Every part is preceded by its length in UTF-16 units and a colon: `['a', 'bc']` is `1:a2:bc`, `['ab', 'c']` is
 * `2:ab1:c`. A reader can cut the text back into its parts in one way only.
 */
export function encodeKey(parts: readonly string[]): string {
  let text = ''
  for (const part of parts) text += `${part.length}:${part}`
  return text
}
