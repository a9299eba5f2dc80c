/** What stands around and between texts, in ASCII; `between` is one character. */
export interface Frame {
  readonly before: string
  readonly between: string
  readonly after: string
}

/** A line for each. */
export const LINES: Frame = { before: '', between: '\n', after: '\n' }
/** A JSON list. */
export const LIST: Frame = { before: '[', between: ',', after: ']' }

/**
 * The texts in UTF-8 within a frame. Each is written where it belongs: one long text of all of them, made only to be encoded,
 * takes twice as long, and requests wait meanwhile.
 */
export function joined(texts: readonly string[], { before, between, after }: Frame): Buffer {
  let length = before.length + after.length + Math.max(0, texts.length - 1)
  for (const text of texts) length += Buffer.byteLength(text)
  const bytes = Buffer.allocUnsafe(length)
  const mark = between.charCodeAt(0)
  let at = bytes.write(before, 0)
  for (const [place, text] of texts.entries()) {
    if (place > 0) bytes[at++] = mark
    at += bytes.write(text, at)
  }
  bytes.write(after, at)
  return bytes
}
