/** How long to wait after failures. Milliseconds. */
export interface BackOffRange {
  readonly first: number
  readonly longest: number
}

export const BACK_OFF: BackOffRange = { first: 1_000, longest: 300_000 }

/**
 * The pause after the `failures`th failure in a row, in milliseconds: it doubles up to the longest, and up to half of it is
 * taken off at random, so that destinations that failed together are not asked together again. `random` is in [0, 1).
 */
export function pauseAfter(failures: number, { first, longest }: BackOffRange, random: () => number): number {
  const whole = Math.min(longest, first * 2 ** Math.min(failures - 1, 30))
  return whole * (1 - random() / 2)
}
