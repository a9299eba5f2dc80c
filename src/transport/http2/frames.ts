/** Types of frames (RFC 9113 6). */
export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9
} as const

/** Flags of frames; their meaning depends on the type. */
export const FLAG = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const

/** Codes of RST_STREAM and GOAWAY (RFC 9113 7). */
export const CODE = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  settingsTimeout: 4,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  connect: 10,
  enhanceYourCalm: 11,
  http11Required: 13
} as const

/** Length of a frame's head (RFC 9113 4.1). */
export const FRAME_HEAD = 9
/** Largest payload (bytes) that every peer accepts, and that Sluice accepts (RFC 9113 6.5.2, SETTINGS_MAX_FRAME_SIZE). */
export const FRAME_LIMIT = 16_384
/** Largest stream id, and largest window in bytes (RFC 9113 5.1.1, 6.9.1). */
export const LARGEST = 2 ** 31 - 1
/** Connection preface of a client (RFC 9113 3.4). */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
/** Bytes of a priority in HEADERS, and of the payload of PRIORITY (RFC 9113 6.2, 6.3). */
export const PRIORITY_BYTES = 5

/** Connection error (RFC 9113 5.4.1). Thrown while frames are read; the session catches it and closes with GOAWAY. */
export class ConnectionError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** Writes the head of a frame at `at`; returns the index behind it. `length`: bytes of the payload. No object, to save an allocation per frame. */
export function writeFrameHead(
  target: Uint8Array,
  at: number,
  length: number,
  type: number,
  flags: number,
  stream: number
): number {
  target[at] = length >>> 16
  target[at + 1] = length >>> 8
  target[at + 2] = length
  target[at + 3] = type
  target[at + 4] = flags
  return writeUint32(target, at + 5, stream)
}

/** Writes 32 bits in network byte order; returns the index behind them. */
export function writeUint32(target: Uint8Array, at: number, value: number): number {
  target[at] = value >>> 24
  target[at + 1] = value >>> 16
  target[at + 2] = value >>> 8
  target[at + 3] = value
  return at + 4
}

/** Reads an unsigned number of 32 bits in network byte order. */
export function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at] as number) * 0x1000000 +
    (((bytes[at + 1] as number) << 16) | ((bytes[at + 2] as number) << 8) | (bytes[at + 3] as number))
  )
}

/** Reads a stream id or window increment without the reserved bit. */
export function readUint31(bytes: Uint8Array, at: number): number {
  return readUint32(bytes, at) & LARGEST
}

/** Throws a `ConnectionError` if a connection-level frame has a stream id. */
export function expectOnConnection(id: number): void {
  if (id !== 0) throw new ConnectionError(CODE.protocol, 'a frame of the connection on a stream')
}

/** Throws a `ConnectionError` unless a payload has the size of its type. */
export function expectSize(size: number, expected: number): void {
  if (size !== expected) throw new ConnectionError(CODE.frameSize, 'a frame of a wrong size')
}
