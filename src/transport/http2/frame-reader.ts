import { CODE, ConnectionError, FLAG, FRAME, FRAME_HEAD, FRAME_LIMIT, PRIORITY_BYTES, readUint31 } from './frames.js'

/** Receives the frames. Its methods may throw a `ConnectionError`. */
export interface FrameTaker {
  /** A complete frame other than DATA. The payload, `bytes` from `from` to `to`, is valid only during the call. No object, to save an allocation per frame. */
  frame(type: number, flags: number, stream: number, bytes: Buffer, from: number, to: number): void
  /** The start of a DATA frame. `length`: the whole payload with padding, which flow control counts (RFC 9113 6.1). */
  dataBegins(stream: number, flags: number, length: number): void
  /** A part of the content of DATA, valid only during the call. */
  data(bytes: Buffer, from: number, to: number): void
  /** The end of a DATA frame. `data` got no padding. */
  dataEnds(): void
}

/** Meaning of the next byte. */
const Step = { preface: 0, head: 1, payload: 2, padLength: 3, content: 4, padding: 5 } as const

/** Reads the frames of one direction of a connection (RFC 9113 4.1). Passes on DATA in parts, without a copy, and other frames whole. */
export class FrameReader {
  readonly #taker: FrameTaker
  readonly #preface: Buffer
  #step: number
  /** Bytes received of the preface or of a frame's head. */
  #got = 0
  /** Buffer for a frame head that arrives in pieces. */
  #head: Buffer | undefined = undefined
  #type = 0
  #flags = 0
  #stream = 0
  /** Payload of a frame that arrives in pieces, and the received bytes of it. */
  #payload: Buffer | undefined = undefined
  #length = 0
  /** For DATA: remaining content and padding. */
  #content = 0
  #padding = 0
  #stopped = false

  /** `preface`: bytes expected before the first frame; empty on the client side. */
  constructor(taker: FrameTaker, preface: Buffer) {
    this.#taker = taker
    this.#preface = preface
    this.#step = preface.length > 0 ? Step.preface : Step.head
  }

  /** Stream of a partly received HEADERS frame; 0 if none. */
  get openHead(): number {
    return this.#step === Step.payload && this.#type === FRAME.headers ? this.#stream : 0
  }

  /** Stops reading, also in the current chunk. */
  stop(): void {
    this.#stopped = true
  }

  /** Reads `chunk` from 0 to `end`. Throws a `ConnectionError` for an invalid frame; the taker may throw one too. */
  take(chunk: Buffer, end: number): void {
    let at = 0
    while (at < end && !this.#stopped) {
      switch (this.#step) {
        case Step.head:
          at = this.#readHead(chunk, at, end)
          break
        case Step.content:
          at = this.#readContent(chunk, at, end)
          break
        case Step.payload:
          at = this.#readPayload(chunk, at, end)
          break
        case Step.padLength:
          this.#readPadLength(chunk[at++] as number)
          break
        case Step.padding:
          at = this.#skipPadding(at, end)
          break
        default:
          this.#readPreface(chunk[at++] as number)
      }
    }
  }

  #readPreface(byte: number): void {
    if (byte !== this.#preface[this.#got]) throw new ConnectionError(CODE.protocol, 'this is no preface of HTTP/2')
    if (++this.#got === this.#preface.length) {
      this.#got = 0
      this.#step = Step.head
    }
  }

  #readHead(chunk: Buffer, from: number, end: number): number {
    if (this.#got === 0 && end - from >= FRAME_HEAD) {
      this.#begin(chunk, from)
      return from + FRAME_HEAD
    }
    this.#head ??= Buffer.alloc(FRAME_HEAD)
    const head = this.#head
    let at = from
    while (this.#got < FRAME_HEAD && at < end) head[this.#got++] = chunk[at++] as number
    if (this.#got === FRAME_HEAD) {
      this.#got = 0
      this.#head = undefined
      this.#begin(head, 0)
    }
    return at
  }

