import { isUtf8 } from 'node:buffer'
import type { FunctionDefinition } from '../function-definition.js'
import { checkLength, failed } from './bounds.js'

/** The standard alphabet (RFC 4648 section 4); padding may be left out, but what there is must be right. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

function decode(text: string): Buffer {
  const padded = text.endsWith('=')
  const wrong = padded ? text.length % 4 !== 0 : text.length % 4 === 1
  if (wrong || !BASE64.test(text)) throw failed('the text is not base64')
  return Buffer.from(text, 'base64')
}

function decodeText(text: string): string {
  const bytes = decode(text)
  if (!isUtf8(bytes)) throw failed('the decoded bytes are not UTF-8 text')
  return bytes.toString('utf8')
}

/** Base64 of the UTF-8 form of `text`. */
export function encodeText(text: string): string {
  checkLength(Math.ceil(text.length / 3) * 4)
  const encoded = Buffer.from(text).toString('base64')
  checkLength(encoded.length)
  return encoded
}

function encodeBytes(bytes: Uint8Array): string {
  checkLength(Math.ceil(bytes.length / 3) * 4)
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

/**
 * Base64 with the standard alphabet. `base64.*` works on bytes; `b64.*` and the receiver forms on strings, in UTF-8.
 * Decoding fails on another alphabet, on wrong padding, and (to a string) on bytes that are not UTF-8.
 */
export const base64Functions: readonly FunctionDefinition[] = [
  { signature: 'base64.decode(string): bytes', run: decode },
  { signature: 'base64.encode(bytes): string', run: encodeBytes },
  { signature: 'b64.decode(string): string', run: decodeText },
  { signature: 'b64.encode(string): string', run: encodeText },
  { signature: 'string.decodeBase64(): string', run: decodeText },
  { signature: 'string.encodeBase64(): string', run: encodeText }
]
