import type { EvaluationError } from '../expression.js'
import type { FunctionDefinition } from '../signatures.js'
import { MAX_LIST } from '../values.js'
import { absent, bounded, checkCount, checkLength, failed, weighing } from './bounds.js'
import { formatText } from './format.js'

/*
 * CEL counts the positions of a string in Unicode code points, JavaScript in UTF-16 units. The two differ only in
 * strings with surrogates, so everything here has a short way for the others.
 */

const BEYOND_ASCII = /[^\0-\x7f]/
const SURROGATE = /[\ud800-\udfff]/
const LONE_SURROGATE = /\p{Surrogate}/gu

function isAscii(text: string): boolean {
  return !BEYOND_ASCII.test(text)
}

/** Whether positions in code points and in UTF-16 units differ. */
function hasSurrogates(text: string): boolean {
  return SURROGATE.test(text)
}

/** The code points of a string, each as a string. */
function codePoints(text: string): string[] {
  return hasSurrogates(text) ? Array.from(text) : text.split('')
}

/** Code points before the UTF-16 offset `unit`, which must not be inside a pair. */
function codePointIndex(text: string, unit: number): number {
  if (!hasSurrogates(text)) return unit
  let count = 0
  for (let at = 0; at < unit; at += widthAt(text, at)) count++
  return count
}

