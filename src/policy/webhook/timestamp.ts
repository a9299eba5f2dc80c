import type { Failure } from './finding.js'

const SECOND = 1_000
/** What is allowed between the sender's clock and ours, either way, where the sender says nothing else. */
export const TOLERANCE = 300 * SECOND

const DIGITS = /^\d{1,15}$/
/** From here on a number counts milliseconds: in seconds it would lie in the year 5138. */
const MILLISECONDS = 1e11
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?$/

/**
 * Milliseconds since the epoch of a timestamp as senders write it: Unix time in seconds or milliseconds, or ISO 8601, in UTC
 * where no zone is written. Undefined when it is neither.
 */
export function readTimestamp(text: string): number | undefined {
  if (DIGITS.test(text)) {
    const number = Number(text)
    return number < MILLISECONDS ? number * SECOND : number
  }
  const match = ISO.exec(text)
  if (match === null) return undefined
  const time = Date.parse(match[1] === undefined ? `${text}Z` : text)
  return Number.isNaN(time) ? undefined : time
}

/** Why a timestamp is not that of a fresh request; undefined when it is. All times in milliseconds. */
export function staleness(text: string | undefined, now: number, tolerance: number): Failure | undefined {
  const time = text === undefined ? undefined : readTimestamp(text)
  if (time === undefined) return 'TIMESTAMP_INVALID'
  return Math.abs(now - time) > tolerance ? 'TIMESTAMP_STALE' : undefined
}
