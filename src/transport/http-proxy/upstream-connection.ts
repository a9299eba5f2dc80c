import type { ClientRequest } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { BytePipe, Failure } from '../../flow/exchange.js'
import { lostBytesOf } from '../broken-writes.js'
import { type Dialer, sharedKey, type UpstreamKeys } from '../contract.js'
import { LenientAnswer } from '../lenient-answer.js'
import {
  MALFORMED,
  type MalformedMessage,
  MessageScanner,
  type StartLine,
  TrailerSieve,
  VALUE
} from '../message-scanner.js'
import { TURNED_AWAY } from '../pipes.js'

const VERSION = Buffer.from('HTTP/1.')
const VERSION_END = 8
const STATUS_END = 12
const MAX_REASON = 4096
const [CR, LF, SP] = [0x0d, 0x0a, 0x20]

/** Reads `HTTP/1.x SP status [SP reason]` (RFC 9112 4); the parser behind it accepts RTSP, ICE and HTTP/2.0, too. */
class StatusLine implements StartLine {
  #length = 0
  #reason = false
  #cr = false

  get fresh(): boolean {
    return this.#length === 0
  }

  reset(): void {
    this.#length = 0
    this.#reason = this.#cr = false
  }

  take(byte: number): 'more' | 'ended' | MalformedMessage {
    if (this.#cr) return byte === LF ? 'ended' : MALFORMED
    const i = this.#length++
    if (i >= STATUS_END) return this.#rest(byte)
    return holds(byte, i) ? 'more' : MALFORMED
  }

  #rest(byte: number): 'more' | MalformedMessage {
    if (byte === CR) this.#cr = true
    else if (!this.#reason && byte === SP) this.#reason = true
    else if (!this.#reason || VALUE[byte] !== 1 || this.#length > MAX_REASON) return MALFORMED
    return 'more'
  }
}

function holds(byte: number, at: number): boolean {
  if (at < VERSION.length) return byte === VERSION[at]
  if (at === VERSION_END) return byte === SP
  if (at === VERSION.length) return byte === 0x30 || byte === 0x31
  return byte >= (at === VERSION_END + 1 ? 0x31 : 0x30) && byte <= 0x39
}

/** Maximum size of a response head (bytes), the same as in node:http's parser. */
export const MAX_RESPONSE_HEAD = 262_144
/** Limits of a response head for the reader. */
const LIMITS = { headerBytes: MAX_RESPONSE_HEAD, headers: Number.POSITIVE_INFINITY }

/**
 * One upstream connection from start to end: bytes pass a scanner to node:http's parser, which tolerates invalid responses and does not
 * show where a message ends.
 */
export class UpstreamConnection {
  readonly stream: Duplex
  readonly #pool: UpstreamPool
  readonly #key: string
  readonly #reusable: boolean
  readonly #scanner = new MessageScanner(LIMITS, new StatusLine())
  readonly #sieve = new TrailerSieve()
  /** node:http's parser during a request. */
  #feed: ((chunk: Buffer) => void) | undefined = undefined
  #broken: ((why: Failure) => void) | undefined = undefined
  /** Bytes received before the parser was ready. */
  #early: Buffer[] | undefined = undefined
  #state: 'busy' | 'idle' | 'released' | 'gone' = 'busy'
  #poisoned = false
  #read = 0
  reused = false

  readonly #pipe: BytePipe
  readonly #lenient: LenientAnswer | undefined

  constructor(pool: UpstreamPool, { key, reusable, lenient }: Dialer, pipe: BytePipe) {
    this.stream = pipe.duplex
    this.#pipe = pipe
    this.#pool = pool
    this.#key = key
    this.#reusable = reusable
    this.#lenient = lenient === true ? new LenientAnswer() : undefined
    // These stay for the life of the connection: an unsolicited response, or an end, must be noticed while idle.
    this.stream.on('data', this.#onData)
    this.stream.on('end', this.#onGone)
    this.stream.on('close', this.#onGone)
    this.stream.on('free', this.#onFree)
  }

  /** Bytes received from the upstream. */
  get bytesRead(): number {
    return this.#read
  }

  /** Bytes accepted by the kernel, or the carrier of the stream; only changes are meaningful. */
  get bytesWritten(): number {
    const { stream } = this
    const waiting = stream.writableLength + lostBytesOf(stream)
    return stream instanceof Socket ? stream.bytesWritten - waiting : -waiting
  }

  get usable(): boolean {
    return (
      (this.#state === 'busy' || this.#state === 'idle') &&
      !this.#poisoned &&
      lostBytesOf(this.stream) === 0 &&
      this.#pipe.stale !== true &&
      this.stream.writable &&
      !this.stream.readableEnded
    )
  }

  /** True if the connection failed before the peer had read any written bytes. */
  get unreached(): boolean {
    return this.#pipe.unreached === true
  }

  /** Reason of `unreached`. */
  get refusal(): NonNullable<BytePipe['refusal']> {
    return this.#pipe.refusal ?? TURNED_AWAY
  }

  take(): void {
    this.#state = 'busy'
    this.reused = true
  }

  /** Assigns the connection to `request`; calls `broken` if the received bytes are not a response, or a partial one before a reset. */
  carry(request: ClientRequest, broken: (why: Failure) => void): void {
    this.#broken = broken
    this.#lenient?.begin(request.method)
    request.once('socket', this.#onParser)
    request.onSocket(this.stream as Parameters<ClientRequest['onSocket']>[0])
  }

  /**
   * Called while the parser reports a head: number of bytes after it. Undefined: chunks; Infinity: all until the connection is closed.
   * `interim`: another head.
   */
  expect(follows: number | undefined | 'interim'): void {
    if (follows === 'interim') this.#scanner.next()
    else this.#scanner.expect(follows)
  }

  /** Takes the stream out of HTTP: the pool no longer watches it. */
  release(): Duplex {
    this.#state = 'released'
    this.stream.removeListener('data', this.#onData)
    this.stream.removeListener('end', this.#onGone)
    this.stream.removeListener('close', this.#onGone)
    this.stream.removeListener('free', this.#onFree)
    return this.stream
  }

  destroy(): void {
    if (this.#state === 'idle') this.#pool.forget(this.#key, this)
    this.#state = 'gone'
    this.stream.destroy()
  }

  /** node:http has attached its parser: its listener becomes a function for bytes that the scanner has passed. */
  readonly #onParser = (): void => {
    const { stream } = this
    const feed = stream.listeners('data').at(-1) as (chunk: Buffer) => void
    stream.removeListener('data', feed)
    this.#feed = feed.bind(stream)
    const early = this.#early
    this.#early = undefined
    if (early !== undefined) this.#consume(Buffer.concat(early), this.#feed)
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#read += bytes.length
    const chunk = this.#lenient?.read(bytes, bytes.length) ?? bytes
    if (this.#feed !== undefined) this.#consume(chunk, this.#feed)
    else if (this.#broken !== undefined && !this.reused) {
      this.#early ??= []
      this.#early.push(chunk)
    } else this.#surplus()
  }

  #consume(chunk: Buffer, feed: (chunk: Buffer) => void): void {
    let at = 0
    while (at < chunk.length) {
      // Bytes after a switch of protocols belong to the stream's new owner.
      if (this.#state === 'released') this.stream.unshift(chunk.subarray(at))
      if (this.#state !== 'busy' || this.stream.destroyed) return
      if (this.#scanner.state === 'ended') {
        this.#surplus()
        return
      }
      const end = this.#scan(chunk, at, feed)
      if (end === at) return
      at = end
    }
  }

  /** Passes the next part of the response to the parser; returns its end, or `from` for an invalid response. */
  #scan(chunk: Buffer, from: number, feed: (chunk: Buffer) => void): number {
    const scanner = this.#scanner
    const { trailing } = scanner
    const end = scanner.scan(chunk, from)
    if (scanner.state === 'refused') {
      this.#poisoned = true
      this.#broken?.('upstream-malformed')
      return from
    }
    const part = from === 0 && end === chunk.length ? chunk : chunk.subarray(from, end)
    const passed = trailing ? this.#sieve.pass(part, scanner.state === 'ended') : part
    if (passed.length > 0) feed(passed)
    return end
  }

  /** Bytes without a request, or beyond the end of the response, could be read as the next response. */
  #surplus(): void {
    this.#poisoned = true
    if (this.#feed === undefined) this.destroy()
  }

  /** node:http has released the connection. */
  readonly #onFree = (): void => {
    const ended = this.#scanner.state === 'ended'
    this.#feed = undefined
    this.#broken = undefined
    this.#scanner.next()
    if (ended && this.#reusable && this.usable && this.#pool.keep(this.#key, this)) this.#state = 'idle'
    else this.destroy()
  }

  readonly #onGone = (): void => {
    if (this.#state === 'idle') this.destroy()
    else this.#poisoned = true
    // node:http treats every end as clean.
    if (this.#scanner.state === 'body' && lostBytesOf(this.stream) > 0) this.#broken?.('upstream-gone')
  }
}

/** Idle upstream connections by dialer key; the most recently used is reused first. */
export class UpstreamPool {
  readonly #idle = new Map<string, UpstreamConnection[]>()
  #retained: UpstreamKeys | undefined = undefined
  #closed = false

  /** Returns an open idle connection, or undefined. */
  take(key: string): UpstreamConnection | undefined {
    const idle = this.#idle.get(key)
    if (idle === undefined) return undefined
    let found: UpstreamConnection | undefined
    for (let connection = idle.pop(); connection !== undefined && found === undefined; ) {
      if (connection.usable) found = connection
      else {
        connection.destroy()
        connection = idle.pop()
      }
    }
    // Keys of tunnels change without a change of the configuration.
    if (idle.length === 0) this.#idle.delete(key)
    found?.take()
    return found
  }

  /** Returns false if the connection cannot be reused. */
  keep(key: string, connection: UpstreamConnection): boolean {
    if (this.#closed || this.#retained?.has(sharedKey(key)) === false) return false
    const idle = this.#idle.get(key)
    if (idle === undefined) this.#idle.set(key, [connection])
    else idle.push(connection)
    return true
  }

  forget(key: string, connection: UpstreamConnection): void {
    const idle = this.#idle.get(key)
    const at = idle?.indexOf(connection) ?? -1
    if (at !== -1) idle?.splice(at, 1)
    if (idle?.length === 0) this.#idle.delete(key)
  }

  retain(keys: UpstreamKeys): void {
    this.#retained = keys
    for (const [key, idle] of this.#idle) {
      if (!keys.has(sharedKey(key))) for (const connection of [...idle]) connection.destroy()
    }
  }

  /** Closes idle connections of one key. */
  end(key: string): void {
    for (const connection of [...(this.#idle.get(key) ?? [])]) connection.destroy()
  }

  close(): void {
    this.#closed = true
    for (const idle of [...this.#idle.values()]) for (const connection of [...idle]) connection.destroy()
  }
}
