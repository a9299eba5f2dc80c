import { performance } from 'node:perf_hooks'

/** The growth of what is quadratic is 4, of what is linear 2; between them is room for a machine that does other work. */
const MOST_GROWTH = 2.6
/** Milliseconds below which the clock and the collector of memory say more than the work. */
const FLOOR = 12
/** Smallest size that is tried. */
const LEAST = 1_024
/** Runs of one size before its growth counts as proven; the cheapest of each size is compared. */
const PROOF = 6

/** Work that grows faster than its input. */
export interface Growth {
  /** Of the larger of both inputs. */
  readonly size: number
  /** Milliseconds of half the size, and of it. */
  readonly before: number
  readonly after: number
}

/**
 * Doubles the input of `run` up to `limit` and returns the first size at which its time on the thread grows by more than
 * 2.6 times, or undefined. `inputOf` makes the input of a size; only `run` is measured. Sizes that take less than twelve
 * milliseconds are not compared. A growth is measured again, and the cheapest runs decide.
 */
export function fastGrowth<Input>(
  limit: number,
  inputOf: (size: number) => Input,
  run: (input: Input) => unknown
): Growth | undefined {
  const cost = (size: number): number => {
    const input = inputOf(size)
    const begun = performance.now()
    run(input)
    return performance.now() - begun
  }
  const grows = (before: number, after: number) => after > FLOOR && after > MOST_GROWTH * Math.max(before, FLOOR / 4)
  let before = Number.POSITIVE_INFINITY
  for (let size = Math.min(LEAST, limit); ; size = Math.min(size * 2, limit)) {
    let after = cost(size)
    const half = Math.ceil(size / 2)
    for (let proof = 0; grows(before, after); proof++) {
      if (proof === PROOF) return { size, before, after }
      before = Math.min(before, cost(half))
      after = Math.min(after, cost(size))
    }
    if (size >= limit) return undefined
    before = after
  }
}
