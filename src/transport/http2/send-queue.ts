import { FIRST_WINDOW, widened } from './flow-control.js'
import type { FrameWriter } from './frame-writer.js'
import { FRAME_LIMIT } from './frames.js'
import type { Http2Stream } from './stream.js'

/** DATA is given to the socket while it has less than this to pass on. */
const SOCKET_HIGH = 65_536

/** The streams of a connection that have something to send, in the order of their turns, and the window that they share. */
export class SendQueue {
  readonly #ready: Http2Stream[] = []
  #window = FIRST_WINDOW

  /** Something waits. */
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

  /** The window of the connection grows; false: beyond what a window may be. */
  widen(increment: number): boolean {
    const window = widened(this.#window, increment)
    if (window === undefined) return false
    this.#window = window
    return true
  }

  /** Gives each stream its turn, one frame at a time, as far as windows and the socket allow. */
  pump(writer: FrameWriter): void {
    const ready = this.#ready
    let room = SOCKET_HIGH - writer.waiting
    // A round without a frame: only the window of the connection can help, and the streams keep their places.
    for (let turns = ready.length; turns > 0 && room > 0; ) {
      const stream = ready.shift() as Http2Stream
      stream.listed = false
      const sent = this.#sendSome(stream, writer)
      room -= sent
      if (stream.sendable) this.add(stream)
      turns = sent > 0 ? ready.length : turns - 1
    }
  }

  /** Sends one frame of a stream; the bytes of its content. */
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
