import { type ContentType, contentType } from '../expression/variables/message.js'
import { Slices, type Steps } from '../lib/slices.js'
import { utf8Text, view } from '../lib/utf8-text.js'

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
 * stray byte does not keep a replacement from being made. Long content is read in slices.
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

/** Bytes of a charset that are read at a stretch. */
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
