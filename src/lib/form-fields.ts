import type { Steps } from './slices.js'
import { isAscii, view } from './utf8-text.js'

const AMPERSAND = 0x26
const EQUALS = 0x3d
const PLUS = 0x2b
const PERCENT = 0x25
const SPACE = 0x20
const QUESTION_MARK = 0x3f
/** Bit that converts an ASCII letter to lower case. */
const SMALL_LETTER = 0x20
/** ASCII code of k. */
const LETTER_K = 0x6b
/** First UTF-8 byte of KELVIN SIGN. */
const KELVIN_FIRST = 0xe2
/** Bytes read at a time, unless one field is longer. */
const STRETCH = 8_192

/**
 * Reads names and values of a form (application/x-www-form-urlencoded, WHATWG URL 5.1) in order; returns undefined if it has more than
 * `most` fields.
 */
export function* formFields(
  bytes: Uint8Array,
  most = Number.POSITIVE_INFINITY
): Steps<(readonly [name: string, value: string])[] | undefined> {
  const fields: (readonly [string, string])[] = []
  for (let at = 0; at < bytes.length; ) {
    const border = bytes.indexOf(AMPERSAND, at + STRETCH)
    const end = border === -1 ? bytes.length : border
    const part = view(bytes, at, end).toString('utf8')
    // A question mark is skipped before the first field only.
    for (const field of new URLSearchParams(at === 0 ? part : `&${part}`)) fields.push(field)
    if (fields.length > most) return undefined
    at = end + 1
    yield
  }
  return fields
}

/**
 * Reads the form fields with one of `names` (lower case), case-insensitively; other fields are not decoded. The result is a superset for
 * names with non-ASCII characters.
 */
export function* formFieldsCalled(
  bytes: Uint8Array,
  names: readonly string[]
): Steps<(readonly [name: string, value: string])[]> {
  const fields: (readonly [string, string])[] = []
  const isPlain = names.every(isAscii)
  let rest = STRETCH
  for (let at = 0; at < bytes.length; ) {
    // A question mark is skipped before the first field only.
    const start = at === 0 && bytes[0] === QUESTION_MARK ? 1 : at
    let end = start
    while (end < bytes.length && bytes[end] !== AMPERSAND) {
      if (++end < rest) continue
      rest = end + STRETCH
      yield
    }
    if (end > start && (!isPlain || names.some((name) => couldBe(bytes, start, end, name))))
      fields.push(...new URLSearchParams(`&${view(bytes, start, end).toString('utf8')}`))
    at = end + 1
    if (at < rest) continue
    rest = at + STRETCH
    yield
  }
  return fields
}

/** Returns whether the field in this range could have the ASCII name `name` (lower case), without decoding it. */
function couldBe(bytes: Uint8Array, start: number, end: number, name: string): boolean {
  let at = start
  for (let i = 0; i < name.length; i++) {
    const wanted = name.charCodeAt(i)
    if (at >= end) return false
    let byte = bytes[at++] as number
    if (byte === PLUS) byte = SPACE
    else if (byte === PERCENT) {
      const [high, low] = [digitOf(bytes[at]), digitOf(bytes[at + 1])]
      if (high >= 0 && low >= 0) {
        byte = high * 16 + low
        at += 2
      }
    }
    // KELVIN SIGN is the only non-ASCII character whose lower case, k, is ASCII.
    if (byte === KELVIN_FIRST) return wanted === LETTER_K
    if ((byte | SMALL_LETTER) !== (wanted | SMALL_LETTER)) return false
  }
  return at === end || bytes[at] === EQUALS
}

/** Returns the value of a hexadecimal digit, or -1. */
function digitOf(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | SMALL_LETTER
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}
