import { checkLength } from './bounds.js'
import { wellFormed } from './code-points.js'

/** Every character but the unreserved ones (RFC 3986 section 2.3) as escapes of its UTF-8 bytes. */
export function percentEncode(text: string): string {
  checkLength(text.length)
  return encodeURIComponent(wellFormed(text)).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  )
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

/** As `percentDecode`, where `+` is a space, as in a form (WHATWG URL section 5.1). */
export function formDecode(text: string): string | undefined {
  return percentDecode(text.replaceAll('+', ' '))
}
