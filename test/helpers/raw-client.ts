import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

/** One parsed HTTP/1.x answer; names in the case they came in. */
export interface RawAnswer {
  readonly status: number
  readonly reason: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
  readonly trailers: readonly (readonly [string, string])[]
}

/** One end of a TCP connection in a test: bytes out as they are written, bytes in as latin1 text. */
export class RawPeer {
  readonly socket: Socket
  /** Everything received so far. */
  text = ''
  ended = false
  /** The error code of the end, if it was not clean. */
  error: string | undefined = undefined
  readonly closed: Promise<void>
  #read = 0
  #waiting: (() => void)[] = []

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => {
      this.text += chunk.toString('latin1')
      this.#wake()
    })
    socket.on('end', () => {
      this.ended = true
      this.#wake()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.error = error.code
    })
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.#wake()
        resolve()
      })
    })
  }

  send(bytes: string | Uint8Array): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** Half-close. */
  end(): void {
    this.socket.end()
  }

  /** RST. */
  reset(): void {
    this.socket.resetAndDestroy()
  }

  /** Resolves with all text so far once it holds `wanted`; rejects when the connection closed before. */
  async until(wanted: string | RegExp | ((text: string) => boolean)): Promise<string> {
    const holds = (): boolean => {
      if (typeof wanted === 'function') return wanted(this.text)
      return typeof wanted === 'string' ? this.text.includes(wanted) : wanted.test(this.text)
    }
    while (!holds()) {
      if (this.socket.destroyed) throw new Error(`closed before ${String(wanted)}; got ${JSON.stringify(this.text)}`)
      await this.#more()
    }
    return this.text
  }

  /** Resolves when the other side has sent its FIN or RST. */
  async untilEnd(): Promise<void> {
    while (!this.ended && !this.socket.destroyed) await this.#more()
  }

  /** The next answer on this connection, interim ones included. `method` as it was asked. */
  async answer(method = 'GET'): Promise<RawAnswer> {
    const parse = (text: string, over: boolean) => parseAnswer(text, method, over)
    const { answer, length } = await this.whole('answer', this.#read, parse, () => this.ended || this.socket.destroyed)
    this.#read += length
    return answer
  }

  /** What `parse` finds in the text behind `from`. As long as that is not whole, `parse` answers how long it has to be at least. */
  protected async whole<Found extends object>(
    what: string,
    from: number,
    parse: (text: string, over: boolean) => Found | number,
    isOver: () => boolean
  ): Promise<Found> {
    for (let least = 0; ; ) {
      const over = isOver()
      if (over || this.text.length - from >= least) {
        const found = parse(this.text.slice(from), over)
        if (typeof found !== 'number') return found
        least = found
      }
      if (over) throw new Error(`no complete ${what}; got ${JSON.stringify(this.text.slice(from))}`)
      await this.#more()
    }
  }

  /** What came behind the answers that were read. */
  get rest(): string {
    return this.text.slice(this.#read)
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
    })
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}

/** Connects to a port of this machine. Half-open, so that a test decides about its own end. */
export async function rawClient(port: number): Promise<RawPeer> {
  const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true })
  await once(socket, 'connect')
  return new RawPeer(socket)
}

/** The same over TLS; any certificate is accepted. */
export async function secureClient(port: number, servername: string): Promise<RawPeer> {
  const options = { host: '127.0.0.1', port, servername, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] }
  // Half-open is an option of the socket below; the types of TLS leave it out.
  const socket = connectTls(Object.assign(options, { allowHalfOpen: true }))
  await once(socket, 'secureConnect')
  socket.setNoDelay(true)
  return new RawPeer(socket)
}

/** Values of all fields called `name`, in order. */
export function valuesOf(answer: RawAnswer, name: string): string[] {
  return answer.headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value)
}

/** The first line and the fields of a message; `from`: where its body begins. Undefined while they are not whole. */
export function readHead(text: string) {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const [line = '', ...lines] = text.slice(0, end).split('\r\n')
  const headers = lines.map(split)
  const field = (name: string): string | undefined => headers.find(([key]) => key.toLowerCase() === name)?.[1]
  return { line, headers, field, from: end + 4 }
}

function parseAnswer(text: string, method: string, over: boolean): { answer: RawAnswer; length: number } | number {
  const head = readHead(text)
  if (head === undefined) return text.length + 1
  const { line, headers, field, from } = head
  const status = Number(line.slice(9, 12))
  const reason = line.slice(13)
  const finish = (body: string, length: number, trailers: [string, string][] = []) => ({
    answer: { status, reason, headers, body, trailers },
    length
  })
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return finish('', from)
  if (field('transfer-encoding') === 'chunked') {
    const chunked = parseChunks(text.slice(from))
    if (typeof chunked === 'number') return from + chunked
    return finish(chunked.body, from + chunked.length, chunked.trailers)
  }
  const length = field('content-length')
  if (length === undefined) return over ? finish(text.slice(from), text.length) : text.length + 1
  const end = from + Number(length)
  return text.length < end ? end : finish(text.slice(from, end), end)
}

/** A chunked body (RFC 9112 7.1); while it is not whole, how long the text has to be at least. */
export function parseChunks(text: string): { body: string; length: number; trailers: [string, string][] } | number {
  let at = 0
  let body = ''
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return text.length + 1
    const size = Number.parseInt(text.slice(at, lineEnd), 16)
    at = lineEnd + 2
    if (size === 0) break
    if (text.length < at + size + 2) return at + size + 2
    body += text.slice(at, at + size)
    at += size + 2
  }
  const trailers: [string, string][] = []
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return text.length + 1
    const line = text.slice(at, lineEnd)
    at = lineEnd + 2
    if (line === '') return { body, length: at, trailers }
    trailers.push(split(line))
  }
}

function split(line: string): [string, string] {
  const colon = line.indexOf(':')
  return [line.slice(0, colon), line.slice(colon + 1).trim()]
}
