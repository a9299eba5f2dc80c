import { createHash } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { WebSocketServer } from 'ws'

interface Teardown {
  teardown(run: () => unknown): void
}

/** What an agent forwards to: answers that show whether bodies, events, upgrades and aborts pass. */
export class Upstream extends EventEmitter {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Requests that wait until enough are here at once. */
  readonly #gathered: (() => void)[] = []
  requests = 0

  private constructor() {
    super()
    this.#server = createServer((request, answer) => {
      this.requests++
      const url = new URL(request.url ?? '/', 'http://upstream')
      switch (url.pathname) {
        case '/hash': {
          const hash = createHash('sha256')
          request.on('data', (chunk: Buffer) => hash.update(chunk))
          request.on('end', () => answer.end(hash.digest('hex')))
          return
        }
        case '/bytes':
          answer.writeHead(200, { 'content-length': Number(url.searchParams.get('count')) })
          Readable.from(pattern(Number(url.searchParams.get('count')))).pipe(answer)
          return
        case '/gather':
          this.#gathered.push(() => answer.end(`gathered ${url.searchParams.get('id')}`))
          if (this.#gathered.length === Number(url.searchParams.get('count'))) {
            for (const end of this.#gathered.splice(0)) end()
          }
          return
        case '/events':
          answer.writeHead(200, { 'content-type': 'text/event-stream' })
          answer.write('data: 1\n\n')
          this.once('next event', () => answer.end('data: 2\n\n'))
          return
        case '/endless':
          answer.writeHead(200)
          answer.write('begun')
          request.once('close', () => this.emit('aborted'))
          return
        default:
          answer.end(`hello from ${request.url}`)
      }
    })
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    const sockets = new WebSocketServer({ server: this.#server, path: '/socket' })
    sockets.on('connection', (socket) => socket.on('message', (data, binary) => socket.send(data, { binary })))
  }

  static async start(t: Teardown): Promise<Upstream> {
    const upstream = new Upstream()
    upstream.#server.listen(0, '127.0.0.1')
    await once(upstream.#server, 'listening')
    t.teardown(() => upstream.stop())
    return upstream
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  stop(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** Answers each byte with itself and the end with "bye". */
export async function startEcho(t: Teardown): Promise<number> {
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => socket.destroy())
    socket.on('data', (chunk) => socket.write(chunk))
    socket.on('end', () => socket.end('bye'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

/** `count` bytes that do not repeat in step with any buffer. */
export function* pattern(count: number): Iterable<Buffer> {
  const piece = Buffer.from(Array.from({ length: 65_521 }, (_, index) => (index * 31) % 251))
  for (let left = count; left > 0; left -= piece.length) yield left < piece.length ? piece.subarray(0, left) : piece
}

export function hashOf(count: number): string {
  const hash = createHash('sha256')
  for (const piece of pattern(count)) hash.update(piece)
  return hash.digest('hex')
}
