import { type ContentType, contentType } from '../expression/variables/message.js'
import { Slices, type Steps } from '../lib/slices.js'
import { utf8Text, view } from '../lib/utf8-text.js'

/** Charset labels read as UTF-8, of which ASCII is a subset. */
const UTF8 = new Set(['', 'utf-8', 'utf8', 'us-ascii', 'ascii'])
/** A token (RFC 9110 5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** Content of a message as text. */
export interface BodyText {
  readonly text: string
  /** Converts a text for insertion into this one, in its charset. */
  insertion(text: string): string
  bytes(text: string): Uint8Array
  /** Content-Type of the result of `bytes`, if it changed. */
  readonly contentType?: string
}

/**
 * Decodes `bytes` by the charset of their Content-Type. Text in other charsets is converted to UTF-8. Bytes that are invalid in their
 * charset are decoded one character per byte, so that unreplaced content does not change and a stray byte does not prevent a replacement.
 * Long content is decoded in slices.
 */
export async function readText(bytes: Uint8Array, header: string | undefined): Promise<BodyText> {
  return new Slices().run(textIn(bytes, header))
}

function* textIn(bytes: Uint8Array, header: string | undefined): Steps<BodyText> {
  const type = contentType(header ?? '')
  const charset = (type.parameters.get('charset') ?? '').trim().toLowerCase()
  if (UTF8.has(charset)) {
    const text = yield* utf8Text(bytes)
    return text === undefined ? plain(bytes) : utf8(text)
  }
  const text = yield* decode(bytes, charset)
  return text === undefined
    ? plain(bytes)
    : { text, insertion: same, bytes: (changed) => Buffer.from(changed, 'utf8'), contentType: asUtf8(type) }
}

function utf8(text: string): BodyText {
  return { text, insertion: same, bytes: (changed) => Buffer.from(changed, 'utf8') }
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

/** Bytes decoded at a time. */
const STRETCH = 32_768

function* decode(bytes: Uint8Array, charset: string): Steps<string | undefined> {
  try {
    const decoder = new TextDecoder(charset, { fatal: true })
    let text = ''
    for (let at = 0; at < bytes.length; at += STRETCH) {
      text += decoder.decode(bytes.subarray(at, at + STRETCH), { stream: true })
      yield
    }
    return text + decoder.decode()
  } catch {
    // Unknown charset, or bytes that are invalid in it.
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
