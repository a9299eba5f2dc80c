import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { readWithin } from './send.js'

/** Field of the request by which a recorder finds what belongs to one of the proof. */
export const PROOF_FIELD = 'x-sluice-proof'

/** A request as an upstream got it. */
export interface ReceivedRequest {
  readonly upstream: string
  readonly method: string
  readonly target: string
  /** Lower-case names; values of equal names joined. */
  readonly fields: Readonly<Record<string, string>>
  /** SHA-256 of the body. */
  readonly body: string
}

const WEBSOCKET_GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/** An upstream of the proof: it answers 200 with what it got, and remembers it. */
export class Recorder {
  readonly upstream: string
  readonly #server: Server
  readonly #received = new Map<string, ReceivedRequest>()

  private constructor(upstream: string) {
    this.upstream = upstream
    this.#server = createServer((request, response) => {
      void readWithin(request).then(
        (body) => {
          this.#remember(request, body)
          response.setHeader('content-type', 'text/plain')
          response.setHeader('x-upstream', upstream)
          response.end(`${upstream} ${request.method} ${request.url}\n`)
        },
        () => response.destroy()
      )
    })
    this.#server.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
      this.#remember(request, Buffer.alloc(0))
      const accept = createHash('sha1')
        .update(`${request.headers['sec-websocket-key']}${WEBSOCKET_GUID}`)
        .digest('base64')
      socket.on('error', () => undefined)
      socket.end(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\nx-upstream: ${upstream}\r\n\r\n`
      )
    })
  }

  /** Listens on 127.0.0.1. `port` 0: any that is free. */
  static async start(upstream: string, port: number): Promise<Recorder> {
    const recorder = new Recorder(upstream)
    await new Promise<void>((resolve, reject) => {
      recorder.#server.once('error', reject)
      recorder.#server.listen(port, '127.0.0.1', resolve)
    })
    return recorder
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Gives away what came with this value of the field, if anything did. */
  take(id: string): ReceivedRequest | undefined {
    const received = this.#received.get(id)
    this.#received.delete(id)
    return received
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  #remember(request: IncomingMessage, body: Buffer): void {
    const id = request.headers[PROOF_FIELD]
    if (typeof id !== 'string') return
    const fields: Record<string, string> = {}
    for (let index = 0; index < request.rawHeaders.length; index += 2) {
      const name = (request.rawHeaders[index] as string).toLowerCase()
      const value = request.rawHeaders[index + 1] as string
      fields[name] = fields[name] === undefined ? value : `${fields[name]}, ${value}`
    }
    const { method = '', url = '' } = request
    this.#received.set(id, {
      upstream: this.upstream,
      method,
      target: url,
      fields,
      body: createHash('sha256').update(body).digest('hex')
    })
  }
}
