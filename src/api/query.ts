import { controlErrors } from '../control/errors.js'
import type { ErrorRow } from '../lib/errors.js'
import { ApiError, apiErrors } from './errors.js'

/** The query of a request as it came: `text` is what stands behind the question mark. */
export interface RawQuery {
  readonly text: string
}

/** Other spellings that clients of this API use. */
const ALIASES: ReadonlyMap<string, string> = new Map([['beforeId', 'before_id']])

/** Bounds of `limit`, the size of a page. */
export const LIMIT = { least: 1, most: 100, absent: 100, error: apiErrors.PAGE_LIMIT }

/** Longest value of a parameter; ids and numbers are much shorter. */
const MAX_VALUE = 256

/**
 * The parameters of a query, each at most once and each one of `known`.
 * Throws an ApiError `QUERY_MALFORMED`, `QUERY_UNKNOWN` or `QUERY_REPEATED`.
 */
export function readQuery(text: string, known: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const written = decode(equals === -1 ? pair : pair.slice(0, equals))
    const name = ALIASES.get(written) ?? written
    const field = name.slice(0, 64)
    if (!known.includes(name)) {
      const names = known.length === 0 ? 'there are none here' : `there are ${known.join(', ')}`
      throw new ApiError(apiErrors.QUERY_UNKNOWN, `The query has a parameter that is not known; ${names}.`, { field })
    }
    if (found.has(name))
      throw new ApiError(apiErrors.QUERY_REPEATED, `The query has ${name} more than once.`, { field })
    const value = equals === -1 ? '' : decode(pair.slice(equals + 1))
    if (value.length > MAX_VALUE) throw invalidParameter(name, 'is too long')
    found.set(name, value)
  }
  return found
}

/** A switch: absent is false. Throws an ApiError `QUERY_INVALID`. */
export function readSwitch(query: ReadonlyMap<string, string>, name: string): boolean {
  const value = query.get(name)
  if (value === undefined || value === 'false') return false
  if (value === 'true') return true
  throw invalidParameter(name, 'must be true or false')
}

/** A whole number within bounds. Throws an ApiError with the error `error`. */
export function readCount(
  query: ReadonlyMap<string, string>,
  name: string,
  { least, most, absent, error }: { least: number; most: number; absent: number; error: ErrorRow }
): number {
  const value = query.get(name)
  if (value === undefined) return absent
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
  if (number >= least && number <= most) return number
  throw new ApiError(error, `${name} must be a whole number from ${least} to ${most}.`, { field: name })
}

export function invalidParameter(name: string, reason: string): ApiError {
  return new ApiError(controlErrors.QUERY_INVALID, `${name} ${reason}.`, { field: name })
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    // A percent sign without two digits, or bytes that are no UTF-8: one and the same to the client.
    throw new ApiError(apiErrors.QUERY_MALFORMED, 'The query is not percent-encoded UTF-8.')
  }
}
