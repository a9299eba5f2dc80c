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
