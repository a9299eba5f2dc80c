import { BACKSLASH, ByteText, hexByte, hexValue, isDigit, isLetter, isSpace, PERCENT } from './bytes.js'

/** Meaning of the letters a, b, f, n, r, t and v after a backslash. */
const CONTROL_ESCAPES: ReadonlyMap<number, number> = new Map([
  [0x61, 0x07],
  [0x62, 0x08],
  [0x66, 0x0c],
  [0x6e, 0x0a],
  [0x72, 0x0d],
  [0x74, 0x09],
  [0x76, 0x0b]
])

/** Entities that ModSecurity decodes; names are compared without case. */
const ENTITIES: ReadonlyMap<string, number> = new Map([
  ['quot', 0x22],
  ['amp', 0x26],
  ['lt', 0x3c],
  ['gt', 0x3e],
  ['nbsp', 0xa0]
])

/** Length of the longest name in `ENTITIES`. */
const LONGEST_ENTITY = 4

/** Greatest number of digits of a CSS escape. */
const CSS_DIGITS = 6

/** Decodes `%HH`, and `+` as a space. An invalid sequence stays as it is. */
export function decodeUrl(text: string): string {
  return decodePercent(text, false)
}

/** Decodes as `decodeUrl` and also `%uHHHH`, of which the low byte counts; full-width ASCII (U+FF01 to U+FF5E) becomes ASCII. */
export function decodeUrlUnicode(text: string): string {
  return decodePercent(text, true)
}

function decodePercent(text: string, unicode: boolean): string {
  if (!text.includes('%')) return text.includes('+') ? text.replaceAll('+', ' ') : text
  const out = new ByteText(text.length)
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x2b) out.add(0x20)
    else if (code !== PERCENT) out.add(code)
    else {
      const wide = unicode && (text.charCodeAt(i + 1) | 0x20) === 0x75 ? wideByte(text, i + 2) : -1
      const byte = wide === -1 ? hexByte(text, i + 1) : wide
      out.add(byte === -1 ? code : byte)
      if (wide !== -1) i += 5
      else if (byte !== -1) i += 2
    }
  }
  return out.toString()
}

/** Returns the byte for the four hexadecimal digits at `at`, or -1. */
function wideByte(text: string, at: number): number {
  const high = hexByte(text, at)
  const low = hexByte(text, at + 2)
  if (high === -1 || low === -1) return -1
  return narrow(high, low)
}

/** Maps full-width ASCII to ASCII; all other code points keep their low byte. */
function narrow(high: number, low: number): number {
  return high === 0xff && low > 0 && low < 0x5f ? low + 0x20 : low
}

/** Decodes numeric entities to their low byte and the entities quot, amp, lt, gt and nbsp. The semicolon is optional. */
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text
  const out = new ByteText(text.length)
  let i = 0
  while (i < text.length) {
    const code = text.charCodeAt(i)
    const entity = code === 0x26 ? entityAt(text, i + 1) : undefined
    if (entity === undefined) {
      out.add(code)
      i++
    } else {
      out.add(entity.code)
      i = text.charCodeAt(entity.end) === 0x3b ? entity.end + 1 : entity.end
    }
  }
  return out.toString()
}

function entityAt(text: string, at: number): { code: number; end: number } | undefined {
  if (text.charCodeAt(at) !== 0x23) {
    let end = at
    while (isLetter(text.charCodeAt(end)) || isDigit(text.charCodeAt(end))) {
      if (++end - at > LONGEST_ENTITY) return undefined
    }
    const code = ENTITIES.get(text.slice(at, end).toLowerCase())
    return code === undefined ? undefined : { code, end }
  }
  const hexadecimal = (text.charCodeAt(at + 1) | 0x20) === 0x78
  return numberAt(text, hexadecimal ? at + 2 : at + 1, hexadecimal ? 16 : 10)
}

/** Returns the low byte of the number at `at`. A number beyond 63 bits is 0xff, as with `strtol`. */
function numberAt(text: string, at: number, base: 10 | 16): { code: number; end: number } | undefined {
  let end = at
  let low = 0
  let size = 0
  for (;;) {
    const digit = hexValue(text.charCodeAt(end))
    if (digit === -1 || digit >= base) break
    low = (low * base + digit) & 0xff
    size = Math.min(size * base + digit, Number.MAX_VALUE)
    end++
  }
  if (end === at) return undefined
  return { code: size >= 2 ** 63 ? 0xff : low, end }
}

/** Decodes the escapes of JavaScript strings: `\uHHHH` to its low byte, `\xHH`, octal and control letters. Other backslashes are dropped. */
export function decodeJs(text: string): string {
  return decodeBackslashes(text, (next, at) => {
    if (next === 0x75) return { byte: wideByte(text, at + 1), length: 5 }
    if (next === 0x78) return { byte: hexByte(text, at + 1), length: 3 }
    return octalEscape(text, at, true)
  })
}

/** Decodes the escapes of C strings, and drops the backslash of an unknown one. */
export function decodeCEscapes(text: string): string {
  return decodeBackslashes(text, (next, at) =>
    (next | 0x20) === 0x78 ? { byte: hexByte(text, at + 1), length: 3 } : octalEscape(text, at, false)
  )
}

/** A numeric escape: its byte, -1 for none, and its length after the backslash. */
interface NumericEscape {
  readonly byte: number
  readonly length: number
}

