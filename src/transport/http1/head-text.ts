import { HT, SP } from './serialise.js'

/** Characters of the longest length that is read. */
const MOST_DIGITS = 15

/** The text from `from` to `to`; the usual method is one string for all requests. */
export function methodOf(text: string, from: number, to: number): string {
  if (
    to - from === 3 &&
    text.charCodeAt(from) === 0x47 &&
    text.charCodeAt(from + 1) === 0x45 &&
    text.charCodeAt(from + 2) === 0x54
  )
    return 'GET'
  return text.slice(from, to)
}

/** Without optional white space around the value (RFC 9110 5.5). */
export function trimmed(text: string, from: number, to: number): string {
  let begin = from
  let end = to
  while (begin < end && isBlank(text.charCodeAt(begin))) begin++
  while (end > begin && isBlank(text.charCodeAt(end - 1))) end--
  return text.slice(begin, end)
}

function isBlank(code: number): boolean {
  return code === SP || code === HT
}

/** The value of a digit that is known to be there. */
export function digitAt(text: string, at: number): number {
  return text.charCodeAt(at) - 0x30
}

/** Is this 1 to 15 digits? */
export function isLength(value: string): boolean {
  for (let i = 0; i < value.length; i++) if (!isDigit(value.charCodeAt(i))) return false
  return value.length > 0 && value.length <= MOST_DIGITS
}

/** Is this the code of a digit? */
export function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}
