import type { Steps } from './slices.js'
import { isUtf8Throughout, utf8Text, view } from './utf8-text.js'

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
/** Behind a backslash. */
const ESCAPES = new Set(Buffer.from('"\\/bfnrt'))
const ESCAPED_UNIT = 0x75
const HEX = new Set(Buffer.from('0123456789abcdefABCDEF'))
const EXPONENT = new Set(Buffer.from('eE'))
const SIGNS = new Set(Buffer.from('+-'))
const WORDS = ['true', 'false', 'null'].map((word) => Buffer.from(word))

/** Tokens that are read at a stretch, and bytes of a string. */
const TOKENS = 256
const STRETCH = 65_536

/** A value as it stands in JSON text that was found right. */
export class JsonValue {
  readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }

  /** A string, number, `true`, `false` or `null`; undefined for a list or an object. */
  *scalar(): Steps<unknown> {
    const [first] = this.bytes
    if (first === OPENING_BRACKET || first === OPENING_BRACE) return undefined
    return JSON.parse((yield* utf8Text(this.bytes)) as string)
  }

  get isEmptyList(): boolean {
    return this.bytes[0] === OPENING_BRACKET && this.bytes[afterBlanks(this.bytes, 1)] === CLOSING_BRACKET
  }
}

/** How strictly objects are read. */
export interface JsonMembersOptions {
  /** In which objects a name may stand only once: which of two counts is left to every reader (RFC 8259 4). */
  readonly distinct: 'outermost' | 'everywhere'
  /** Deepest nesting; absent: any. */
  readonly depth?: number
  /** The members that are given, by their names; absent: all. */
  readonly wanted?: (name: string) => boolean
}

/** Where reading stands: what may come next. */
type Next = 'value' | 'value or end' | 'name' | 'name or end' | 'comma or end'

/**
 * The members of the object that JSON text (RFC 8259) of any length holds, in their order. Undefined when it holds none, is no UTF-8, is
 * nested too deep or names a member twice where it may not. Nothing but what is wanted is made into values.
 */
export function* jsonMembers(
  bytes: Uint8Array,
  { distinct, depth = Number.POSITIVE_INFINITY, wanted = () => true }: JsonMembersOptions
): Steps<(readonly [name: string, value: JsonValue])[] | undefined> {
  if (!(yield* isUtf8Throughout(bytes))) return undefined
  const buffer = view(bytes, 0, bytes.length)
  const members: (readonly [string, JsonValue])[] = []
  /** What is open, from the outermost on: the names of an object, undefined for a list. */
  const open: (Set<string> | undefined)[] = []
  let found: { readonly name: string; readonly start: number } | undefined
  let next: Next = 'value'
  let at = 0
  for (let tokens = 1; ; tokens++) {
    if (tokens % TOKENS === 0) yield
    at = afterBlanks(bytes, at)
    const byte = bytes[at]
    if (next === 'value' || next === 'value or end') {
      if (open.length === 0 && byte !== OPENING_BRACE) return undefined
      if (byte === OPENING_BRACE || byte === OPENING_BRACKET) {
        open.push(byte === OPENING_BRACE ? new Set() : undefined)
        if (open.length > depth) return undefined
        next = byte === OPENING_BRACE ? 'name or end' : 'value or end'
        at++
        continue
      }
      if (byte === CLOSING_BRACKET && next === 'value or end') {
        open.pop()
        at++
      } else {
        const end = byte === QUOTE ? yield* afterString(bytes, at) : afterWord(bytes, at)
        if (end === undefined) return undefined
        at = end
      }
    } else if (next === 'comma or end') {
      const inObject = open.at(-1) !== undefined
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
      const end: number | undefined = yield* afterString(bytes, start)
      if (end === undefined) return undefined
      at = afterBlanks(bytes, end)
      if (bytes[at] !== COLON) return undefined
      at++
      if (distinct === 'everywhere' || open.length === 1) {
        const name = textOf(buffer, start, end)
        const names = open.at(-1)
        if (names?.has(name)) return undefined
        names?.add(name)
        if (open.length === 1 && wanted(name)) found = { name, start: afterBlanks(bytes, at) }
      }
      next = 'value'
      continue
    } else if (byte === CLOSING_BRACE && next === 'name or end') {
      open.pop()
      at++
    } else return undefined
    // A value has come to its end.
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

/** The text of a string with its quotes. */
function textOf(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start + 1, end - 1)
  return text.includes('\\') ? JSON.parse(`"${text}"`) : text
}

/** The place behind the string that begins at `start`, undefined when it is none. */
function* afterString(bytes: Uint8Array, start: number): Steps<number | undefined> {
  let at = start + 1
  for (let rest = at + STRETCH; at < bytes.length; ) {
    const byte = bytes[at] as number
    if (byte === QUOTE) return at + 1
    if (byte < SPACE) return undefined
    if (byte === BACKSLASH) {
      const length = lengthOfEscape(bytes, at)
      if (length === undefined) return undefined
      at += length
    } else at++
    if (at >= rest) {
      rest = at + STRETCH
      yield
    }
  }
  return undefined
}

function lengthOfEscape(bytes: Uint8Array, at: number): number | undefined {
  const kind = bytes[at + 1] ?? 0
  if (ESCAPES.has(kind)) return 2
  if (kind !== ESCAPED_UNIT) return undefined
  for (let digit = at + 2; digit < at + 6; digit++) if (!HEX.has(bytes[digit] ?? 0)) return undefined
  return 6
}

/** The place behind the number, `true`, `false` or `null` that begins at `at`, undefined when there is none. */
function afterWord(bytes: Uint8Array, at: number): number | undefined {
  for (const word of WORDS) {
    if (bytes[at] === word[0]) {
      return word.every((byte, i) => bytes[at + i] === byte) ? at + word.length : undefined
    }
  }
  return afterNumber(bytes, bytes[at] === MINUS ? at + 1 : at)
}

function afterNumber(bytes: Uint8Array, start: number): number | undefined {
  let at = bytes[start] === ZERO ? start + 1 : afterDigits(bytes, start)
  if (at === start) return undefined
  if (bytes[at] === POINT) {
    const end = afterDigits(bytes, at + 1)
    if (end === at + 1) return undefined
    at = end
  }
  if (EXPONENT.has(bytes[at] ?? 0)) {
    const digits = SIGNS.has(bytes[at + 1] ?? 0) ? at + 2 : at + 1
    const end = afterDigits(bytes, digits)
    if (end === digits) return undefined
    at = end
  }
  return at
}

function afterDigits(bytes: Uint8Array, start: number): number {
  let at = start
  while (at < bytes.length && (bytes[at] as number) >= ZERO && (bytes[at] as number) <= NINE) at++
  return at
}
