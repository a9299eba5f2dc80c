import { isUtf8 } from 'node:buffer'
import { type ContentType, contentType } from '../expression/variables/message.js'

/** Labels of text that is written as UTF-8; ASCII is a part of it. */
const UTF8 = new Set(['', 'utf-8', 'utf8', 'us-ascii', 'ascii'])
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** The content of a message as text. */
export interface BodyText {
  readonly text: string
  /** A text that is put into this one, in its alphabet. */
  insertion(text: string): string
  bytes(text: string): Uint8Array
  /** Content-Type of what `bytes` gives, where it is another than before. */
  readonly contentType?: string
}

/**
 * Reads `bytes` by the charset of their Content-Type. Text in another charset than UTF-8 becomes UTF-8. Bytes that are
 * not what they are called are taken one character for one byte, so that nothing that is not replaced changes, and a
 * stray byte does not keep a replacement from being made.
 */
export function readText(bytes: Uint8Array, header: string | undefined): BodyText {
  const type = contentType(header ?? '')
  const charset = (type.parameters.get('charset') ?? '').trim().toLowerCase()
  if (UTF8.has(charset)) return isUtf8(bytes) ? utf8(bytes) : plain(bytes)
  const text = decode(bytes, charset)
  return text === undefined
    ? plain(bytes)
    : { text, insertion: same, bytes: (changed) => Buffer.from(changed, 'utf8'), contentType: asUtf8(type) }
}

function utf8(bytes: Uint8Array): BodyText {
  return { text: view(bytes).toString('utf8'), insertion: same, bytes: (text) => Buffer.from(text, 'utf8') }
}

function plain(bytes: Uint8Array): BodyText {
  return {
    text: view(bytes).toString('latin1'),
    insertion: (text) => Buffer.from(text, 'utf8').toString('latin1'),
    bytes: (text) => Buffer.from(text, 'latin1')
  }
}

function same(text: string): string {
  return text
}

function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function decode(bytes: Uint8Array, charset: string): string | undefined {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes)
  } catch {
    // No charset of this name, or bytes that it does not have.
    return undefined
  }
}

function asUtf8({ mediaType, parameters }: ContentType): string {
  const rest = [...parameters].map(([name, value]) => {
    if (name === 'charset') return '; charset=utf-8'
    return `; ${name}=${TOKEN.test(value) ? value : `"${value.replace(/["\\]/g, '\\$&')}"`}`
  })
  return mediaType + rest.join('')
}
