import type { Duplex } from 'node:stream'
import { FLAG, FRAME, FRAME_HEAD, writeFrameHead, writeUint32 } from './frames.js'
import { Output } from './output.js'
import { settingsPayload } from './settings.js'

/** Writes frames (RFC 9113 6). They leave together at the end of the turn of the event loop. */
export class FrameWriter {
  readonly #output: Output

  /** `before` runs right before they leave, and may write more. */
  constructor(stream: Duplex, before: () => void) {
    this.#output = new Output(stream, before)
  }

  /** Bytes that the socket has and could not pass on. */
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

  /** `bytes` from `from` has the eight bytes that it carries. */
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

  /** A header block, in as many frames as it needs. */
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

  /** `content` must not change any more. */
  data(id: number, content: Buffer, ended: boolean): void {
    this.#head(content.length, FRAME.data, ended ? FLAG.endStream : 0, id)
    this.#output.add(content)
  }

  emptyEnd(id: number): void {
    this.#head(0, FRAME.data, FLAG.endStream, id)
  }

  /** A head whose payload is written in the same memory, at `#output.at`. */
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
