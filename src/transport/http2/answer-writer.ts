import type { Failure, Outgoing, PieceLender, PieceSource } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { CodecBody } from '../http1/body.js'
import { type BodySink, SMALL } from '../http1/held-bytes.js'
import { feedSink } from '../http1/message-writer.js'
import { trailerFields } from './heads.js'
import type { Http2Stream } from './stream.js'

/** Writes the body of one message to its stream and pauses the source while the stream is congested. */
export class AnswerWriter implements BodySink {
  readonly #stream: Http2Stream
  readonly #broke: (why: Failure) => void
  #giver: PieceSource | undefined = undefined
  #trailers: (() => HeaderList) | undefined
  /** Remaining bytes of the announced length; -1 if none was announced. */
  #left: number
  #over = false
  /** Bytes written to the stream. */
  carried = 0

  /** `length`: bytes announced in the head, or -1. `broke` is called if the body ends early; the stream stays open. */
  constructor(
    stream: Http2Stream,
    length: number,
    trailers: (() => HeaderList) | undefined,
    broke: (why: Failure) => void
  ) {
    this.#stream = stream
    this.#left = length
    this.#trailers = trailers
    this.#broke = broke
  }

  start(body: Exclude<Outgoing, undefined>): void {
    if (body instanceof Uint8Array) {
      this.chunk(Buffer.from(body.buffer, body.byteOffset, body.byteLength), 0, body.length, undefined)
      this.end([])
    } else if (body instanceof CodecBody && !body.transformed) {
      this.#giver = body
      body.sendTo(this)
    } else this.#giver = feedSink(body, this)
    this.flush()
  }

  /** Releases the source before the end of the message. */
  stop(): void {
    this.#over = true
    const giver = this.#giver
    this.#giver = undefined
    giver?.stop()
  }

  /** Resumes the source after congestion. */
  resume(): void {
    this.#giver?.resume()
  }

  text(data: string): void {
    if (this.#takes(data.length)) this.#stream.send(Buffer.from(data, 'latin1'))
  }

  chunk(bytes: Buffer, from: number, to: number, lender: PieceLender | undefined): void {
    if (to === from || !this.#takes(to - from)) return
    if (lender === undefined) this.#stream.send(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to))
    else if (to - from <= SMALL) this.#stream.send(Buffer.from(bytes.subarray(from, to)))
    else this.#stream.send(lender.keep(bytes, from, to))
  }

  flush(): void {
    if (!this.#over && this.#stream.congested) this.#giver?.pause()
  }

  end(fields: HeaderList): void {
    if (this.#over) return
    this.#giver = undefined
    if (this.#left > 0) {
      this.broke('upstream-gone')
      return
    }
    this.#over = true
    const list = this.#trailers === undefined ? fields : this.#trailers()
    this.#stream.end(list.length === 0 ? undefined : trailerFields(list))
  }

  broke(why: Failure): void {
    if (this.#over) return
    this.#over = true
    this.#giver = undefined
    this.#broke(why)
  }

  /** Counts the bytes. Returns false after the end, or if they exceed the announced length, which would make the message malformed. */
  #takes(size: number): boolean {
    if (this.#over) return false
    if (this.#left >= 0) {
      if (size > this.#left) {
        const giver = this.#giver
        this.broke('upstream-malformed')
        giver?.stop()
        return false
      }
      this.#left -= size
    }
    this.carried += size
    return true
  }
}
