/** Larger capacities count as this one. */
export const MAX_CAPACITY = 2 ** 32 - 1

/** The answer to one request. */
export interface Decision {
  /** When it was taken: monotonic milliseconds. */
  at: number
  admitted: boolean
  /** Admissions that are left after this decision. */
  remaining: number
  /** Seconds, rounded up, until the whole capacity is free again when nothing more is admitted. */
  resetSeconds: number
  /** Seconds after which a client that is alone will be admitted: at least 1, at most the window; 0 when admitted. */
  retryAfterSeconds: number
  /** When the last admission before this decision was, while it is in the window: monotonic milliseconds; -1: none is. */
  before: number
}

/** What a decision would find now; nothing is counted. */
export interface BucketPeek extends Omit<Decision, 'admitted'> {
  /** Live admissions. */
  readonly used: number
  /** Of these, the estimate of the sketch, which other keys may share. */
  readonly folded: number
}

/** One bucket at one moment. */
export interface BucketView {
  /** Live admissions, as a decision would count them. */
  readonly count: number
  readonly resetSeconds: number
}

/** For `take` to write into. */
export function undecided(): Decision {
  return { at: 0, admitted: false, remaining: 0, resetSeconds: 0, retryAfterSeconds: 0, before: -1 }
}
