import { createServer, type IncomingMessage } from 'node:http'
import { Duplex } from 'node:stream'
import { BodyReader } from '../../src/transport/http1/body-reader.js'
import { keepsAlive, refusalOf, requestFraming, upgradeOf } from '../../src/transport/http1/exchange.js'
import { HeadReader } from '../../src/transport/http1/head-reader.js'
import { FieldNames } from '../../src/transport/http1/serialise.js'

/** One request as a reader understood it. */
export interface ReadMessage {
  readonly method: string
  readonly target: string
  readonly minor: number
  readonly headers: readonly string[]
  readonly body: string
  readonly trailers: readonly string[]
}

/** What a reader made of some bytes. */
export interface Reading {
  readonly messages: readonly ReadMessage[]
  /** A status: refused. 'rest': in the middle of a message. 'clean': behind one. 'last': behind one that ends its connection. */
  readonly end: number | 'rest' | 'clean' | 'last'
}

export const LIMITS = { headerBytes: 2000, headers: 40, targetBytes: 300 }

/** Reads requests with the codec alone, as a connection does it. */
class Reader {
  readonly messages: ReadMessage[] = []
  readonly #head = new HeadReader('request', LIMITS, new FieldNames())
  readonly #bodies = new BodyReader(this.#head)
  #inBody = false
  #last = false
  #body = ''
  #first: Omit<ReadMessage, 'body' | 'trailers'> | undefined = undefined
  refused: number | undefined = undefined

  get end(): Reading['end'] {
    if (this.refused !== undefined) return this.refused
    if (this.#inBody) return 'rest'
    if (this.#last) return 'last'
    return this.#head.fresh ? 'clean' : 'rest'
  }

  feed(piece: Buffer): void {
    let at = 0
    while (at < piece.length && this.refused === undefined && (this.#inBody || !this.#last)) {
      at = this.#inBody ? this.#readBody(piece, at) : this.#readHead(piece, at)
    }
  }

  data(chunk: Buffer, from: number, to: number): void {
    this.#body += chunk.toString('latin1', from, to)
  }

  #readHead(piece: Buffer, at: number): number {
    const head = this.#head
    const used = head.read(piece.toString('latin1', at))
    if (used === -1) {
      this.refused = head.refusal?.status
      return piece.length
    }
    this.refused = refusalOf(head)?.status
    const { method, target, minor, list } = head
    this.#first = { method, target, minor, headers: list }
    const framing = requestFraming(head)
    this.#last = !keepsAlive(head) || upgradeOf(head, framing) !== undefined
    if (this.refused !== undefined) return piece.length
    this.#inBody = framing.kind !== 'none'
    if (framing.kind === 'none') this.#whole([])
    else {
      this.#bodies.begin(framing.kind === 'open' ? 'chunked' : 'length', framing.kind === 'length' ? framing.bytes : 0)
      if (this.#bodies.done) this.#whole([])
    }
    return at + used
  }

  #readBody(piece: Buffer, from: number): number {
    const at = this.#bodies.read(piece, from, piece.length, this)
    this.refused = this.#bodies.refusal?.status
    if (this.#bodies.done) this.#whole(this.#bodies.fields)
    return at
  }

  #whole(trailers: readonly string[]): void {
    this.messages.push({ ...(this.#first as ReadMessage), body: this.#body, trailers })
    this.#body = ''
    this.#inBody = false
    this.#head.next()
  }
}

/** What the codec makes of requests that arrive in these pieces. */
export function readRequests(pieces: readonly Buffer[]): Reading {
  const reader = new Reader()
  for (const piece of pieces) reader.feed(piece)
  return { messages: reader.messages, end: reader.end }
}

/** What llhttp, node's own parser, makes of the same bytes: the whole requests, in order. */
export async function readByNode(bytes: Buffer): Promise<readonly ReadMessage[]> {
  const messages: ReadMessage[] = []
  const server = createServer({ requireHostHeader: false, maxHeaderSize: 100_000 })
  server.maxHeadersCount = 0
  const read = (request: IncomingMessage, done: () => void): void => {
    let body = ''
    request.setEncoding('latin1')
    request.on('data', (text: string) => {
      body += text
    })
    request.on('end', () => {
      const { method = '', url = '', rawHeaders, rawTrailers, httpVersionMinor } = request
      messages.push({ method, target: url, minor: httpVersionMinor, headers: rawHeaders, body, trailers: rawTrailers })
      done()
    })
  }
  const answered = (request: IncomingMessage, response: { end(): unknown }): void => read(request, () => response.end())
  server.on('request', answered)
  server.on('checkContinue', answered)
  server.on('checkExpectation', answered)
  const stream = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() })
  const over = new Promise<void>((resolve) => stream.once('close', resolve))
  server.on('connect', (request: IncomingMessage) => {
    const { method = '', url = '', rawHeaders, httpVersionMinor } = request
    setTimeout(() => {
      messages.push({ method, target: url, minor: httpVersionMinor, headers: rawHeaders, body: '', trailers: [] })
      stream.destroy()
    }, 0)
  })
  // What was read before the error is still on its way through the streams.
  server.on('clientError', () => setTimeout(() => stream.destroy(), 0))
  server.emit('connection', stream)
  stream.push(bytes)
  stream.push(null)
  await over
  return messages
}
