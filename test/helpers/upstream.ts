import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { parseChunks, RawPeer, readHead } from './raw-client.js'

/** What stops with a test. */
interface Teardown {
  teardown(run: () => unknown): void
}

/** One request as its bytes came in. */
export interface RawRequest {
  readonly line: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
  readonly trailers: readonly (readonly [string, string])[]
}

/** A connection to the scripted upstream. */
export class UpstreamPeer extends RawPeer {
  /** Those that `request` gave out, in order. */
  readonly requests: RawRequest[] = []
  #consumed = 0

  /** The next whole request on this connection. */
  async request(): Promise<RawRequest> {
    const { request, length } = await this.whole('request', this.#consumed, parseRequest, () => this.socket.destroyed)
    this.#consumed += length
    this.requests.push(request)
    return request
  }

  /** The head of the next request, whose body stays to come. */
  async head(): Promise<string> {
    await this.until((text) => text.slice(this.#consumed).includes('\r\n\r\n'))
    const text = this.text.slice(this.#consumed)
    return text.slice(0, text.indexOf('\r\n\r\n') + 4)
  }

  /** Bytes behind the requests that were read. */
  get unread(): string {
    return this.text.slice(this.#consumed)
  }
}

/** Certificate and key of a server, in PEM. */
export interface Identity {
  readonly cert: string
  readonly key: string
}

/** A TCP upstream that records every byte and does what a test's script says. */
export class RawUpstream {
  readonly peers: UpstreamPeer[] = []
  readonly #server: Server
  #waiting: (() => void)[] = []
  #taken = 0

  private constructor(script: ((peer: UpstreamPeer) => unknown) | undefined, identity: Identity | undefined) {
    const accept = (socket: Socket): void => {
      const peer = new UpstreamPeer(socket)
      this.peers.push(peer)
      // A script that waits for more than comes fails when the connection closes; the test sees the consequence.
      if (script !== undefined) Promise.resolve(script(peer)).catch(() => peer.socket.destroy())
      for (const wake of this.#waiting.splice(0)) wake()
    }
    const options = { allowHalfOpen: true, noDelay: true }
    this.#server =
      identity === undefined ? createServer(options, accept) : createTlsServer({ ...options, ...identity }, accept)
  }

  /** Listens on a free port; `script` runs for each connection. With an identity it speaks TLS. */
  static async start(t: Teardown, script?: (peer: UpstreamPeer) => unknown, identity?: Identity): Promise<RawUpstream> {
    const upstream = new RawUpstream(script, identity)
    upstream.#server.listen(0, '127.0.0.1')
    await once(upstream.#server, 'listening')
    t.teardown(() => upstream.close())
    return upstream
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** The next connection that this was not yet called for. */
  async next(): Promise<UpstreamPeer> {
    while (this.peers.length <= this.#taken) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
      })
    }
    return this.peers[this.#taken++] as UpstreamPeer
  }

  close(): void {
    this.#server.close()
    for (const peer of this.peers) peer.socket.destroy()
  }
}

/** A script that answers each request on a connection by `answer`. */
export function answering(answer: string | ((request: RawRequest, index: number) => string)) {
  return async (peer: UpstreamPeer): Promise<void> => {
    for (let i = 0; ; i++) {
      const request = await peer.request()
      peer.send(typeof answer === 'string' ? answer : answer(request, i))
    }
  }
}

function parseRequest(text: string): { request: RawRequest; length: number } | number {
  const head = readHead(text)
  if (head === undefined) return text.length + 1
  const { line, headers, field, from } = head
  if (field('transfer-encoding') !== undefined) {
    const chunked = parseChunks(text.slice(from))
    if (typeof chunked === 'number') return from + chunked
    const { body, trailers } = chunked
    return { request: { line, headers, body, trailers }, length: from + chunked.length }
  }
  const end = from + Number(field('content-length') ?? 0)
  if (text.length < end) return end
  return { request: { line, headers, body: text.slice(from, end), trailers: [] }, length: end }
}
