/** Code of the backslash. */
export const BACKSLASH = 0x5c
/** Code of the double quote. */
export const QUOTE = 0x22
/** Code of the single quote. */
export const APOSTROPHE = 0x27
/** Code of the percent sign. */
export const PERCENT = 0x25
/** Code of the slash. */
export const SLASH = 0x2f
/** Code of the asterisk. */
export const ASTERISK = 0x2a
/** Code of the hyphen. */
export const HYPHEN = 0x2d
/** Code of `<`. */
export const LESS = 0x3c
/** Code of `>`. */
export const GREATER = 0x3e
/** Code of the no-break space in Latin-1. */
export const NO_BREAK_SPACE = 0xa0

/** Returns true for the white space of C's `isspace`: space, tab, line feed, vertical tab, form feed, carriage return. */
export function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d)
}

/** Returns true for ASCII digits. */
export function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** Returns true for ASCII letters. */
export function isLetter(code: number): boolean {
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x7a
}

/** Returns the value of a hexadecimal digit, or -1. `NaN`, the code beyond the end of a text, yields -1. */
export function hexValue(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}

/** Returns the byte that the two hexadecimal digits at `at` spell, or -1 if they are no digits. */
export function hexByte(text: string, at: number): number {
  const high = hexValue(text.charCodeAt(at))
  const low = hexValue(text.charCodeAt(at + 1))
  return high === -1 || low === -1 ? -1 : high * 16 + low
}

/** Returns the lower-case form of an ASCII letter and any other code unchanged. */
export function lowerCode(code: number): number {
  return code >= 0x41 && code <= 0x5a ? code + 0x20 : code
}

/** Size of the memory that texts use by turns. */
const SHARED_BYTES = 16_384
/** Memory that no text uses at present. */
let spare: Buffer | undefined

/** Collects bytes up to a fixed maximum, and returns them once as Latin-1 text. */
export class ByteText {
  readonly #bytes: Buffer
  #length = 0

  /** `size`: maximum number of bytes. */
  constructor(size: number) {
    if (size > SHARED_BYTES) this.#bytes = Buffer.allocUnsafe(size)
    else {
      this.#bytes = spare ?? Buffer.allocUnsafeSlow(SHARED_BYTES)
      spare = undefined
    }
  }

  /** Number of bytes so far. */
  get length(): number {
    return this.#length
  }

  /** Adds the low eight bits of `code`. */
  add(code: number): void {
    this.#bytes[this.#length++] = code
  }

  /** Adds a short ASCII text. */
  addText(text: string): void {
    for (let i = 0; i < text.length; i++) this.add(text.charCodeAt(i))
  }

  /** Removes the last byte. */
  dropLast(): void {
    this.#length--
  }

  toString(): string {
    const text = this.#bytes.toString('latin1', 0, this.#length)
    if (this.#bytes.length === SHARED_BYTES) spare = this.#bytes
    return text
  }
}

/** Lower-cases ASCII letters alone; `String.toLowerCase` also changes Latin-1 letters, which can be parts of UTF-8. */
export function lowerText(text: string): string {
  let upper = false
  let ascii = true
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0x80) ascii = false
    else if (code >= 0x41 && code <= 0x5a) upper = true
  }
  if (!upper) return text
  if (ascii) return text.toLowerCase()
  const out = new ByteText(text.length)
  for (let i = 0; i < text.length; i++) out.add(lowerCode(text.charCodeAt(i)))
  return out.toString()
}
