import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { FLAG, FRAME, FRAME_HEAD, PREFACE, writeFrameHead } from '../src/transport/http2/frames.js'
import { HpackEncoder } from '../src/transport/http2/hpack-encoder.js'
import type { Peer } from './peers.js'
import { residentMegabytes } from './process.js'
import type { Scenario } from './scenarios.js'
import { table } from './table.js'

const HEAD = 'GET / HTTP/1.1\r\nHost: bench.test\r\n\r\n'
/** Of the answer of the upstream. */
const ANSWER = Buffer.alloc(100, 'x')
const WARM_UP = 200
/** Collections and the sweeping of the heap end within it, ms. */
const SETTLING = 2_000

/** One way to be connected; the request on it is the same. */
interface Kind {
  readonly name: string
  readonly tls: boolean
  readonly alpn: string
  readonly request: Buffer
}

const kinds: readonly Kind[] = [
  { name: 'HTTP/1.1', tls: false, alpn: 'http/1.1', request: Buffer.from(HEAD) },
  { name: 'HTTP/1.1, TLS', tls: true, alpn: 'http/1.1', request: Buffer.from(HEAD) },
  { name: 'HTTP/2', tls: false, alpn: 'h2', request: http2Request() },
  { name: 'HTTP/2, TLS', tls: true, alpn: 'h2', request: http2Request() }
]

/** Resident memory that one idle keep-alive connection costs, after one request on each. */
export async function idleConnections(
  peers: readonly Peer[],
  scenario: Scenario,
  upstream: number,
  count: number
): Promise<void> {
  console.log(`\n${count} idle connections, one request on each`)
  const rows: string[][] = []
  for (const peer of peers)
    for (const kind of kinds) {
      const running = await peer.start(scenario, upstream)
      // A peer without TLS speaks HTTP/1.1 alone.
      if (kind.name === 'HTTP/1.1' || running.tlsPort !== undefined) {
        const port = kind.tls ? (running.tlsPort as number) : running.port
        const pid = running.child.pid as number
        // Code and pools that the first requests bring in are not the price of a connection.
        for (const socket of await hold(kind, port, WARM_UP)) socket.destroy()
        await settle()
        const before = residentMegabytes(pid)
        const sockets = await hold(kind, port, count)
        await settle()
        const after = residentMegabytes(pid)
        if (sockets.length < count) console.log(`${peer.name}: ${kind.name} ends after ${sockets.length}`)
        for (const socket of sockets) socket.destroy()
        const each = ((after - before) * 1_024) / sockets.length
        rows.push([peer.name, kind.name, each.toFixed(1), String(sockets.length)])
      }
      await running.stop()
    }
  table(['', '', 'KiB each', 'held'], rows)
}

async function hold(kind: Kind, port: number, count: number): Promise<Socket[]> {
  const sockets: Socket[] = []
  while (sockets.length < count) {
    const batch = Array.from({ length: Math.min(100, count - sockets.length) }, () => ask(kind, port))
    for (const socket of await Promise.all(batch)) {
      if (socket === undefined) return sockets
      sockets.push(socket)
    }
  }
  return sockets
}

function ask({ tls, alpn, request }: Kind, port: number): Promise<Socket | undefined> {
  const at = { port, host: '127.0.0.1' }
  const secure = { ...at, servername: 'bench.test', ALPNProtocols: [alpn], rejectUnauthorized: false }
  const socket = tls ? connectTls(secure) : connect(at)
  socket.write(request)
  return new Promise((resolve) => {
    socket.on('error', () => undefined)
    socket.once('close', () => resolve(undefined))
    socket.on('data', (chunk: Buffer) => {
      if (chunk.includes(ANSWER)) resolve(socket)
    })
  })
}

/** What a client sends first: preface, SETTINGS, the acknowledgement of those of the server, and one request. */
function http2Request(): Buffer {
  const encoder = new HpackEncoder()
  encoder.begin()
  encoder.field(':method', 'GET')
  encoder.field(':scheme', 'http')
  encoder.field(':path', '/')
  encoder.field(':authority', 'bench.test')
  const block = encoder.end()
  const frame = (length: number, type: number, flags: number, id: number): Buffer => {
    const head = Buffer.alloc(FRAME_HEAD)
    writeFrameHead(head, 0, length, type, flags, id)
    return head
  }
  const flags = FLAG.endStream | FLAG.endHeaders
  const settings = [frame(0, FRAME.settings, 0, 0), frame(0, FRAME.settings, FLAG.ack, 0)]
  return Buffer.concat([PREFACE, ...settings, frame(block.length, FRAME.headers, flags, 1), block])
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLING))
}