  #begin(head: Buffer, at: number): void {
    const length = ((head[at] as number) << 16) | ((head[at + 1] as number) << 8) | (head[at + 2] as number)
    this.#type = head[at + 3] as number
    this.#flags = head[at + 4] as number
    this.#stream = readUint31(head, at + 5)
    this.#length = length
    if (length > FRAME_LIMIT) throw new ConnectionError(CODE.frameSize, 'a frame is larger than was allowed')
    if (this.#type !== FRAME.data) {
      this.#step = Step.payload
      if (length === 0) this.#give(head, at, at)
      return
    }
    this.#taker.dataBegins(this.#stream, this.#flags, length)
    this.#content = length
    this.#padding = 0
    if ((this.#flags & FLAG.padded) === 0) this.#step = Step.content
    else if (length === 0) throw new ConnectionError(CODE.frameSize, 'padded DATA does not say how much padding it has')
    else this.#step = Step.padLength
    if (length === 0) this.#endData()
  }

  #readPadLength(padding: number): void {
    if (padding >= this.#length) throw new ConnectionError(CODE.protocol, 'DATA has more padding than payload')
    this.#padding = padding
    this.#content = this.#length - 1 - padding
    this.#step = this.#content > 0 ? Step.content : Step.padding
    if (this.#content + padding === 0) this.#endData()
  }

  #readContent(chunk: Buffer, at: number, end: number): number {
    const to = Math.min(end, at + this.#content)
    this.#content -= to - at
    this.#taker.data(chunk, at, to)
    if (this.#content === 0) {
      if (this.#padding === 0) this.#endData()
      else this.#step = Step.padding
    }
    return to
  }

  #skipPadding(at: number, end: number): number {
    const to = Math.min(end, at + this.#padding)
    this.#padding -= to - at
    if (this.#padding === 0) this.#endData()
    return to
  }

  #endData(): void {
    this.#step = Step.head
    this.#taker.dataEnds()
  }

  #readPayload(chunk: Buffer, at: number, end: number): number {
    const payload = this.#payload
    if (payload === undefined && end - at >= this.#length) {
      this.#give(chunk, at, at + this.#length)
      return at + this.#length
    }
    const whole = payload ?? Buffer.allocUnsafe(this.#length)
    this.#payload = whole
    const copied = chunk.copy(whole, this.#got, at, end)
    this.#got += copied
    if (this.#got === this.#length) {
      this.#payload = undefined
      this.#got = 0
      this.#give(whole, 0, whole.length)
    }
    return at + copied
  }

  #give(bytes: Buffer, from: number, to: number): void {
    this.#step = Step.head
    this.#taker.frame(this.#type, this.#flags, this.#stream, bytes, from, to)
  }
}

/** Maximum number of CONTINUATION frames of one block. */
const CONTINUATIONS = 32

/** A complete header block: `bytes` from `from` to `to`. */
type WholeBlock = readonly [bytes: Buffer, from: number, to: number]

const NOTHING: WholeBlock = [Buffer.alloc(0), 0, 0]

/** Assembles bounded header blocks from HEADERS and CONTINUATION (RFC 9113 4.3, 6.2, 6.10). */
export class HeaderBlocks {
  readonly #limit: number
  #whole: WholeBlock = NOTHING
  #pieces: Buffer[] = []
  #bytes = 0
  /** Stream whose block continues in CONTINUATION; 0 if none. */
  open = 0
  /** Current header block: its stream, whether it ends the stream, and whether its priority names itself (RFC 7540 5.3.1). */
  stream = 0
  ended = false
  selfDependent = false

  /** `limit`: maximum size of an encoded block (bytes). */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** Reads the payload of HEADERS. Returns true if the block is complete. */
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

  /** Reads the payload of CONTINUATION. Returns true if the block is complete. */
  add(flags: number, bytes: Buffer, from: number, to: number): boolean {
    this.#collect(bytes, from, to)
    if ((flags & FLAG.endHeaders) === 0) return false
    this.open = 0
    this.#whole = [Buffer.concat(this.#pieces, this.#bytes), 0, this.#bytes]
    this.#pieces = []
    this.#bytes = 0
    return true
  }

  /** Returns the completed block. */
  take(): WholeBlock {
    const whole = this.#whole
    this.#whole = NOTHING
    return whole
  }

  #collect(bytes: Buffer, from: number, to: number): void {
    this.#bytes += to - from
    // Empty frames cost memory and time too, so their number is bounded as well.
    if (this.#bytes > this.#limit || this.#pieces.length > CONTINUATIONS)
      throw new ConnectionError(CODE.enhanceYourCalm, 'a header block does not end')
    this.#pieces.push(Buffer.from(bytes.subarray(from, to)))
  }
}
