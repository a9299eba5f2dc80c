import type { ServerHttp2Stream } from 'node:http2'
import { ByteQueue, compact } from '../../lib/byte-queue.js'

/**
 * Joins what comes on a stream while nobody reads it. node:http2 makes a Buffer of each DATA frame and puts it into the
 * Readable, whatever that says, as far as the window goes: 65,535 of them when a frame has one byte. To be called before
 * anybody has touched the stream.
 */
export function joinInput(stream: ServerHttp2Stream): void {
  const waiting = new ByteQueue()
  const push = stream.push.bind(stream) as (chunk: Buffer | null) => boolean
  const read = stream._read.bind(stream)
  let wanted = false
  let ended = false
  // Otherwise the Readable would take as many pieces as it wants bytes, whoever reads.
  const { _readableState: state } = stream as unknown as { _readableState: { highWaterMark: number } }
  state.highWaterMark = 0
  stream.push = (chunk: Buffer | null) => {
    if (chunk === null) {
      ended = true
      return waiting.length === 0 && push(null)
    }
    if (wanted && waiting.length === 0) {
      wanted = false
      return push(stream.readableFlowing === true ? chunk : compact(chunk))
    }
    waiting.push(chunk)
    return false
  }
  stream._read = (size) => {
    const piece = waiting.shift()
    if (piece === undefined) {
      wanted = true
      read(size)
      return
    }
    push(piece)
    if (ended && waiting.length === 0) push(null)
  }
}
