import { isUtf8 } from 'node:buffer'
import type { Steps } from './slices.js'

/** Bytes decoded at a time: well below a millisecond. */
const STRETCH = 16_384

/** Decodes UTF-8 bytes; returns undefined for invalid ones. A byte order mark is kept. */
export function* utf8Text(bytes: Uint8Array): Steps<string | undefined> {
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const end = wholeCharacters(bytes, at + STRETCH)
    const part = view(bytes, at, end)
    if (!isUtf8(part)) return undefined
    text += part.toString('utf8')
    at = end
    yield
  }
  return text
}

/** Returns whether all bytes are valid UTF-8. */
export function* isUtf8Throughout(bytes: Uint8Array): Steps<boolean> {
  for (let at = 0; at < bytes.length; ) {
    const end = wholeCharacters(bytes, at + STRETCH * 4)
    if (!isUtf8(view(bytes, at, end))) return false
    at = end
    yield
  }
  return true
}

/** Returns the last position up to `end` that does not split a character. */
function wholeCharacters(bytes: Uint8Array, end: number): number {
  if (end >= bytes.length) return bytes.length
  let at = end
  // A character has at most three such bytes; more are invalid UTF-8, which decoding detects.
  while (at > end - 3 && ((bytes[at] as number) & 0xc0) === 0x80) at--
  return at
}

/** Returns a buffer over the bytes without a copy. */
export function view(bytes: Uint8Array, start = 0, end = bytes.length): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start)
}

/** Returns whether the text is ASCII. */
export function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length
}
