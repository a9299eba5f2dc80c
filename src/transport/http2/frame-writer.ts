import type { Duplex } from 'node:stream'
import { FLAG, FRAME, FRAME_HEAD, FRAME_LIMIT, writeFrameHead, writeUint32 } from './frames.js'
import { FIRST_WINDOW, settingsPayload, widened } from './settings.js'
import type { Http2Stream } from './stream.js'

/** Size of the blocks that small frames are written into (bytes). */
const BLOCK = 65_536
/** Minimum rest of a block that is reused by the next connection (bytes). */
const REST = 2048
/** Maximum number of spare blocks. */
const SPARES = 16
/** Minimum size of a piece that is sent without a copy (bytes); smaller ones are copied into the block. */
const LARGE = 2048

interface Block {
  readonly bytes: Buffer
  at: number
}

const spares: Block[] = []

/** Collects the frames of one turn of the event loop for one write. */
class Output {
  readonly #stream: Duplex
  readonly #parts: Buffer[] = []
  #block: Block | undefined = undefined
  /** Start of the bytes in the block that are not in the parts yet. */
  #from = 0
  #scheduled = false
  readonly #before: () => void

  /** `before` runs right before each write, and may add frames. */
  constructor(stream: Duplex, before: () => void) {
    this.#stream = stream
    this.#before = before
  }

  /** Bytes buffered in the stream. */
  get waiting(): number {
    return this.#stream.writableLength
  }

  /** Returns a block with room for `bytes` bytes from `at` on. */
  room(bytes: number): Buffer {
    const block = this.#block
    if (block !== undefined && block.at + bytes <= block.bytes.length) return block.bytes
    this.#close()
    this.#block = take(bytes)
    this.#from = this.#block.at
    return this.#block.bytes
  }

  /** Write position in the block returned by `room`. */
  get at(): number {
    return (this.#block as Block).at
  }

  /** Sets the end of the bytes written in `room`. */
  set at(at: number) {
    ;(this.#block as Block).at = at
  }

  /** Adds bytes, which the caller must not change afterwards. */
  add(bytes: Buffer): void {
    if (bytes.length < LARGE) {
      const room = this.room(bytes.length)
      room.set(bytes, this.at)
      this.at += bytes.length
      return
    }
    this.#cut()
    this.#parts.push(bytes)
  }

  /** Sends the collected frames at the end of this turn. */
  schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(this.#onTurn)
  }

  /** Writes the collected frames to the stream. */
  flush(): void {
    this.#close()
    const parts = this.#parts
    const stream = this.#stream
    if (parts.length === 0) return
    if (stream.destroyed || stream.writableEnded) parts.length = 0
    else if (parts.length === 1) stream.write(parts.pop() as Buffer)
    else {
      stream.cork()
      for (const part of parts) stream.write(part)
      stream.uncork()
      parts.length = 0
    }
  }

  readonly #onTurn = (): void => {
    this.#scheduled = false
    this.#before()
    this.flush()
  }

  #cut(): void {
    const block = this.#block
    if (block === undefined || block.at === this.#from) return
    this.#parts.push(block.bytes.subarray(this.#from, block.at))
    this.#from = block.at
  }

  #close(): void {
    this.#cut()
    const block = this.#block
    this.#block = undefined
    if (block !== undefined && spares.length < SPARES && block.bytes.length - block.at >= REST) spares.push(block)
  }
}

function take(bytes: number): Block {
  const spare = spares.pop()
  if (spare !== undefined && spare.at + bytes <= spare.bytes.length) return spare
  return { bytes: Buffer.allocUnsafeSlow(Math.max(BLOCK, bytes)), at: 0 }
}

/** Writes frames (RFC 9113 6), which are sent together at the end of the turn of the event loop. */
export class FrameWriter {
  readonly #output: Output

  /** `before` runs right before each write, and may add frames. */
  constructor(stream: Duplex, before: () => void) {
    this.#output = new Output(stream, before)
  }

  /** Bytes buffered in the socket. */
  get waiting(): number {
    return this.#output.waiting
  }

  schedule(): void {
    this.#output.schedule()
  }

  flush(): void {
    this.#output.flush()
  }

  settings(settings: readonly (readonly [id: number, value: number])[]): void {
    const payload = settingsPayload(settings)
    this.#head(payload.length, FRAME.settings, 0, 0)
    this.#output.add(payload)
  }

  settingsAck(): void {
    this.#head(0, FRAME.settings, FLAG.ack, 0)
  }

