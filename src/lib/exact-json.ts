import { randomBytes } from 'node:crypto'

/** A JSON number. */
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y
/** An integer that a JavaScript number may not represent: sixteen digits or more, without fraction and exponent. */
const WHOLE = /^-?\d{16,}$/
/** Quick check for such numbers. */
const MANY_DIGITS = /\d{16}/
/** Length of the smallest 64-bit integer in characters. */
const LONGEST_INT64 = 20
/** Maximum 64-bit integer. */
const MAX_INT64 = 9_223_372_036_854_775_807n

/**
 * Parses JSON text (RFC 8259) without losing digits of integers: one beyond 2^53 becomes a bigint if it fits into 64 bits, otherwise its
 * text. Other values are those of `JSON.parse`. Throws a SyntaxError. Linear in the text; the caller bounds its depth.
 */
export function parseExactJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  if (!MANY_DIGITS.test(text)) return value
  // Random, so that no string of the document starts with the mark.
  const mark = randomBytes(12).toString('base64')
  const marked = marking(text, mark)
  if (marked === text) return value
  return JSON.parse(marked, (_key, item: unknown) =>
    typeof item === 'string' && item.startsWith(mark) ? exact(item.slice(mark.length)) : item
  )
}

/** Converts digits to a bigint, or returns them if they exceed 64 bits. */
export function exact(digits: string): bigint | string {
  if (digits.length > LONGEST_INT64) return digits
  const value = BigInt(digits)
  return value <= MAX_INT64 && value >= -MAX_INT64 - 1n ? value : digits
}

/** Returns the document with each such number as a string that starts with the mark. */
function marking(text: string, mark: string): string {
  let marked = ''
  let from = 0
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) quoted = !quoted
    else if (quoted) at += unit === BACKSLASH ? 1 : 0
    else if (unit === MINUS || (unit >= ZERO && unit <= NINE)) {
      NUMBER.lastIndex = at
      const number = NUMBER.exec(text)?.[0] ?? ''
      if (WHOLE.test(number) && !Number.isSafeInteger(Number(number))) {
        marked += `${text.slice(from, at)}"${mark}${number}"`
        from = at + number.length
      }
      at += Math.max(0, number.length - 1)
    }
  }
  return marked + text.slice(from)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39
