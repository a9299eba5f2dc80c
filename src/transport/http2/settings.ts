import { CODE, ConnectionError, FRAME_LIMIT, LARGEST, readUint32, writeUint32 } from './frames.js'

/** Initial size of every window (bytes; RFC 9113 6.9.2). */
export const FIRST_WINDOW = 65_535

/** Adds an increment to a send window, which may be negative (RFC 9113 6.9.2). Returns undefined above the maximum (6.9.1). */
export function widened(window: number, increment: number): number | undefined {
  const sum = window + increment
  return sum > LARGEST ? undefined : sum
}

/** Ids of settings (RFC 9113 6.5.2, RFC 8441 3). */
export const SETTING = {
  tableSize: 1,
  enablePush: 2,
  concurrentStreams: 3,
  initialWindow: 4,
  frameSize: 5,
  listSize: 6,
  connectProtocol: 8
} as const

/** Bytes of one setting. */
const SETTING_BYTES = 6
/** Maximum frame size (bytes; RFC 9113 6.5.2). */
const LARGEST_FRAME = 2 ** 24 - 1

/** Settings announced by the peer. */
export class PeerSettings {
  tableSize = 4096
  /** Infinity if the peer announced no limit. */
  concurrentStreams = Number.POSITIVE_INFINITY
  initialWindow = FIRST_WINDOW
  frameSize = FRAME_LIMIT
  connectProtocol = false

  /** Reads the payload of a SETTINGS frame. Throws a `ConnectionError`. */
  read(bytes: Buffer, from: number, to: number): void {
    if ((to - from) % SETTING_BYTES !== 0) throw new ConnectionError(CODE.frameSize, 'SETTINGS of a wrong size')
    for (let at = from; at < to; at += SETTING_BYTES) {
      this.#set(((bytes[at] as number) << 8) | (bytes[at + 1] as number), readUint32(bytes, at + 2))
    }
  }

  #set(id: number, value: number): void {
    switch (id) {
      case SETTING.tableSize:
        this.tableSize = value
        return
      case SETTING.enablePush:
        if (value > 1) throw new ConnectionError(CODE.protocol, 'ENABLE_PUSH is neither 0 nor 1')
        return
      case SETTING.concurrentStreams:
        this.concurrentStreams = value
        return
      case SETTING.initialWindow:
        if (value > LARGEST) throw new ConnectionError(CODE.flowControl, 'INITIAL_WINDOW_SIZE is too large')
        this.initialWindow = value
        return
      case SETTING.frameSize:
        if (value < FRAME_LIMIT || value > LARGEST_FRAME)
          throw new ConnectionError(CODE.protocol, 'MAX_FRAME_SIZE is out of its range')
        this.frameSize = value
        return
      case SETTING.connectProtocol:
        if (value > 1 || (value === 0 && this.connectProtocol))
          throw new ConnectionError(CODE.protocol, 'ENABLE_CONNECT_PROTOCOL is neither 0 nor 1, or taken back')
        this.connectProtocol = value === 1
    }
  }
}

/** Returns the payload of a SETTINGS frame. */
export function settingsPayload(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(settings.length * SETTING_BYTES)
  let at = 0
  for (const [id, value] of settings) {
    payload[at + 1] = id
    at = writeUint32(payload, at + 2, value)
  }
  return payload
}