  /** Writes a PING with the eight bytes of `bytes` from `from` on. */
  ping(ack: boolean, bytes: Uint8Array, from: number): void {
    const room = this.#begin(8, FRAME.ping, ack ? FLAG.ack : 0, 0)
    const { at } = this.#output
    for (let i = 0; i < 8; i++) room[at + i] = bytes[from + i] as number
    this.#output.at = at + 8
  }

  goaway(last: number, code: number): void {
    const room = this.#begin(8, FRAME.goaway, 0, 0)
    this.#output.at = writeUint32(room, writeUint32(room, this.#output.at, last), code)
  }

  reset(id: number, code: number): void {
    const room = this.#begin(4, FRAME.reset, 0, id)
    this.#output.at = writeUint32(room, this.#output.at, code)
  }

  windowUpdate(id: number, increment: number): void {
    const room = this.#begin(4, FRAME.windowUpdate, 0, id)
    this.#output.at = writeUint32(room, this.#output.at, increment)
  }

  /** Writes a header block, in HEADERS and as many CONTINUATION frames as needed. */
  block(id: number, block: Buffer, ended: boolean, frameSize: number): void {
    let flags = ended ? FLAG.endStream : 0
    for (let type: number = FRAME.headers, at = 0; at < block.length || at === 0; type = FRAME.continuation) {
      const end = Math.min(block.length, at + frameSize)
      if (end === block.length) flags |= FLAG.endHeaders
      const room = this.#begin(end - at, type, flags, id)
      block.copy(room, this.#output.at, at, end)
      this.#output.at += end - at
      flags = 0
      if (end === block.length) break
      at = end
    }
  }

  /** Writes DATA. The caller must not change `content` afterwards. */
  data(id: number, content: Buffer, ended: boolean): void {
    this.#head(content.length, FRAME.data, ended ? FLAG.endStream : 0, id)
    this.#output.add(content)
  }

  emptyEnd(id: number): void {
    this.#head(0, FRAME.data, FLAG.endStream, id)
  }

  /** Writes a frame head, and returns the block for the payload, which goes to `#output.at`. */
  #begin(length: number, type: number, flags: number, id: number): Buffer {
    const room = this.#output.room(FRAME_HEAD + length)
    this.#output.at = writeFrameHead(room, this.#output.at, length, type, flags, id)
    this.#output.schedule()
    return room
  }

  #head(length: number, type: number, flags: number, id: number): void {
    this.#begin(length, type, flags, id)
  }
}

/** Buffered bytes of the socket from which no DATA is written. */
const SOCKET_HIGH = 65_536

/** Streams of a connection with pending bytes, in round-robin order, and the send window of the connection. */
export class SendQueue {
  readonly #ready: Http2Stream[] = []
  #window = FIRST_WINDOW

  /** True if a stream waits. */
  get waits(): boolean {
    return this.#ready.length > 0
  }

  add(stream: Http2Stream): void {
    if (stream.listed) return
    stream.listed = true
    this.#ready.push(stream)
  }

  clear(): void {
    this.#ready.length = 0
  }

  /** Widens the window of the connection. Returns false if it exceeds the maximum. */
  widen(increment: number): boolean {
    const window = widened(this.#window, increment)
    if (window === undefined) return false
    this.#window = window
    return true
  }

  /** Sends one frame per stream in turn, within the windows and the socket's buffer. */
  pump(writer: FrameWriter): void {
    const ready = this.#ready
    let room = SOCKET_HIGH - writer.waiting
    // After a round without a frame the loop ends; the streams keep their order.
    for (let turns = ready.length; turns > 0 && room > 0; ) {
      const stream = ready.shift() as Http2Stream
      stream.listed = false
      const sent = this.#sendSome(stream, writer)
      room -= sent
      if (stream.sendable) this.add(stream)
      turns = sent > 0 ? ready.length : turns - 1
    }
  }

  /** Sends one frame of a stream. Returns the bytes of its content. */
  #sendSome(stream: Http2Stream, writer: FrameWriter): number {
    if (!stream.sendable) return 0
    if (stream.waiting === 0) {
      if (!stream.sendTrailers()) {
        writer.emptyEnd(stream.id)
        stream.sentEnd()
      }
      return 0
    }
    const most = Math.min(FRAME_LIMIT, stream.window, this.#window)
    if (most <= 0) return 0
    const piece = stream.next(most)
    this.#window -= piece.length
    const ends = stream.endsWithData
    writer.data(stream.id, piece, ends)
    if (ends) stream.sentEnd()
    else stream.relieve()
    return piece.length
  }
}
