/** Larger capacities count as this one. */
export const MAX_CAPACITY = 2 ** 32 - 1

/** Decision on one request. */
export interface Decision {
  /** Time of the decision: monotonic milliseconds. */
  at: number
  admitted: boolean
  /** Remaining admissions after this decision. */
  remaining: number
  /** Seconds, rounded up, until the whole capacity is free if nothing more is admitted. */
  resetSeconds: number
  /** Seconds after which a single client will be admitted: at least 1, at most the window; 0 if admitted. */
  retryAfterSeconds: number
  /** Time of the previous admission in the window: monotonic milliseconds; -1: none. */
  before: number
}

/** Result that a decision would find now; nothing is counted. */
export interface BucketPeek extends Omit<Decision, 'admitted'> {
  /** Live admissions. */
  readonly used: number
  /** Part of `used` from the sketch's estimate, which other keys may share. */
  readonly folded: number
}

/** One bucket at one moment. */
export interface BucketView {
  /** Live admissions as a decision would count them. */
  readonly count: number
  readonly resetSeconds: number
}

/** Returns an object for `take` to write into. */
export function undecided(): Decision {
  return { at: 0, admitted: false, remaining: 0, resetSeconds: 0, retryAfterSeconds: 0, before: -1 }
}
