import { HT, SP } from './serialise.js'

/** Maximum digits of a length. */
const MOST_DIGITS = 15

/** Returns the text from `from` to `to`; the usual method is one string for all requests. */
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

/** Removes optional white space around the value (RFC 9110 5.5). */
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

/** Returns the value of a digit that is known to be present. */
export function digitAt(text: string, at: number): number {
  return text.charCodeAt(at) - 0x30
}

/** Returns whether the value has 1 to 15 digits. */
export function isLength(value: string): boolean {
  for (let i = 0; i < value.length; i++) if (!isDigit(value.charCodeAt(i))) return false
  return value.length > 0 && value.length <= MOST_DIGITS
}

/** Returns whether this is the code of a digit. */
export function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}
