import { Duplex } from 'node:stream'
import { ByteQueue } from '../../lib/byte-queue.js'
import { holdPiece } from '../http1/held-bytes.js'
import type { Wire } from '../http1/wire.js'
import { CODE } from './frames.js'
import type { Http2Stream } from './stream.js'

/** HTTP/2 stream as a Node `Duplex`, for pipes. Destroying it before both directions have ended resets the stream. */
export class StreamDuplex extends Duplex {
  readonly #stream: Http2Stream
  /** Bytes received before they were requested, joined because a Readable keeps a Buffer for each piece. */
  readonly #waiting = new ByteQueue()
  #wanted = false
  #ended = false
  #pushedEnd = false
  #writing: ((error?: Error | null) => void) | undefined = undefined
  #finishing: ((error?: Error | null) => void) | undefined = undefined

  constructor(stream: Http2Stream) {
    super({ allowHalfOpen: true, readableHighWaterMark: 0 })
    this.#stream = stream
  }

  /** Handles received bytes, valid only during the call. */
  received(bytes: Buffer, from: number, to: number, wire: Wire): void {
    holdPiece(this.#waiting, bytes, from, to, wire)
    this.#give()
  }

  /** Handles the end of the peer's direction. */
  remoteEnd(): void {
    this.#ended = true
    this.#give()
  }

  drained(): void {
    const writing = this.#writing
    this.#writing = undefined
    writing?.()
  }

  /** Handles the end of our direction. */
  finished(): void {
    const finishing = this.#finishing
    this.#finishing = undefined
    finishing?.()
  }

  override _read(): void {
    this.#wanted = true
    this.#give()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#stream.send(chunk)
    if (this.#stream.congested) this.#writing = done
    else done()
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#finishing = done
    this.#stream.end()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#stream.reset(CODE.internal)
    done(error)
  }

  #give(): void {
    while (this.#wanted) {
      const piece = this.#waiting.shift()
      if (piece === undefined) break
      this.#wanted = false
      this.#stream.consumed(piece.length)
      this.push(piece)
    }
    if (!this.#ended || this.#pushedEnd || this.#waiting.length > 0) return
    this.#pushedEnd = true
    this.push(null)
  }
}
