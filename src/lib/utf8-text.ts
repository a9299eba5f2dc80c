import { isUtf8 } from 'node:buffer'
import type { Steps } from './slices.js'

/** Bytes that are read at a stretch: well below a millisecond, whatever they are. */
const STRETCH = 16_384

/** The text of UTF-8 bytes, undefined where they are none. A byte order mark stays. */
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

/** Are all bytes UTF-8? */
export function* isUtf8Throughout(bytes: Uint8Array): Steps<boolean> {
  for (let at = 0; at < bytes.length; ) {
    const end = wholeCharacters(bytes, at + STRETCH * 4)
    if (!isUtf8(view(bytes, at, end))) return false
    at = end
    yield
  }
  return true
}

/** Where a stretch that would end at `end` may end without cutting a character. */
function wholeCharacters(bytes: Uint8Array, end: number): number {
  if (end >= bytes.length) return bytes.length
  let at = end
  // A character has three such bytes at most; more are no UTF-8, which the stretch then shows.
  while (at > end - 3 && ((bytes[at] as number) & 0xc0) === 0x80) at--
  return at
}

/** Bytes of another buffer without a copy. */
export function view(bytes: Uint8Array, start = 0, end = bytes.length): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start)
}

/** Has the text characters of ASCII alone? */
export function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length
}