/** Decodes backslashes. `numeric` reads the escape whose character `next` is at `at`; control letters and other characters follow if there is none. */
function decodeBackslashes(text: string, numeric: (next: number, at: number) => NumericEscape): string {
  if (!text.includes('\\')) return text
  const out = new ByteText(text.length)
  let i = 0
  while (i < text.length) {
    const code = text.charCodeAt(i)
    if (code !== BACKSLASH || i + 1 === text.length) {
      out.add(code)
      i++
      continue
    }
    const next = text.charCodeAt(i + 1)
    const { byte, length } = numeric(next, i + 1)
    if (byte === -1) out.add(CONTROL_ESCAPES.get(next) ?? next)
    else out.add(byte)
    i += byte === -1 ? 2 : 1 + length
  }
  return out.toString()
}

function octalEscape(text: string, at: number, oneByte: boolean): NumericEscape {
  const length = octalLength(text, at, oneByte)
  return { byte: length === 0 ? -1 : octalValue(text, at, length), length }
}

/** Counts octal digits at `at`, three at most; with `oneByte` only two if three would be more than a byte. */
function octalLength(text: string, at: number, oneByte: boolean): number {
  let length = 0
  while (length < 3 && (text.charCodeAt(at + length) & ~7) === 0x30) length++
  return oneByte && length === 3 && text.charCodeAt(at) > 0x33 ? 2 : length
}

function octalValue(text: string, at: number, length: number): number {
  let value = 0
  for (let i = at; i < at + length; i++) value = value * 8 + text.charCodeAt(i) - 0x30
  return value & 0xff
}

/** Decodes the escapes of CSS (CSS 2.1 section 4.1.3): one to six digits and one white space after them; a byte is the result. */
export function decodeCss(text: string): string {
  if (!text.includes('\\')) return text
  const out = new ByteText(text.length)
  let i = 0
  while (i < text.length) {
    const code = text.charCodeAt(i++)
    if (code !== BACKSLASH) {
      out.add(code)
      continue
    }
    if (i === text.length) break
    let digits = 0
    while (digits < CSS_DIGITS && hexValue(text.charCodeAt(i + digits)) !== -1) digits++
    if (digits === 0) {
      if (text.charCodeAt(i) !== 0x0a) out.add(text.charCodeAt(i))
      i++
    } else {
      const value = Number.parseInt(text.slice(i, i + digits), 16)
      out.add(value >> 8 === 0xff ? narrow(0xff, value & 0xff) : value)
      i += digits
      if (isSpace(text.charCodeAt(i))) i++
    }
  }
  return out.toString()
}

/** Returns the length of the UTF-8 sequence that a lead byte starts; 0 for a byte that starts none. */
function sequenceLength(lead: number): number {
  if (lead >= 0xc0 && lead < 0xe0) return 2
  if (lead >= 0xe0 && lead < 0xf0) return 3
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0
}

/** Replaces UTF-8 sequences of several bytes, also overlong ones, by `%uHHHH`; an invalid byte stays as it is. */
export function encodeUnicode(text: string): string {
  let first = 0
  while (first < text.length && text.charCodeAt(first) < 0x80) first++
  if (first === text.length) return text
  // Two bytes become six.
  const out = new ByteText(text.length * 3)
  let i = 0
  while (i < text.length) {
    const lead = text.charCodeAt(i)
    const length = sequenceLength(lead)
    let point = lead & (0xff >> (length + 1))
    let read = 1
    while (read < length && (text.charCodeAt(i + read) & 0xc0) === 0x80) {
      point = (point << 6) | (text.charCodeAt(i + read) & 0x3f)
      read++
    }
    if (length === 0 || read < length) {
      out.add(lead)
      i++
    } else {
      out.addText(`%u${point.toString(16).padStart(4, '0')}`)
      i += length
    }
  }
  return out.toString()
}

/** Value of each character of base64; -1 for others. */
const BASE64 = new Int8Array(256).fill(-1)
for (const [value, character] of [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].entries())
  BASE64[character.charCodeAt(0)] = value

/** Decodes base64 up to the first other character. */
export function decodeBase64(text: string): string {
  return readBase64(text, false)
}

/** Decodes base64 and skips other characters. */
export function decodeBase64Lenient(text: string): string {
  return readBase64(text, true)
}

function readBase64(text: string, lenient: boolean): string {
  const out = new ByteText(text.length)
  let bits = 0
  let held = 0
  for (let i = 0; i < text.length; i++) {
    const value = BASE64[text.charCodeAt(i)] ?? -1
    if (value === -1) {
      // White space and line breaks belong to the format (RFC 2045 6.8).
      if (lenient || isSpace(text.charCodeAt(i))) continue
      break
    }
    held = ((held << 6) | value) & 0xffff
    bits += 6
    if (bits >= 8) {
      bits -= 8
      out.add(held >> bits)
    }
  }
  return out.toString()
}

/** Decodes pairs of hexadecimal digits up to the first other pair. */
export function decodeHex(text: string): string {
  const out = new ByteText(text.length >> 1)
  for (let i = 0; i + 1 < text.length; i += 2) {
    const byte = hexByte(text, i)
    if (byte === -1) break
    out.add(byte)
  }
  return out.toString()
}

/** Decodes SQL hexadecimal literals: `0x` and pairs of digits. Other text stays as it is. */
export function decodeSqlHex(text: string): string {
  const out = new ByteText(text.length)
  let i = 0
  while (i < text.length) {
    const literal = text.charCodeAt(i) === 0x30 && (text.charCodeAt(i + 1) | 0x20) === 0x78
    if (!literal || hexByte(text, i + 2) === -1) {
      out.add(text.charCodeAt(i++))
      continue
    }
    i += 2
    for (let byte = hexByte(text, i); byte !== -1; byte = hexByte(text, i)) {
      out.add(byte)
      i += 2
    }
  }
  return out.toString()
}
