/**
 * Where things stand in the one buffer. Addresses are indexes of 32-bit words; a page has 1,024 of them (4 KiB).
 *
 *   header | segments | lists of slot blocks | page records | sketches | pages
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

/** Words of the header. */
export const HEADER = {
  freePage: 0,
  freshPage: 1,
  pagesInUse: 2,
  pageCursor: 3,
  sweepSegment: 4,
  buckets: 5,
  /** One word for each size class: the first page that has room. */
  partial: 16,
  /** One word for each kind of state: how many there are. */
  kinds: 32,
  /** 16 words for each sketch. */
  sketches: 64
} as const

/** 64-bit floating-point counters of the header, as indexes of 8-byte cells. */
export const COUNTER = {
  folded: 96,
  foldedAdmissions: 97,
  sketchDecisions: 98,
  dropped: 99,
  admitted: 100,
  refused: 101,
  sketchRefusals: 102
} as const

/** Words of a segment's record. The last is kept for a lock. */
export const SEGMENT = { count: 0, size: 1, blocks: 2, cursor: 3, foldedUntil: 4, words: 8 } as const

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

  const segmentBase = PAGE_WORDS
  const listBase = segmentBase + segments * SEGMENT.words
  const recordBase = listBase + segments * maxBlocks
  const sketchBase = recordBase + pages * PAGE_RECORD.words
  const firstPage = Math.ceil((sketchBase + SKETCHES * GENERATIONS * ROWS * sketchWidth) / PAGE_WORDS)
  return {
    ...{ bytes, segments, segmentBase, listBase, maxBlocks, recordBase },
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
