/*
 * CEL counts the positions of a string in Unicode code points, JavaScript in UTF-16 units. The two differ only in
 * strings with surrogates, so everything here has a short way for the others.
 */

const SURROGATE = /[\ud800-\udfff]/
const LONE_SURROGATE = /\p{Surrogate}/gu

/** Whether positions in code points and in UTF-16 units differ. */
function hasSurrogates(text: string): boolean {
  return SURROGATE.test(text)
}

/** The code points of a string, each as a string. */
export function codePoints(text: string): string[] {
  return hasSurrogates(text) ? Array.from(text) : text.split('')
}

/** Code points before the UTF-16 offset `unit`, which must not be inside a pair. */
export function codePointIndex(text: string, unit: number): number {
  if (!hasSurrogates(text)) return unit
  let count = 0
  for (let at = 0; at < unit; at += widthAt(text, at)) count++
  return count
}

/** UTF-16 offset of the code point `index`, the length for the index after the last one, or -1 when out of range. */
export function unitOffset(text: string, index: bigint): number {
  if (index < 0n || index > BigInt(text.length)) return -1
  const wanted = Number(index)
  if (!hasSurrogates(text)) return wanted
  let at = 0
  for (let passed = 0; passed < wanted; passed++) {
    if (at >= text.length) return -1
    at += widthAt(text, at)
  }
  return at
}

/** UTF-16 units of the code point at `unit`. */
export function widthAt(text: string, unit: number): 1 | 2 {
  return (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1
}

/** `text` with U+FFFD for each half of a surrogate pair that stands alone. */
export function wellFormed(text: string): string {
  return hasSurrogates(text) ? text.replace(LONE_SURROGATE, '\ufffd') : text
}
