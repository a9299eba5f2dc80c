import { isUtf8 } from 'node:buffer'

/** Receives the content of a client's frames. */
export interface FrameSink {
  /** Bytes of a binary message, in order; the memory is the sink's. */
  data(bytes: Buffer): void
  ping(payload: Buffer): void
  /** The client says goodbye. `code`: undefined when it gives none. */
  close(code: number | undefined): void
}

/** Why a connection cannot go on (RFC 6455 7.4.1): a broken frame, a message that is not binary, a text that is none, too much. */
export type Violation = 1002 | 1003 | 1007 | 1009

const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const
const FIN = 0x80
const MASKED = 0x80
const LONGEST_CONTROL = 125
/** Two bytes, a length of eight, a mask of four. */
const LONGEST_HEAD = 14
/** The upper half of the largest length that a number holds exactly. */
const MOST_HIGH = 0x1f_ffff

/**
 * Reads the frames of a client (RFC 6455 5.2). Messages are passed on in pieces, so that their length costs no memory. No extension
 * is known here: their bits are a violation.
 */
export class FrameReader {
  readonly #sink: FrameSink
  readonly #head = Buffer.alloc(LONGEST_HEAD)
  #headBytes = 0
  #headLength = 2
  #opcode = 0
  /** Bytes of the payload that have not come. */
  #left = 0
  #place = 0
  #control = Buffer.alloc(0)
  /** Inside a message of several frames. */
  #fragmented = false
  #closed = false

  constructor(sink: FrameSink) {
    this.#sink = sink
  }

  /** Reads frames and returns the first violation, if any. After a violation or a close nothing more is read. */
  read(bytes: Uint8Array): Violation | undefined {
    let at = 0
    while (at < bytes.length && !this.#closed) {
      if (this.#headBytes < this.#headLength) {
        this.#head[this.#headBytes++] = bytes[at++] as number
        const wrong = this.#headBytes === this.#headLength ? this.#headRead() : undefined
        if (wrong !== undefined) return wrong
        if (this.#headBytes < this.#headLength || this.#left > 0) continue
        const ended = this.#ended()
        if (ended !== undefined) return ended
        continue
      }
      const end = Math.min(bytes.length, at + this.#left)
      this.#take(this.#unmasked(bytes, at, end))
      this.#left -= end - at
      at = end
      const ended = this.#left === 0 ? this.#ended() : undefined
      if (ended !== undefined) return ended
    }
    return undefined
  }

  /** The first two bytes say how long the head is; the whole head says how long the frame is. */
  #headRead(): Violation | undefined {
    const head = this.#head
    const short = (head[1] as number) & 0x7f
    if (this.#headLength === 2) {
      const wrong = this.#kindRead(head[0] as number, head[1] as number, short)
      this.#headLength = 6 + (short === 127 ? 8 : short === 126 ? 2 : 0)
      return wrong
    }
    if (short === 127) {
      const high = head.readUInt32BE(2)
      if (high > MOST_HIGH) return 1009
      this.#left = high * 2 ** 32 + head.readUInt32BE(6)
    } else this.#left = short === 126 ? head.readUInt16BE(2) : short
    this.#place = 0
    this.#control = Buffer.alloc(0)
    return undefined
  }

  #kindRead(first: number, second: number, length: number): Violation | undefined {
    const final = (first & FIN) !== 0
    this.#opcode = first & 0x0f
    if ((first & 0x70) !== 0 || (second & MASKED) === 0) return 1002
    switch (this.#opcode) {
      case OPCODE.continuation:
        if (!this.#fragmented) return 1002
        this.#fragmented = !final
        return undefined
      case OPCODE.text:
        return this.#fragmented ? 1002 : 1003
      case OPCODE.binary:
        if (this.#fragmented) return 1002
        this.#fragmented = !final
        return undefined
      case OPCODE.close:
      case OPCODE.ping:
      case OPCODE.pong:
        return final && length <= LONGEST_CONTROL ? undefined : 1002
      default:
        return 1002
    }
  }

  #unmasked(bytes: Uint8Array, from: number, to: number): Buffer {
    const clear = Buffer.allocUnsafe(to - from)
    const mask = this.#headLength - 4
    for (let i = 0; i < clear.length; i++) {
      clear[i] = (bytes[from + i] as number) ^ (this.#head[mask + (this.#place++ & 3)] as number)
    }
    return clear
  }

  #take(clear: Buffer): void {
    if (this.#opcode >= OPCODE.close) this.#control = Buffer.concat([this.#control, clear])
    else this.#sink.data(clear)
  }

  /** A whole frame has come. */
  #ended(): Violation | undefined {
    const payload = this.#control
    this.#headBytes = 0
    this.#headLength = 2
    if (this.#opcode === OPCODE.ping) this.#sink.ping(payload)
    if (this.#opcode !== OPCODE.close) return undefined
    this.#closed = true
    const code = payload.length >= 2 ? payload.readUInt16BE(0) : undefined
    if (payload.length === 1 || (code !== undefined && !isCloseCode(code))) return 1002
    if (!isUtf8(payload.subarray(2))) return 1007
    this.#sink.close(code)
    return undefined
  }
}

/** May an endpoint send it (RFC 6455 7.4.1, 7.4.2 and the registry)? */
function isCloseCode(code: number): boolean {
  if (code >= 3000) return code <= 4999
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014)
}

/** Head of a server's frame with a whole binary message of so many bytes, which follow it. */
export function binaryHead(length: number): Buffer {
  if (length < 126) return Buffer.of(FIN | OPCODE.binary, length)
  if (length < 0x1_0000) return Buffer.of(FIN | OPCODE.binary, 126, length >>> 8, length & 0xff)
  const head = Buffer.alloc(10)
  head[0] = FIN | OPCODE.binary
  head[1] = 127
  head.writeUInt32BE(Math.floor(length / 2 ** 32), 2)
  head.writeUInt32BE(length >>> 0, 6)
  return head
}

/** `payload`: at most 125 bytes. */
export function pong(payload: Buffer): Buffer {
  return Buffer.concat([Buffer.of(FIN | OPCODE.pong, payload.length), payload])
}

export function closeFrame(code: number | undefined): Buffer {
  if (code === undefined) return Buffer.of(FIN | OPCODE.close, 0)
  return Buffer.of(FIN | OPCODE.close, 2, code >>> 8, code & 0xff)
}
