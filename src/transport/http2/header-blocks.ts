import { CODE, ConnectionError, FLAG, PRIORITY_BYTES, readUint31 } from './frames.js'

/** CONTINUATION frames that one block may have, whatever they hold. */
const CONTINUATIONS = 32

/** The whole of a header block: `bytes` from `from` to `to`. */
export type WholeBlock = readonly [bytes: Buffer, from: number, to: number]

const NOTHING: WholeBlock = [Buffer.alloc(0), 0, 0]

/** Puts the header blocks of a connection together from HEADERS and CONTINUATION (RFC 9113 4.3, 6.2, 6.10), within bounds. */
export class HeaderBlocks {
  readonly #limit: number
  #whole: WholeBlock = NOTHING
  #pieces: Buffer[] = []
  #bytes = 0
  /** The stream whose block goes on in CONTINUATION; 0: none. */
  open = 0
  /** Of the block at hand: its stream, whether it ends the stream, and whether its priority names itself (RFC 7540 5.3.1). */
  stream = 0
  ended = false
  selfDependent = false

  /** `limit`: bytes that a block may have before it is decoded. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** Takes the payload of HEADERS; true: the block is whole. */
  begin(flags: number, stream: number, bytes: Buffer, from: number, to: number): boolean {
    if (stream === 0) throw new ConnectionError(CODE.protocol, 'HEADERS on stream 0')
    let [start, end] = [from, to]
    if ((flags & FLAG.padded) !== 0) {
      if (start === end)
        throw new ConnectionError(CODE.frameSize, 'padded HEADERS do not say how much padding they have')
      end -= bytes[start++] as number
    }
    this.selfDependent = false
    if ((flags & FLAG.priority) !== 0) {
      if (to - start < PRIORITY_BYTES) throw new ConnectionError(CODE.frameSize, 'HEADERS are too short for a priority')
      this.selfDependent = readUint31(bytes, start) === stream
      start += PRIORITY_BYTES
    }
    if (start > end) throw new ConnectionError(CODE.protocol, 'HEADERS have more padding than payload')
    this.stream = stream
    this.ended = (flags & FLAG.endStream) !== 0
    if ((flags & FLAG.endHeaders) !== 0) {
      this.#whole = [bytes, start, end]
      return true
    }
    this.open = stream
    this.#collect(bytes, start, end)
    return false
  }

  /** Takes the payload of CONTINUATION of the stream that is open; true: the block is whole. */
  add(flags: number, bytes: Buffer, from: number, to: number): boolean {
    this.#collect(bytes, from, to)
    if ((flags & FLAG.endHeaders) === 0) return false
    this.open = 0
    this.#whole = [Buffer.concat(this.#pieces, this.#bytes), 0, this.#bytes]
    this.#pieces = []
    this.#bytes = 0
    return true
  }

  /** The block that is whole. */
  take(): WholeBlock {
    const whole = this.#whole
    this.#whole = NOTHING
    return whole
  }

  #collect(bytes: Buffer, from: number, to: number): void {
    this.#bytes += to - from
    // Empty frames take memory and time too.
    if (this.#bytes > this.#limit || this.#pieces.length > CONTINUATIONS)
      throw new ConnectionError(CODE.enhanceYourCalm, 'a header block does not end')
    this.#pieces.push(Buffer.from(bytes.subarray(from, to)))
  }
}
