import type { Steps } from './slices.js'
import { isAscii, isUtf8Throughout, utf8Text, view } from './utf8-text.js'

const QUOTE = 0x22
const COMMA = 0x2c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const OPENING_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSING_BRACKET = 0x5d
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d
const SPACE = 0x20
const BLANKS = new Set([SPACE, 0x09, 0x0a, 0x0d])
/** Characters that may follow a backslash. */
const ESCAPES = new Set(Buffer.from('"\\/bfnrt'))
/** The letter of a `\u` escape. */
const ESCAPED_UNIT = 0x75
/** Hexadecimal digits. */
const HEX = new Set(Buffer.from('0123456789abcdefABCDEF'))
/** Letters of an exponent. */
const EXPONENT = new Set(Buffer.from('eE'))
/** Signs of an exponent. */
const SIGNS = new Set(Buffer.from('+-'))
/** Literal names of JSON. */
const WORDS = ['true', 'false', 'null'].map((word) => Buffer.from(word))
/** Single-character escapes with their characters. */
const ESCAPED: Readonly<Record<number, number>> = {
  34: 0x22,
  92: 0x5c,
  47: 0x2f,
  98: 8,
  102: 12,
  110: 10,
  114: 13,
  116: 9
}
/** Bit that converts an ASCII letter to lower case. */
const SMALL_LETTER = 0x20
/** ASCII code of k. */
const LETTER_K = 0x6b
/** KELVIN SIGN, whose lower case is k: the only non-ASCII character that becomes ASCII. */
const KELVIN = 0x212a
/** KELVIN SIGN in UTF-8. */
const KELVIN_BYTES = [0xe2, 0x84, 0xaa]

/** Tokens read at a time. */
const TOKENS = 256
/** Bytes of a string read at a time. */
const STRETCH = 65_536

/** A value within valid JSON text. */
export class JsonValue {
  readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }

  /** Returns a string, number, `true`, `false` or `null`; undefined for a list or an object. */
  *scalar(): Steps<unknown> {
    const [first] = this.bytes
    if (first === OPENING_BRACKET || first === OPENING_BRACE) return undefined
    return JSON.parse((yield* utf8Text(this.bytes)) as string)
  }

  get isEmptyList(): boolean {
    return this.bytes[0] === OPENING_BRACKET && this.bytes[afterBlanks(this.bytes, 1)] === CLOSING_BRACKET
  }
}

/** Strictness of reading objects. */
export interface JsonMembersOptions {
  /**
   * Selects members of the outermost object by name.
   * @default all
   */
  readonly wanted?: (name: string) => boolean
  /** Names in lower case: only members with these names, case-insensitively, are read, so that a body with many names is cheap. */
  readonly called?: readonly string[]
  /**
   * Maximum nesting.
   * @default unlimited
   */
  readonly depth?: number
}

/** Expected next token. */
type Next = 'value' | 'value or end' | 'name' | 'name or end' | 'comma or end'

/**
 * Reads the members of the object in JSON text (RFC 8259) of any length, in order. Returns undefined for another value, invalid UTF-8,
 * excessive nesting, or a duplicate among the selected members, because readers disagree about which one counts (RFC 8259 4). Only selected
 * values are decoded.
 */
export function* jsonMembers(
  bytes: Uint8Array,
  { wanted = () => true, called, depth = Number.POSITIVE_INFINITY }: JsonMembersOptions = {}
): Steps<(readonly [name: string, value: JsonValue])[] | undefined> {
  if (!(yield* isUtf8Throughout(bytes))) return undefined
  const buffer = view(bytes, 0, bytes.length)
  const members: (readonly [string, JsonValue])[] = []
  const names = new Set<string>()
  const isPlain = called?.every(isAscii)
  /** Open objects and lists, outermost first; true for objects. */
  const open: boolean[] = []
  let found: { readonly name: string; readonly start: number } | undefined
  let next: Next = 'value'
  let at = 0
  for (let tokens = 1; ; tokens++) {
    if (tokens % TOKENS === 0) yield
    if ((bytes[at] as number) <= SPACE) at = afterBlanks(bytes, at)
    const byte = bytes[at]
    if (next === 'value' || next === 'value or end') {
      if (open.length === 0 && byte !== OPENING_BRACE) return undefined
      if (byte === OPENING_BRACE || byte === OPENING_BRACKET) {
        open.push(byte === OPENING_BRACE)
        if (open.length > depth) return undefined
        next = byte === OPENING_BRACE ? 'name or end' : 'value or end'
        at++
        continue
      }
      if (byte === CLOSING_BRACKET && next === 'value or end') {
        open.pop()
        at++
      } else {
        let end = byte === QUOTE ? afterString(bytes, at + 1) : afterWord(bytes, at)
        for (; end < 0; end = afterString(bytes, -end)) yield
        if (end === 0) return undefined
        at = end
      }
    } else if (next === 'comma or end') {
      const inObject = open[open.length - 1] === true
      if (byte === COMMA) {
        next = inObject ? 'name' : 'value'
        at++
        continue
      }
      if (byte !== (inObject ? CLOSING_BRACE : CLOSING_BRACKET)) return undefined
      open.pop()
      at++
    } else if (byte === QUOTE) {
      const start = at
      let end = afterString(bytes, start + 1)
      for (; end < 0; end = afterString(bytes, -end)) yield
      if (end === 0) return undefined
      at = afterBlanks(bytes, end)
      if (bytes[at] !== COLON) return undefined
      at++
      if (open.length === 1 && (isPlain !== true || called?.some((name) => couldBe(bytes, start + 1, end - 1, name)))) {
        const name = textOf(buffer, start, end)
        const isCalledSo = called?.includes(name.toLowerCase())
        if (isCalledSo !== false) {
          if (names.has(name)) return undefined
          names.add(name)
        }
        if (isCalledSo ?? wanted(name)) found = { name, start: afterBlanks(bytes, at) }
      }
      next = 'value'
      continue
    } else if (byte === CLOSING_BRACE && next === 'name or end') {
      open.pop()
      at++
    } else return undefined
    // End of a value.
    if (open.length === 1 && found !== undefined) {
      members.push([found.name, new JsonValue(bytes.subarray(found.start, at))])
      found = undefined
    }
    if (open.length === 0) return afterBlanks(bytes, at) === bytes.length ? members : undefined
    next = 'comma or end'
  }
}

