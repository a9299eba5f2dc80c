import type { Socket } from 'node:net'
import type { ConnectionFacts } from '../../flow/exchange.js'
import { fitsDns } from '../../lib/host.js'
import type {
  ClientHello,
  HandshakeFailure,
  ListenerTlsTable,
  SharedPortHandler,
  TlsEntry,
  TlsPassthrough
} from '../contract.js'
import { readAhead } from '../pipes.js'

/** A larger first message is none of an honest client; with post-quantum keys one has two kilobytes. */
const MAX_BYTES = 16_384
/** Length of a record header (bytes). */
const RECORD_HEADER = 5
/** Length of a handshake message header (bytes). */
const MESSAGE_HEADER = 4
/** Content type of handshake records. */
const HANDSHAKE = 22
/** Message type of a ClientHello. */
const CLIENT_HELLO = 1
/** Type of the server_name extension. */
const SERVER_NAME = 0
/** Type of the ALPN extension. */
const ALPN = 16
/** Name type of a host name. */
const HOST_NAME = 0
/** Characters of a server name. */
const NAME = /^[\w\-.:]+$/

/** Result of reading the bytes so far. */
export type HelloRead = ClientHello | 'more' | 'malformed'

/**
 * Reads a ClientHello out of the records at the beginning of a TLS connection (RFC 8446 4.1.2, 5.1) without taking part
 * in the handshake. However the bytes are cut, by TCP or into records, the result is the same.
 */
export class HelloReader {
  /** Everything that was given to `take`. */
  bytes: Buffer = Buffer.alloc(0)
  /** The message as far as it came, without the records around it. */
  #message: Buffer[] = []
  #messageLength = 0
  /** First byte that no record read so far covers. */
  #at = 0

