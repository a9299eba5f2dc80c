/** Frames of the muxado protocol: an 8-byte big-endian header, then at most 16 MiB of body. */

const FrameType = { reset: 0, data: 1, windowIncrement: 2, goAway: 3 } as const

/** Flags of a DATA frame. */
export const Flag = { fin: 1, syn: 2 } as const

/** Error codes of RST and GOAWAY. */
export const MuxCode = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 4,
  refused: 5,
  cancelled: 6,
  reset: 7,
  frameSize: 8,
  acceptQueueFull: 9,
  enhanceYourCalm: 10,
  remoteGoneAway: 11,
  streamsExhausted: 12,
  writeTimeout: 13,
  sessionClosed: 14,
  peerEnded: 15
} as const

export const HEADER_BYTES = 8
/** Receive window of each direction of each stream, in bytes. Fixed by the protocol. */
export const WINDOW = 0x4_0000
/** Highest id of a stream. */
export const MAX_STREAM_ID = 0x7fff_ffff

/**
 * Can a session begin with this byte? It is the highest byte of the length of the first frame, which is DATA and so no
 * longer than a window. No HTTP message begins with such a byte.
 */
export function beginsSession(byte: number): boolean {
  return byte <= WINDOW >>> 16
}

const MAX_GO_AWAY = 4096
const LOW_31 = 0x7fff_ffff
const NOTHING = Buffer.alloc(0)

/** Writes a header into the first eight bytes of `into`. */
function writeHeader(into: Buffer, length: number, type: number, flags: number, id: number): void {
  into.writeUInt32BE(((length << 8) | (type << 4) | flags) >>> 0, 0)
  into.writeUInt32BE(id, 4)
}

export function resetFrame(id: number, code: number): Buffer {
  return wordFrame(FrameType.reset, id, code)
}

/** `bytes` is never 0: some agents take that for a broken stream. */
export function windowIncrementFrame(id: number, bytes: number): Buffer {
  return wordFrame(FrameType.windowIncrement, id, bytes)
}

/** A DATA frame in one piece; for large bodies write the header alone and the body behind it. */
export function dataFrame(id: number, flags: number, body: Uint8Array = NOTHING): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + body.length)
  writeHeader(frame, body.length, FrameType.data, flags, id)
  frame.set(body, HEADER_BYTES)
  return frame
}

export function dataHeader(id: number, flags: number, length: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES)
  writeHeader(header, length, FrameType.data, flags, id)
  return header
}

export function goAwayFrame(lastStream: number, code: number, message: string): Buffer {
  const text = Buffer.from(message).subarray(0, MAX_GO_AWAY - 8)
  const frame = Buffer.allocUnsafe(HEADER_BYTES + 8 + text.length)
  writeHeader(frame, 8 + text.length, FrameType.goAway, 0, 0)
  frame.writeUInt32BE(lastStream, 8)
  frame.writeUInt32BE(code >>> 0, 12)
  frame.set(text, 16)
  return frame
}

function wordFrame(type: number, id: number, word: number): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + 4)
  writeHeader(frame, 4, type, 0, id)
  frame.writeUInt32BE(word >>> 0, HEADER_BYTES)
  return frame
}

/** Callbacks of a reader. The body of DATA is passed on as it arrives, so that no frame is buffered as a whole. */
export interface FrameSink {
  /** A DATA header. Returns false to drop the body; then neither `body` nor `end` follows. */
  data(id: number, length: number, flags: number): boolean
  body(bytes: Buffer): void
  end(flags: number): void
  reset(id: number, code: number): void
  windowIncrement(id: number, bytes: number): void
  goAway(lastStream: number, code: number, message: string): void
  /** The bytes are no valid frames; reading stops. */
  malformed(code: number, message: string): void
}

/** Cuts a byte stream into frames, however its chunks fall. */
export class FrameReader {
  readonly #sink: FrameSink
  /** Incomplete header, or header and body of a frame other than DATA. */
  #held: Buffer = NOTHING
  /** Remaining bytes of the body of the current DATA frame. */
  #left = 0
  #flags = 0
  #wanted = false
  #stopped = false

  constructor(sink: FrameSink) {
    this.#sink = sink
  }

  /** Stops reporting. */
  stop(): void {
    this.#stopped = true
    this.#held = NOTHING
  }

  read(input: Buffer): void {
    let chunk = input
    let at = 0
    while (at < chunk.length && !this.#stopped) {
      if (this.#left > 0) {
        at = this.#readBody(chunk, at)
        continue
      }
      if (this.#held.length > 0) {
        chunk = Buffer.concat([this.#held, chunk.subarray(at)])
        this.#held = NOTHING
        at = 0
      }
      const used = chunk.length - at < HEADER_BYTES ? 0 : this.#readFrame(chunk, at)
      if (used === 0) {
        // A copy: a few bytes should not keep the whole chunk alive.
        if (!this.#stopped) this.#held = Buffer.from(chunk.subarray(at))
        return
      }
      at += used
    }
  }

  #readBody(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#left)
    this.#left -= end - at
    if (this.#wanted) {
      this.#sink.body(at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end))
      if (this.#left === 0) this.#sink.end(this.#flags)
    }
    return end
  }

  /** Bytes used; 0: the frame is incomplete. Of DATA only the header is used here. */
  #readFrame(chunk: Buffer, at: number): number {
    const word = chunk.readUInt32BE(at)
    const length = word >>> 8
    const type = (word >>> 4) & 0xf
    const id = chunk.readUInt32BE(at + 4) & LOW_31
    if ((id === 0) !== (type === FrameType.goAway)) return this.#refuse(MuxCode.protocol, 'stream id out of place')
    if (type === FrameType.data) return this.#beginData(id, length, word & 0xf)
    const unfit =
      type === FrameType.goAway ? length < 8 || length > MAX_GO_AWAY : length !== 4 || type > FrameType.goAway
    if (unfit) return this.#refuse(MuxCode.frameSize, 'frame of a wrong type or size')
    const whole = HEADER_BYTES + length
    if (chunk.length - at < whole) return 0
    const first = chunk.readUInt32BE(at + HEADER_BYTES)
    if (type === FrameType.reset) this.#sink.reset(id, first)
    else if (type === FrameType.windowIncrement) this.#sink.windowIncrement(id, first & LOW_31)
    else {
      const code = chunk.readUInt32BE(at + HEADER_BYTES + 4)
      this.#sink.goAway(first & LOW_31, code, chunk.toString('utf8', at + HEADER_BYTES + 8, at + whole))
    }
    return whole
  }

  #beginData(id: number, length: number, flags: number): number {
    this.#wanted = this.#sink.data(id, length, flags)
    this.#left = length
    this.#flags = flags
    if (length === 0 && this.#wanted) this.#sink.end(flags)
    return HEADER_BYTES
  }

  #refuse(code: number, message: string): number {
    this.stop()
    this.#sink.malformed(code, message)
    return 0
  }
}
