import type { Steps } from './slices.js'
import { view } from './utf8-text.js'

const AMPERSAND = 0x26
/** Bytes that are read at a stretch, unless one field is longer. */
const STRETCH = 8_192

/**
 * Names and values of a form (application/x-www-form-urlencoded, WHATWG URL 5.1) in their order; undefined when it has more than
 * `most` fields.
 */
export function* formFields(
  bytes: Uint8Array,
  most = Number.POSITIVE_INFINITY
): Steps<(readonly [name: string, value: string])[] | undefined> {
  const fields: (readonly [string, string])[] = []
  for (let at = 0; at < bytes.length; ) {
    const border = bytes.indexOf(AMPERSAND, at + STRETCH)
    const end = border === -1 ? bytes.length : border
    const part = view(bytes, at, end).toString('utf8')
    // A question mark is left out before the first field only.
    for (const field of new URLSearchParams(at === 0 ? part : `&${part}`)) fields.push(field)
    if (fields.length > most) return undefined
    at = end + 1
    yield
  }
  return fields
}
