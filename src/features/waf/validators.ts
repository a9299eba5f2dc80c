import { hexByte } from './bytes.js'

/**
 * Compiles the argument of `@validateByteRange`, such as `10, 13, 32-126`, to a function that returns the first byte outside of the
 * ranges, or undefined if there is none. Throws a `RangeError` for an argument that is no list of numbers from 0 to 255.
 */
export function compileByteRange(argument: string): (text: string) => number | undefined {
  const allowed = new Uint8Array(256)
  for (const item of argument.split(',')) {
    const [first = '', last = first, ...more] = item.split('-').map((part) => part.trim())
    const from = byteNumber(first)
    const to = byteNumber(last)
    if (from === undefined || to === undefined || from > to || more.length > 0) {
      throw new RangeError(`"${item.trim()}" is no byte and no range of bytes`)
    }
    allowed.fill(1, from, to + 1)
  }
  return (text) => {
    for (let i = 0; i < text.length; i++) {
      const byte = text.charCodeAt(i)
      if (allowed[byte] !== 1) return byte
    }
    return undefined
  }
}

function byteNumber(text: string): number | undefined {
  const number = Number(text)
  return text !== '' && Number.isInteger(number) && number >= 0 && number <= 255 ? number : undefined
}

/** Returns the offset of the first byte that is not valid UTF-8 (RFC 3629: no overlong forms, no surrogates), or undefined. */
export function validateUtf8Encoding(text: string): number | undefined {
  let i = 0
  while (i < text.length) {
    const lead = text.charCodeAt(i)
    if (lead < 0x80) {
      i++
      continue
    }
    const length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0
    if (length === 0) return i
    const second = text.charCodeAt(i + 1)
    const least = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80
    const most = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf
    if (!(second >= least && second <= most)) return i
    for (let read = 2; read < length; read++) {
      if ((text.charCodeAt(i + read) & 0xc0) !== 0x80) return i
    }
    i += length
  }
  return undefined
}

/** Returns the offset of the first `%` that two hexadecimal digits do not follow, or undefined. */
export function validateUrlEncoding(text: string): number | undefined {
  for (let at = text.indexOf('%'); at !== -1; at = text.indexOf('%', at + 1)) {
    if (hexByte(text, at + 1) === -1) return at
  }
  return undefined
}
