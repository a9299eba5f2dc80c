import type { Socket } from 'node:net'
import { FLAG, FRAME, FRAME_HEAD, LARGEST, PREFACE, writeFrameHead } from '../src/transport/http2/frames.js'

/** The text that a request without content gets. */
export const TEXT = Buffer.from(`${'x'.repeat(101)}\n`)

const FIRST_WINDOW = 65_535
/** `:status: 200` of the static table (RFC 7541 A). */
const OK = 0x88

/** A field that enters no table, so that one block serves every connection. */
function field(name: string, value: string): number[] {
  return [0, name.length, ...Buffer.from(name), value.length, ...Buffer.from(value)]
}

const TEXT_HEAD = Buffer.from([OK, ...field('content-type', 'text/plain'), ...field('content-length', '102')])
const CALL_HEAD = Buffer.from([OK, ...field('content-type', 'application/grpc')])
const CALL_END = Buffer.from(field('grpc-status', '0'))

function frame(type: number, flags: number, id: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEAD + payload.length)
  writeFrameHead(bytes, 0, payload.length, type, flags, id)
  bytes.set(payload, FRAME_HEAD)
  return bytes
}

/**
 * One connection of an upstream in HTTP/2 by prior knowledge that does next to nothing else: it reads no field. A request without content
 * gets `TEXT`; one with content is a unary call of gRPC and gets its message back, with a status in trailers. Answers are small
 * and few at a time, so that they stay within the windows of proxies.
 */
export function answerHttp2(socket: Socket): void {
  const messages = new Map<number, Buffer>()
  let rest: Buffer = Buffer.alloc(0)
  let greeted = false
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  const window = Buffer.alloc(4)
  window.writeUInt32BE(LARGEST - FIRST_WINDOW)
  socket.write(Buffer.concat([frame(FRAME.settings, 0, 0, Buffer.alloc(0)), frame(FRAME.windowUpdate, 0, 0, window)]))

  const answers: Buffer[] = []
  const take = (type: number, flags: number, id: number, payload: Buffer): void => {
    if (type === FRAME.settings && (flags & FLAG.ack) === 0)
      answers.push(frame(FRAME.settings, FLAG.ack, 0, payload.subarray(0, 0)))
    else if (type === FRAME.ping && (flags & FLAG.ack) === 0) answers.push(frame(FRAME.ping, FLAG.ack, 0, payload))
    else if (type === FRAME.reset) messages.delete(id)
    else if (type === FRAME.headers && (flags & FLAG.endStream) !== 0) {
      answers.push(frame(FRAME.headers, FLAG.endHeaders, id, TEXT_HEAD), frame(FRAME.data, FLAG.endStream, id, TEXT))
    } else if (type === FRAME.data) {
      const before = messages.get(id)
      const message = before === undefined ? payload : Buffer.concat([before, payload])
      if ((flags & FLAG.endStream) === 0) {
        messages.set(id, Buffer.from(message))
        return
      }
      messages.delete(id)
      answers.push(
        frame(FRAME.headers, FLAG.endHeaders, id, CALL_HEAD),
        frame(FRAME.data, 0, id, message),
        frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, id, CALL_END)
      )
    }
  }
  socket.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    if (!greeted) {
      if (rest.length < PREFACE.length) return
      greeted = true
      at = PREFACE.length
    }
    while (rest.length - at >= FRAME_HEAD) {
      const end = at + FRAME_HEAD + rest.readUIntBE(at, 3)
      if (rest.length < end) break
      take(
        rest[at + 3] as number,
        rest[at + 4] as number,
        rest.readUInt32BE(at + 5) & LARGEST,
        rest.subarray(at + FRAME_HEAD, end)
      )
      at = end
    }
    rest = rest.subarray(at)
    if (answers.length > 0) socket.write(Buffer.concat(answers.splice(0)))
  })
}
