import { connect as connectTcp, type Socket } from 'node:net'
import { connect } from 'node:tls'
import { NAME } from './suite/harness.js'

/** HTTP/2 byte by byte: what no client library would send. */

export const DATA = 0
export const HEADERS = 1
export const PRIORITY = 2
export const RST_STREAM = 3
export const SETTINGS = 4
export const PING = 6
export const GOAWAY = 7
export const WINDOW_UPDATE = 8
export const CONTINUATION = 9
export const ACK = 1
export const END_STREAM = 1
export const END_HEADERS = 4
export const PADDED = 8
export const WITH_PRIORITY = 32
export const PROTOCOL_ERROR = 1
export const ENHANCE_YOUR_CALM = 11
export const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'

/** A whole frame; text is latin1. */
export function frame(type: number, flags: number, stream: number, payload: Buffer | string = ''): Buffer {
  const body = typeof payload === 'string' ? Buffer.from(payload, 'latin1') : payload
  const head = Buffer.alloc(9)
  head.writeUIntBE(body.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, body])
}

/** A header block of literals that enter no table (RFC 7541 6.2.2). */
export function block(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([name, value]) => [
      Buffer.from([0, name.length]),
      Buffer.from(name, 'latin1'),
      Buffer.from([value.length]),
      Buffer.from(value, 'latin1')
    ])
  )
}

export const GET: readonly (readonly [string, string])[] = [
  [':method', 'GET'],
  [':scheme', 'https'],
  [':authority', 'a.test'],
  [':path', '/']
]
export const RESET = Buffer.from([0, 0, 0, 8])

/** Bytes of a session, read as frames. */
export class FrameText {
  bytes = Buffer.alloc(0)

  /** The frames that came. */
  all(): { type: number; flags: number; stream: number; payload: Buffer }[] {
    const frames = []
    for (let at = 0; at + 9 <= this.bytes.length; ) {
      const length = this.bytes.readUIntBE(at, 3)
      const payload = this.bytes.subarray(at + 9, at + 9 + length)
      const [type, flags] = [this.bytes[at + 3] as number, this.bytes[at + 4] as number]
      if (at + 9 + length > this.bytes.length) break
      frames.push({ type, flags, stream: this.bytes.readUInt32BE(at + 5), payload })
      at += 9 + length
    }
    return frames
  }

  /** The code of the last GOAWAY. */
  get goaway(): number | undefined {
    return this.all()
      .filter(({ type }) => type === GOAWAY)
      .at(-1)
      ?.payload.readUInt32BE(4)
  }

  /** The code of the reset of `stream`. */
  resetOf(stream: number): number | undefined {
    return this.all()
      .find((frame) => frame.type === RST_STREAM && frame.stream === stream)
      ?.payload.readUInt32BE(0)
  }
}

/** The client's side of a session, frame by frame. */
export class Frames extends FrameText {
  readonly socket: Socket
  over = false

  /** Over TLS, or in clear text by prior knowledge. */
  constructor(port: number, over: 'tls' | 'tcp' = 'tls') {
    super()
    const at = { host: '127.0.0.1', port }
    const tls = { ...at, servername: NAME, rejectUnauthorized: false, ALPNProtocols: ['h2'] }
    this.socket = over === 'tcp' ? connectTcp({ ...at, noDelay: true }) : connect(tls)
    this.socket.on('error', () => undefined)
    this.socket.on('data', (chunk: Buffer) => {
      this.bytes = Buffer.concat([this.bytes, chunk])
    })
    this.socket.on('close', () => {
      this.over = true
    })
  }

  send(...frames: Buffer[]): void {
    this.socket.write(Buffer.concat(frames))
  }

  /** `settings`: what SETTINGS holds. */
  start(settings: Buffer = Buffer.alloc(0)): void {
    this.send(Buffer.from(PREFACE), frame(SETTINGS, 0, 0, settings))
  }
}