function afterBlanks(bytes: Uint8Array, start: number): number {
  let at = start
  while (at < bytes.length && (bytes[at] as number) <= SPACE && BLANKS.has(bytes[at] as number)) at++
  return at
}

/** Decodes a string with its quotes. */
function textOf(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start + 1, end - 1)
  return text.includes('\\') ? JSON.parse(`"${text}"`) : text
}

/** Returns whether the string in this range could be the ASCII text `name` (lower case), without decoding it. */
function couldBe(bytes: Uint8Array, start: number, end: number, name: string): boolean {
  let at = start
  for (let i = 0; i < name.length; i++) {
    const wanted = name.charCodeAt(i)
    if (at >= end) return false
    let unit = bytes[at++] as number
    if (unit === BACKSLASH) {
      const kind = bytes[at++] as number
      if (kind === ESCAPED_UNIT) {
        unit = 0
        for (const digits = at + 4; at < digits; at++) unit = unit * 16 + digitOf(bytes[at] as number)
      } else unit = ESCAPED[kind] as number
    } else if (unit === KELVIN_BYTES[0] && bytes[at] === KELVIN_BYTES[1] && bytes[at + 1] === KELVIN_BYTES[2]) {
      unit = KELVIN
      at += 2
    }
    if (unit === KELVIN) unit = LETTER_K
    if ((unit | SMALL_LETTER) !== (wanted | SMALL_LETTER)) return false
  }
  return at === end
}

function digitOf(byte: number): number {
  return byte <= NINE ? byte - ZERO : (byte & 7) + 9
}

/** Returns the position after the string around `from`; 0 if invalid; negative if the string continues after the slice, to resume from there. */
function afterString(bytes: Uint8Array, from: number): number {
  const rest = from + STRETCH
  for (let at = from; at < bytes.length; ) {
    if (at >= rest) return -at
    const byte = bytes[at] as number
    if (byte === QUOTE) return at + 1
    if (byte < SPACE) return 0
    if (byte === BACKSLASH) {
      const length = lengthOfEscape(bytes, at)
      if (length === undefined) return 0
      at += length
    } else at++
  }
  return 0
}

function lengthOfEscape(bytes: Uint8Array, at: number): number | undefined {
  const kind = bytes[at + 1] ?? 0
  if (ESCAPES.has(kind)) return 2
  if (kind !== ESCAPED_UNIT) return undefined
  for (let digit = at + 2; digit < at + 6; digit++) if (!HEX.has(bytes[digit] ?? 0)) return undefined
  return 6
}

/** Returns the position after the number, `true`, `false` or `null` at `at`; 0 if there is none. */
function afterWord(bytes: Uint8Array, at: number): number {
  const first = bytes[at] ?? 0
  if (first <= NINE) return afterNumber(bytes, first === MINUS ? at + 1 : at)
  for (const word of WORDS) {
    if (first === word[0]) return word.every((byte, i) => bytes[at + i] === byte) ? at + word.length : 0
  }
  return 0
}

function afterNumber(bytes: Uint8Array, start: number): number {
  let at = bytes[start] === ZERO ? start + 1 : afterDigits(bytes, start)
  if (at === start) return 0
  if (bytes[at] === POINT) {
    const end = afterDigits(bytes, at + 1)
    if (end === at + 1) return 0
    at = end
  }
  const mark = bytes[at] ?? 0
  if (mark > NINE && EXPONENT.has(mark)) {
    const digits = SIGNS.has(bytes[at + 1] ?? 0) ? at + 2 : at + 1
    const end = afterDigits(bytes, digits)
    if (end === digits) return 0
    at = end
  }
  return at
}

function afterDigits(bytes: Uint8Array, start: number): number {
  let at = start
  while (at < bytes.length && (bytes[at] as number) >= ZERO && (bytes[at] as number) <= NINE) at++
  return at
}