  take(chunk: Buffer): HelloRead {
    this.bytes = this.bytes.length === 0 ? chunk : Buffer.concat([this.bytes, chunk])
    while (this.bytes.length - this.#at >= RECORD_HEADER) {
      const { bytes } = this
      const length = bytes.readUInt16BE(this.#at + 3)
      if (bytes[this.#at] !== HANDSHAKE || bytes[this.#at + 1] !== 3 || length === 0) return 'malformed'
      if (this.#at + length > MAX_BYTES) return 'malformed'
      const end = this.#at + RECORD_HEADER + length
      if (bytes.length < end) return 'more'
      this.#message.push(bytes.subarray(this.#at + RECORD_HEADER, end))
      this.#messageLength += length
      this.#at = end
      if (this.#messageLength >= MESSAGE_HEADER) {
        const message = Buffer.concat(this.#message)
        this.#message = [message]
        if (message[0] !== CLIENT_HELLO) return 'malformed'
        const wanted = MESSAGE_HEADER + message.readUIntBE(1, 3)
        if (wanted > MAX_BYTES) return 'malformed'
        if (message.length >= wanted) return readHello(new Reader(message.subarray(MESSAGE_HEADER, wanted)))
      }
    }
    // What cannot be the beginning of a record is not waited for.
    return this.bytes.length > this.#at && this.bytes[this.#at] !== HANDSHAKE ? 'malformed' : 'more'
  }
}

function readHello(hello: Reader): ClientHello | 'malformed' {
  // Version and random; session id; cipher suites; compression methods.
  hello.skip(2 + 32)
  hello.vector(1)
  hello.vector(2)
  hello.vector(1)
  let sni: string | undefined
  let alpn: readonly string[] = []
  const seen = new Set<number>()
  const extensions = hello.empty ? undefined : hello.vector(2)
  while (extensions !== undefined && !extensions.empty && !extensions.broken) {
    const type = extensions.number(2)
    const content = extensions.vector(2)
    if (seen.has(type)) return 'malformed'
    seen.add(type)
    if (type === SERVER_NAME) {
      sni = serverName(content)
      if (sni === undefined) return 'malformed'
    } else if (type === ALPN) alpn = protocols(content)
    if (content.broken) return 'malformed'
  }
  if (hello.broken || !hello.empty || extensions?.broken === true) return 'malformed'
  return { sni, alpn }
}

/** The one host name of the extension, lower-case; undefined when it cannot be one (RFC 6066 3) or is longer than the DNS allows. */
function serverName(content: Reader): string | undefined {
  const list = content.vector(2)
  const type = list.number(1)
  const name = list.vector(2).text()
  const whole = !list.broken && list.empty && !content.broken && content.empty
  if (!whole || type !== HOST_NAME || !NAME.test(name)) return undefined
  const host = name.endsWith('.') ? name.slice(0, -1) : name
  return fitsDns(host) ? host.toLowerCase() : undefined
}

function protocols(content: Reader): string[] {
  const list = content.vector(2)
  const names: string[] = []
  while (!list.empty && !list.broken) names.push(list.vector(1).text())
  if (list.broken || !content.empty) content.broken = true
  return names
}

/** Takes numbers and vectors from bytes. What goes beyond the end gives nothing and is noted. */
class Reader {
  broken = false
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get empty(): boolean {
    return this.#at >= this.#bytes.length
  }

  skip(bytes: number): void {
    this.#at += bytes
    if (this.#at > this.#bytes.length) this.broken = true
  }

  /** Big-endian, of `size` bytes. */
  number(size: 1 | 2): number {
    const at = this.#at
    this.skip(size)
    return this.broken ? 0 : this.#bytes.readUIntBE(at, size)
  }

  /** Returns the bytes after a length of `size` bytes. */
  vector(size: 1 | 2): Reader {
    const length = this.number(size)
    const at = this.#at
    this.skip(length)
    const content = new Reader(this.#bytes.subarray(at, at + length))
    content.broken = this.broken
    return content
  }

  text(): string {
    return this.#bytes.toString('latin1')
  }
}

/**
 * Chooses for one handshake at a listener with a shared port handler. Both are asked, because what HTTP asks of its clients holds for
 * the client that turns out to be one.
 */
export class SharedTable implements ListenerTlsTable {
  readonly handler: SharedPortHandler
  /** The shared port handler may be meant: the first byte decides. */
  undecided = false
  readonly #table: ListenerTlsTable

  constructor(table: ListenerTlsTable, handler: SharedPortHandler) {
    this.#table = table
    this.handler = handler
  }

  entryFor(hello: ClientHello, local: ConnectionFacts['local']): TlsEntry | TlsPassthrough | undefined {
    const entry = this.#table.entryFor(hello, local)
    if (entry !== undefined && 'carry' in entry) {
      // A client without a name is carried where an edge for every name says so; what asks for a name of the handler is its own.
      const named = hello.sni === undefined ? undefined : this.handler.entryFor(hello)
      this.undecided = named !== undefined
      return named ?? entry
    }
    // Where a certificate is asked for, no client gets past that by looking like another.
    const other = entry?.clientCertificates === undefined ? this.handler.entryFor(hello) : undefined
    this.undecided = other !== undefined
    return other ?? entry
  }
}

/**
 * Waits for the first byte behind a handshake and puts it back. `done` is called once, with the byte or with why there is
 * none; then the socket is destroyed. Returns the way to give up.
 */
export function readFirstByte(
  secure: Socket,
  done: (first: number | HandshakeFailure) => void
): (why: HandshakeFailure) => void {
  let over = false
  const finish = (first: number | HandshakeFailure): void => {
    if (over) return
    over = true
    stop()
    secure.removeListener('close', onClose)
    if (typeof first === 'string') secure.destroy()
    done(first)
  }
  const onClose = (): void => finish('client-gone')
  const stop = readAhead(
    secure,
    (chunk) => {
      secure.unshift(chunk)
      finish(chunk[0] as number)
      return 'enough'
    },
    onClose
  )
  secure.once('close', onClose)
  if (secure.destroyed) process.nextTick(onClose)
  return finish
}