/** UTF-16 offset of the code point `index`, the length for the index after the last one, or -1 when out of range. */
function unitOffset(text: string, index: bigint): number {
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
function widthAt(text: string, unit: number): 1 | 2 {
  return (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1
}

/** `text` with U+FFFD for each half of a surrogate pair that stands alone. */
export function wellFormed(text: string): string {
  return hasSurrogates(text) ? text.replace(LONE_SURROGATE, '\ufffd') : text
}

/** Result for a position outside the string. */
const OUTSIDE = absent('a position is outside the string')
/** Result for a substring with its end before its start. */
const BACKWARDS = failed('a substring ends before it starts')
const refusesPosition = (_text: unknown, from: unknown, to?: unknown) => refusesPositions(from, to)
const refusesStart = (_text: unknown, _part: unknown, from: unknown) => refusesPositions(from)

function charAt(text: string, index: bigint): string | EvaluationError {
  const offset = unitOffset(text, index)
  return offset < 0 ? OUTSIDE : text.slice(offset, offset + widthAt(text, offset))
}

/** Position of a UTF-16 offset, where -1 stays -1. */
function positionOf(text: string, offset: number): bigint {
  return offset < 0 ? -1n : BigInt(codePointIndex(text, offset))
}

function indexOf(text: string, part: string, from = 0n): bigint | EvaluationError {
  const start = unitOffset(text, from)
  if (start < 0) return OUTSIDE
  return part === '' ? from : positionOf(text, text.indexOf(part, start))
}

function lastIndexOf(text: string, part: string, from?: bigint): bigint | EvaluationError {
  const start = from === undefined ? text.length : unitOffset(text, from)
  return start < 0 ? OUTSIDE : positionOf(text, text.lastIndexOf(part, start))
}

function substring(text: string, from: bigint, to?: bigint): string | EvaluationError {
  if (to !== undefined && from > to) return BACKWARDS
  const start = unitOffset(text, from)
  const end = to === undefined ? text.length : unitOffset(text, to)
  return start < 0 || end < 0 ? OUTSIDE : text.slice(start, end)
}

/** Why positions that stand in the source are outside of every string. */
function refusesPositions(from: unknown, to?: unknown): string | undefined {
  if ((typeof from === 'bigint' && from < 0n) || (typeof to === 'bigint' && to < 0n)) return OUTSIDE.message
  return typeof from === 'bigint' && typeof to === 'bigint' && from > to ? BACKWARDS.message : undefined
}

/** Pieces between separators; the last of `limit` pieces holds the rest. A negative limit is none. */
function split(text: string, separator = ' ', limit = -1n): string[] {
  if (limit === 0n) return []
  const wanted = limit < 0n || limit > BigInt(MAX_LIST) ? MAX_LIST + 1 : Number(limit)
  const pieces: string[] = []
  let from = 0
  while (pieces.length < wanted - 1) {
    const next = separator === '' ? from + widthAt(text, from) : text.indexOf(separator, from)
    if (next < 0 || (separator === '' && next >= text.length)) break
    pieces.push(text.slice(from, next))
    from = next + separator.length
  }
  if (separator !== '' || text !== '') pieces.push(text.slice(from))
  checkCount(pieces.length)
  return pieces
}

/**
 * The first `limit` occurrences replaced, from the left; a negative limit is none. The empty string occurs before each
 * code point and at the end.
 */
function replace(text: string, part: string, other: string, limit = -1n): string {
  const between = part === '' ? ['', ...codePoints(text), ''] : text.split(part)
  const found = between.length - 1
  const count = limit < 0n || limit > BigInt(found) ? found : Number(limit)
  if (count === 0) return text
  checkLength(text.length + count * (other.length - part.length))
  if (count === found) return between.join(other)
  return between.slice(0, count).join(other) + other + between.slice(count).join(part)
}

/** The White_Space characters of Unicode, which are not those that `String.prototype.trim` takes. */
const BLANKS = new Set(
  Array.from('\t\n\v\f\r \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000', (blank) => blank.charCodeAt(0))
)
for (let unit = 0x2000; unit <= 0x200a; unit++) BLANKS.add(unit)

function trim(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && BLANKS.has(text.charCodeAt(start))) start++
  while (end > start && BLANKS.has(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

/** The units backwards, where each pair of surrogates then stands the wrong way round. */
function reverse(text: string): string {
  const backwards = Buffer.from(text, 'utf16le').reverse().swap16().toString('utf16le')
  return backwards.replace(/([\udc00-\udfff])([\ud800-\udbff])/g, '$2$1')
}

/** `text` with the ASCII letters from `first` to `last` moved to those from `to` on. */
function shifted(text: string, first: string, last: string, to: string): string {
  const [from, end, by] = [first.charCodeAt(0), last.charCodeAt(0), to.charCodeAt(0) - first.charCodeAt(0)]
  const units = Buffer.from(text, 'utf16le')
  for (let at = 0; at < units.length; at += 2) {
    const low = units[at] as number
    if (low >= from && low <= end && units[at + 1] === 0) units[at] = low + by
  }
  return units.toString('utf16le')
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['\x07', '\\a'],
  ['\b', '\\b'],
  ['\f', '\\f'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
  ['\v', '\\v'],
  ['\\', '\\\\'],
  ['"', '\\"']
])

/** The characters of `ESCAPES`. */
const ESCAPED = new RegExp(
  `[${[...ESCAPES.values()].join('').replaceAll('\\a', '\\x07').replaceAll('\\b', '\\x08')}]`,
  'g'
)

function quote(text: string): string {
  checkLength(text.length)
  return bounded(`"${wellFormed(text).replace(ESCAPED, (character) => ESCAPES.get(character)!)}"`)
}

/**
 * The strings extension of CEL, with positions in code points. A position outside the string is absent; everything
 * else that goes wrong fails. `split()` without a separator splits at spaces; `lower` and `upper` follow the full
 * Unicode mapping, `lowerAscii` and `upperAscii` touch ASCII letters only.
 */
export const stringFunctions: readonly FunctionDefinition[] = [
  { signature: 'string.charAt(int): string', run: charAt, refuses: refusesPosition },
  { signature: 'string.indexOf(string): int', run: indexOf },
  { signature: 'string.indexOf(string, int): int', run: indexOf, refuses: refusesStart },
  { signature: 'string.lastIndexOf(string): int', run: lastIndexOf },
  { signature: 'string.lastIndexOf(string, int): int', run: lastIndexOf, refuses: refusesStart },
  { signature: 'string.split(): list<string>', run: split, work: weighing(2) },
  { signature: 'string.split(string): list<string>', run: split, work: weighing(2) },
  { signature: 'string.split(string, int): list<string>', run: split, work: weighing(2) },
  { signature: 'string.replace(string, string): string', run: replace, work: weighing(4) },
  { signature: 'string.replace(string, string, int): string', run: replace, work: weighing(4) },
  { signature: 'string.substring(int): string', run: substring, refuses: refusesPosition },
  { signature: 'string.substring(int, int): string', run: substring, refuses: refusesPosition },
  { signature: 'string.trim(): string', run: trim },
  {
    signature: 'string.lowerAscii(): string',
    run: (text: string) => (isAscii(text) ? text.toLowerCase() : shifted(text, 'A', 'Z', 'a'))
  },
  {
    signature: 'string.upperAscii(): string',
    run: (text: string) => (isAscii(text) ? text.toUpperCase() : shifted(text, 'a', 'z', 'A'))
  },
  { signature: 'string.lower(): string', run: (text: string) => bounded(text.toLowerCase()) },
  { signature: 'string.upper(): string', run: (text: string) => bounded(text.toUpperCase()) },
  { signature: 'string.reverse(): string', run: reverse, work: weighing(4) },
  { signature: 'string.format(list): string', run: formatText, deep: true },
  { signature: 'strings.quote(string): string', run: quote, work: weighing(4) }
]

/** Every character but the unreserved ones (RFC 3986 section 2.3) as escapes of its UTF-8 bytes. */
export function percentEncode(text: string): string {
  checkLength(text.length)
  return encodeURIComponent(wellFormed(text))
    .replace(/!/g, '%21')
    .replace(/'/g, '%27')
    .replace(/\(/g, '%28')
    .replace(/\)/g, '%29')
    .replace(/\*/g, '%2A')
}

/** Escapes as characters, or undefined when a `%` begins no escape or the bytes are not UTF-8. */
export function percentDecode(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch (error) {
    if (error instanceof URIError) return undefined
    throw error
  }
}

/** Decodes like `percentDecode`, with `+` as a space, as in forms (WHATWG URL section 5.1). */
export function formDecode(text: string): string | undefined {
  // A pattern is faster here than `replaceAll`.
  return percentDecode(text.replace(/\+/g, ' '))
}
