import { ByteQueue } from '../../lib/byte-queue.js'
import type { MuxStream } from '../protocol/stream.js'

/** What a stream is for: the big-endian number in its first four bytes. */
export const StreamType = {
  auth: 0,
  bind: 1,
  unbind: 2,
  proxy: 3,
  restart: 4,
  stop: 5,
  update: 6,
  startLabelled: 7,
  serverInfo: 8,
  stopTunnel: 9,
  patchTunnel: 10,
  heartbeat: 0xffff_ffff
} as const

const TYPE_BYTES = 4

/** The first bytes of a stream: its type and what follows, for one frame. */
export function typed(type: number, body: Uint8Array = new Uint8Array(0)): Buffer {
  const first = Buffer.allocUnsafe(TYPE_BYTES + body.length)
  first.writeUInt32BE(type, 0)
  first.set(body, TYPE_BYTES)
  return first
}

/** Calls `found` once the type is there; what follows it is the next that is read. A stream that ends before is given up. */
export function readType(stream: MuxStream, found: (type: number) => void): void {
  readBytes(stream, TYPE_BYTES, (bytes) => found(bytes.readUInt32BE(0)))
}

/** Calls `found` with the next `count` bytes, more than 0; a stream that ends before is given up. */
export function readBytes(stream: MuxStream, count: number, found: (bytes: Buffer) => void): void {
  const bytes = new ByteQueue()
  const read = (): void => {
    while (bytes.length < count) {
      const chunk = stream.read() as Buffer | null
      if (chunk === null) return
      const wanted = count - bytes.length
      bytes.push(chunk.subarray(0, wanted))
      if (chunk.length > wanted) stream.unshift(chunk.subarray(wanted))
    }
    stream.removeListener('readable', read)
    stream.removeListener('end', giveUp)
    found(bytes.takeAll())
  }
  const giveUp = (): void => {
    stream.destroy()
  }
  stream.on('readable', read)
  stream.on('end', giveUp)
  read()
}
