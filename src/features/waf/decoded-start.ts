import { decoders } from '../../flow/content-coding.js'

/**
 * Decodes the start of a body without its end to at most `limit` bytes; undefined for an unknown coding or invalid content. A few compressed
 * bytes can expand to megabytes, so that decoding stops at the limit.
 */
export async function decodeStart(
  bytes: Uint8Array,
  codings: readonly string[],
  limit: number
): Promise<Uint8Array | undefined> {
  if (decoders(codings) === undefined) return undefined
  let content: Uint8Array | undefined = bytes
  for (const coding of [...codings].reverse()) {
    if (content === undefined || content.length === 0) return content
    content = await decodeOne(content, coding, limit)
  }
  return content
}

function decodeOne(bytes: Uint8Array, coding: string, limit: number): Promise<Uint8Array | undefined> {
  const [make] = decoders([coding]) ?? []
  const stream = make?.()
  if (stream === undefined) return Promise.resolve(undefined)
  return new Promise((resolve) => {
    const pieces: Buffer[] = []
    let size = 0
    const finish = (valid: boolean): void => {
      resolve(valid ? Buffer.concat(pieces).subarray(0, limit) : undefined)
      stream.destroy()
    }
    stream.on('error', () => finish(size > 0))
    stream.on('data', (piece: Buffer) => {
      pieces.push(piece)
      size += piece.length
      if (size >= limit) finish(true)
    })
    // Called when all that these bytes hold is decoded; the stream is not ended, because its content may go on.
    stream.write(bytes, () => setImmediate(() => finish(true)))
  })
}
