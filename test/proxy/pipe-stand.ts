import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { type ClientHttp2Stream, connect as connectHttp2 } from 'node:http2'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import type { Test } from 'tap'
import { startProduct } from '../capabilities/tunnel/agents/product.js'
import { ourAgent } from '../capabilities/tunnel/our-agent.js'
import { create } from '../helpers/account.js'
import type { Engine, RunningSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { freePort } from './free-port.js'

const KEY = 'dGhlIHNhbXBsZSBub25jZQ=='
/** Of RFC 6455 1.3. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const LABELS = { app: 'pipe' }
const HOST = 'tunnel.example.com'

/** How the upstream of a pipe behaves when the client has ended: it does not end, it ends as well, or it resets. */
export const upstreamWays = ['holds', 'ends', 'resets', 'ends first', 'resets first', 'does not read'] as const
export type UpstreamWay = (typeof upstreamWays)[number]

/** How a client leaves a pipe. The first one ends its direction and stays. */
export const clientWays = ['end', 'end, then reset', 'end behind data', 'reset', 'close', 'stay'] as const
export type ClientWay = (typeof clientWays)[number]

/** How a pipe comes about. */
export const pipeKinds = ['websocket', 'websocket over TLS', 'websocket over HTTP/2', 'TCP edge', 'tunnel'] as const
export type PipeKind = (typeof pipeKinds)[number]

/** The client's end of a pipe that stands. */
interface ClientPipe {
  readonly stream: Duplex
  /** RST, or its like. */
  reset(): void
}

/** The product with one upstream, an edge for TCP and an agent, and pipes of every kind through it. */
export class PipeStand {
  readonly sluice: RunningSluice
  /** Connections of the upstream that are open. */
  readonly upstreams = new Set<Socket>()
  way: UpstreamWay = 'holds'
  readonly #tcpPort: number
  readonly #tlsPort: number
  readonly #clients = new Set<Socket>()

  private constructor(sluice: RunningSluice, tcpPort: number, tlsPort: number) {
    this.sluice = sluice
    this.#tcpPort = tcpPort
    this.#tlsPort = tlsPort
  }

  static async start(
    t: Test,
    setup: { readonly engine?: Engine; readonly options?: Readonly<Record<string, string>> }
  ): Promise<PipeStand> {
    let stand: PipeStand | undefined
    const server = createServer({ allowHalfOpen: true }, (socket) => stand?.serve(socket)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const [tcpPort, tlsPort] = [await freePort(), await freePort()]
    const options = { LISTENERS: `https://127.0.0.1:${tlsPort}`, ...setup.options }
    const product = await startProduct(t, { ...setup, options, upstream: { port } })
    const { sluice, agents } = product
    const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
    await create(sluice, '/edges/tcp', {
      hostports: [`localhost:${tcpPort}`],
      backend: { enabled: true, backend_id: backend.id }
    })
    await product.site(HOST, LABELS)
    const { token } = await product.credential()
    const agent = await ourAgent.start(agents, token, { labels: LABELS, target: port })
    stand = new PipeStand(sluice, tcpPort, tlsPort)
    const running = stand
    t.teardown(async () => {
      running.#end(server)
      await agent.close()
    })
    return stand
  }

  /** The upstream: switches protocols where it is asked to, and behaves as `way` says. */
  serve(socket: Socket): void {
    const { way } = this
    this.upstreams.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => this.upstreams.delete(socket))
    socket.once('data', (head: Buffer) => {
      const key = /^sec-websocket-key: *(.+)\r$/im.exec(head.toString('latin1'))?.[1]
      const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64')
      if (key !== undefined)
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`
        )
      socket.write('hello')
      if (way === 'does not read') socket.pause()
      else if (way === 'ends first') socket.end()
      else if (way === 'resets first') setTimeout(() => socket.resetAndDestroy(), 20)
    })
    socket.on('end', () => {
      if (way === 'ends') socket.end()
      else if (way === 'resets') socket.resetAndDestroy()
    })
  }

  /** A pipe that stands: its client has read a word of the upstream. */
  async open(kind: PipeKind): Promise<ClientPipe> {
    const pipe = kind === 'websocket over HTTP/2' ? await this.#openStream() : await this.#openSocket(kind)
    const { stream } = pipe
    stream.on('error', () => undefined)
    let text = ''
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
    })
    await until(() => text.includes('hello') || text.startsWith('HTTP/1.1 5') || stream.destroyed)
    if (!text.includes('hello') && !this.way.endsWith('first')) throw new Error(`${kind}: the pipe does not stand`)
    return pipe
  }

  /** Opens a pipe, and ends it as `way` says. Resolves when the client has done its part. */
  async leave(kind: PipeKind, way: ClientWay): Promise<void> {
    const pipe = await this.open(kind)
    const { stream } = pipe
    if (stream.destroyed) return
    switch (way) {
      case 'end':
        stream.end()
        return
      case 'end, then reset':
        stream.end()
        await until(() => stream.writableFinished || stream.destroyed)
        await new Promise((resolve) => setTimeout(resolve, 10))
        pipe.reset()
        return
      case 'end behind data':
        stream.end(Buffer.alloc(1_000_000))
        return
      case 'reset':
        pipe.reset()
        return
      case 'close':
        stream.destroy()
    }
  }

  /** Descriptors of this process without those of the clients and of the upstream: sockets that have read an end do not notice a reset. */
  get descriptors(): number {
    return readdirSync('/proc/self/fd').length - this.#clients.size - this.upstreams.size
  }

  /** Closes what clients and upstream still have. */
  clear(): void {
    for (const end of [...this.#clients, ...this.upstreams]) end.destroy()
  }

  async #openSocket(kind: PipeKind): Promise<ClientPipe> {
    const port = kind === 'TCP edge' ? this.#tcpPort : this.sluice.port
    const below = await this.#connect(kind === 'websocket over TLS' ? this.#tlsPort : port)
    const socket = kind === 'websocket over TLS' ? connectTls({ socket: below, rejectUnauthorized: false }) : below
    const host = kind === 'tunnel' ? HOST : 'a.test'
    if (kind === 'TCP edge') socket.write('hi')
    else
      socket.write(
        `GET /pipe HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n`
      )
    return { stream: socket, reset: () => below.resetAndDestroy() }
  }

  async #connect(port: number): Promise<Socket> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    this.#clients.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => this.#clients.delete(socket))
    await once(socket, 'connect')
    return socket
  }

  async #openStream(): Promise<ClientPipe> {
    const socket = await this.#connect(this.sluice.port)
    const session = connectHttp2(`http://127.0.0.1:${this.sluice.port}`, { createConnection: () => socket })
    session.on('error', () => undefined)
    await once(session, 'remoteSettings')
    const stream: ClientHttp2Stream = session.request(
      { ':method': 'CONNECT', ':protocol': 'websocket', ':scheme': 'http', ':path': '/pipe', ':authority': 'a.test' },
      { endStream: false }
    )
    stream.on('close', () => session.close())
    return { stream, reset: () => stream.close(8) }
  }

  #end(server: Server): void {
    this.clear()
    server.close()
  }
}
