import type { BytePipe, Failure, Framing, ResponseHead } from '../../flow/exchange.js'
import type { Clock } from '../../lib/clock.js'
import type { DeadlineOwner, DeadlineTimer } from '../../lib/deadline-timer.js'
import { sharedKey, type UpstreamKeys } from '../contract.js'
import { TURNED_AWAY } from '../pipes.js'
import { type BodySource, CodecBody } from './body.js'
import { BodyReader } from './body-reader.js'
import { HeadReader } from './head-reader.js'
import { MessageWriter } from './message-writer.js'
import type { FieldNames, Serialiser } from './serialise.js'
import { READ_BYTES, textOf, Wire, type WireOwner } from './wire.js'
import { WireDuplex } from './wire-duplex.js'

const LIMITS = { headerBytes: 262_144, headers: Number.MAX_SAFE_INTEGER, targetBytes: 0 }
/** An idle connection is given up before most upstreams do so themselves. Milliseconds. */
const IDLE_TIME = 30_000
const PIECE = 4096
/** The next deadline check records when a connection became idle, which saves a clock reading per request. */
const UNKNOWN = -1
const NONE: Framing = { kind: 'none' }
const OPEN: Framing = { kind: 'open' }

/** Keys of the pool from which on those without a connection are forgotten. */
const KEYS = 256

/** User of a connection that waits for a response. */
export interface UpstreamUser {
  /** The method that was asked; an answer to HEAD has no bytes. */
  readonly method: string
  interim(head: ResponseHead): void
  /** A final head; its body follows. */
  answered(head: ResponseHead, body: CodecBody): void
  switched(head: ResponseHead): void
  /** The bytes that arrived with a head, or with a part of one, have been read. */
  headTaken(): void
  /** The request has been written to its end, or its body broke. */
  sent(why: Failure | undefined): void
  /** The connection ended, or what came is no answer. `begun`: bytes of an answer had come. */
  broken(failure: Failure, detail: string, begun: boolean): void
  checkDeadlines(now: number): void
}

/** State shared by all connections of a client transport. */
export interface UpstreamHost {
  readonly names: FieldNames
  readonly serialiser: Serialiser
  readonly shared: Buffer
  readonly pool: UpstreamPool
  readonly deadlineTimer: DeadlineTimer
}

/** One connection to an upstream, from its opening to its end: one request and its answer at a time. */
export class UpstreamConnection implements WireOwner, BodySource, DeadlineOwner {
  place = -1
  readonly wire: Wire
  readonly writer: MessageWriter
  readonly #host: UpstreamHost
  readonly #key: string
  readonly #reusable: boolean
  readonly #head: HeadReader
  readonly #bodies: BodyReader
  #user: UpstreamUser | undefined = undefined
  #body: CodecBody | undefined = undefined
  #state: 'busy' | 'idle' | 'gone' = 'busy'
  #reading: 'head' | 'body' | 'ended' = 'ended'
  #stream: WireDuplex | undefined = undefined
  /** The request has been written to its end. */
  #asked = false
  #begun = false
  #last = false
  #idleSince = UNKNOWN
  /** Bytes of answers; only their change means something. */
  bytesRead = 0
  /** Did an earlier exchange use it? */
  reused = false

  readonly #pipe: BytePipe

  constructor(host: UpstreamHost, key: string, pipe: BytePipe, reusable: boolean) {
    this.#host = host
    this.#key = key
    this.#pipe = pipe
    this.#reusable = reusable
    this.wire = new Wire(pipe.duplex, host.shared, this)
    this.writer = new MessageWriter(this.wire, this, host.serialiser)
    this.#head = new HeadReader('response', LIMITS, host.names)
    this.#bodies = new BodyReader(this.#head)
    host.deadlineTimer.add(this)
  }

  /** It stands, and what it leads to is given up. */
  get stale(): boolean {
    return this.#pipe.stale === true
  }

  /** It broke before the peer had read any of what was written. */
  get unreached(): boolean {
    return this.#pipe.unreached === true
  }

  /** Why it was not read, when `unreached`. */
  get refusal(): NonNullable<BytePipe['refusal']> {
    return this.#pipe.refusal ?? TURNED_AWAY
  }

  /** A request of `user` is about to be written. */
  begin(user: UpstreamUser): void {
    this.#user = user
    this.#state = 'busy'
    this.#reading = 'head'
    this.#asked = this.#begun = false
    this.#last = !this.#reusable
    this.#head.next()
  }

  received(chunk: Buffer, length: number): void {
    this.bytesRead += length
    const user = this.#reading === 'head' ? this.#user : undefined
    this.#read(chunk, length)
    // From here on the connection may serve the next request.
    user?.headTaken()
  }

  #read(chunk: Buffer, length: number): void {
    if (this.#state === 'idle') this.destroy()
    // Bytes that crossed the request, such as the 408 of a server that has had enough, would be taken for its answer.
    else if (this.reused && !this.#begun && this.#state === 'busy' && this.wire.unsent === this.writer.carried)
      this.#break('upstream-gone', 'bytes came before the request was sent')
    let at = 0
    while (at < length && this.#state === 'busy') {
      if (this.#reading === 'head') at = this.#readHead(chunk, at, length)
      else if (this.#reading === 'body') at = this.#readBody(chunk, at, length)
      else {
        // Bytes beyond the answer could be taken for the next one.
        this.#last = true
        break
      }
    }
    if (this.#state !== 'busy') return
    if (this.#reading === 'body') this.#body?.flush()
    else if (this.#reading === 'ended') this.#complete()
  }

  drained(): void {
    this.writer.drained()
  }

  wireEnded(): void {
    if (this.#state === 'busy' && this.#reading === 'body' && this.#bodies.untilClose && !this.wire.wasReset) {
      this.#reading = 'ended'
      this.#last = true
      this.#body?.finish([])
      this.#complete()
    } else this.#break('upstream-gone', 'the connection ended')
  }

  wireClosed(): void {
    this.#break('upstream-gone', 'the connection broke')
    this.#host.deadlineTimer.delete(this)
  }

  written(why: Failure | undefined): void {
    this.#asked = why === undefined
    this.#user?.sent(why)
    if (why === undefined && this.#reading === 'ended') this.#complete()
  }

  bodyWanted(): void {
    if (this.#reading === 'ended') this.#complete()
  }

  pauseBody(): void {
    if (this.#reading === 'body') this.wire.pause()
  }

  resumeBody(): void {
    if (this.#reading === 'body') this.wire.resume()
  }

  /** The answer's body is not wanted: it could be endless, so the connection closes with it. */
  bodyAbandoned(): void {
    this.destroy()
  }

  checkDeadlines(now: number): void {
    if (this.#state === 'busy') this.#user?.checkDeadlines(now)
    else if (this.#state === 'idle') {
      if (this.#idleSince === UNKNOWN) this.#idleSince = now
      else if (now - this.#idleSince > IDLE_TIME) this.destroy()
    }
  }

  /** Ends the connection; a body that is still arriving breaks with its own failure. Its user is not notified. */
  destroy(): void {
    if (this.#state === 'gone') return
    if (this.#state === 'idle') this.#host.pool.forget(this.#key, this)
    this.#state = 'gone'
    this.#user = undefined
    this.writer.abort()
    this.wire.dropText()
    this.wire.destroy()
    const body = this.#body
    this.#body = undefined
    body?.fail(body.failure)
  }

  data(chunk: Buffer, from: number, to: number): void {
    this.#body?.push(chunk, from, to, this.wire)
  }

  #readHead(chunk: Buffer, from: number, to: number): number {
    const head = this.#head
    const piece = textOf(chunk, from, Math.min(to, from + PIECE))
    this.#begun = true
    const used = head.read(piece)
    if (used === -1) {
      if (head.refusal !== undefined) this.#break('upstream-malformed', 'the response head is malformed')
      return from + piece.length
    }
    const at = from + used
    if (head.status >= 200) this.#answered(head)
    else if (head.status === 101) this.#switched(head, chunk, at, to)
    else {
      const { status, reason, list } = head
      head.next()
      this.#user?.interim({ status, reason, headers: list })
    }
    return at
  }

  #answered(head: HeadReader): void {
    const { status } = head
    const framing = framingOf(head)
    const user = this.#user
    if (framing === undefined || user === undefined) {
      this.#break('upstream-malformed', 'the response head contradicts itself')
      return
    }
    const empty = status === 204 || status === 304 || user.method === 'HEAD'
    if (head.close || head.minor === 0) this.#last = true
    this.#reading = 'ended'
    if (!empty) {
      this.#bodies.begin(head.encodings > 0 ? 'chunked' : framing === OPEN ? 'close' : 'length', head.length)
      if (!this.#bodies.done) this.#reading = 'body'
      this.wire.bulk = framing === OPEN || head.length > READ_BYTES
    }
    const body = new CodecBody(framing, this.#reading === 'body' ? this : undefined, 'upstream-gone')
    this.#body = body
    user.answered({ status, reason: head.reason, headers: head.list }, body)
  }

  #switched(head: HeadReader, chunk: Buffer, from: number, to: number): void {
    const user = this.#user
    const first = from < to ? this.wire.keep(chunk, from, to) : undefined
    this.#reading = 'ended'
    user?.switched({ status: 101, reason: head.reason, headers: head.list })
    if (this.#state !== 'gone' || first === undefined) return
    this.#stream?.received(first, first.length)
  }

  /** Takes the wire out of HTTP. */
  release(): WireDuplex {
    this.#state = 'gone'
    this.#user = undefined
    this.#host.deadlineTimer.delete(this)
    this.wire.bulk = true
    this.wire.readAfterReset()
    this.#stream = new WireDuplex(this.wire, () => undefined)
    return this.#stream
  }

  #readBody(chunk: Buffer, from: number, to: number): number {
    const bodies = this.#bodies
    const end = bodies.read(chunk, from, to, this)
    if (bodies.refusal !== undefined) this.#break('upstream-malformed', 'the response body is malformed')
    else if (bodies.done && this.#state === 'busy') {
      this.#reading = 'ended'
      this.wire.bulk = false
      this.#body?.finish(bodies.fields)
    }
    return end
  }

  /** Request and answer are complete; an answer that came before the end of its request ends the connection. */
  #complete(): void {
    // A body that was not taken holds its connection, so that its time runs out with it.
    if (this.#state !== 'busy' || this.#body?.untaken === true) return
    this.#body = undefined
    const { stream, wasReset } = this.wire
    if (!this.#asked || this.#last || wasReset || !stream.writable || stream.readableEnded) {
      this.destroy()
      return
    }
    this.#user = undefined
    this.#state = 'idle'
    this.reused = true
    // A paused wire would not notice its end.
    this.wire.resume()
    this.#idleSince = UNKNOWN
    if (!this.#host.pool.keep(this.#key, this)) this.destroy()
  }

  #break(failure: Failure, detail: string): void {
    if (this.#state === 'gone') return
    const user = this.#user
    const body = this.#body
    this.#body = undefined
    this.#user = undefined
    user?.broken(failure, detail, this.#begun)
    this.destroy()
    body?.fail(failure)
  }
}

/** Returns the framing of a response (RFC 9112 6.3), or undefined if its head is contradictory. */
function framingOf(head: HeadReader): Framing | undefined {
  if (head.badFraming || head.lengths + head.encodings > 1) return undefined
  if (head.encodings > 0 && head.minor === 0) return undefined
  if (head.status === 204) return NONE
  if (head.lengths > 0) return { kind: 'length', bytes: head.length }
  return head.status === 304 ? NONE : OPEN
}

/** Idle upstream connections by dialer key; the last one used is the first to be used again. */
export class UpstreamPool {
  readonly clock: Clock
  readonly #most: number
  readonly #idle = new Map<string, UpstreamConnection[]>()
  /** Keys without a connection are forgotten when there are so many. */
  #roomFor = KEYS
  #retained: UpstreamKeys | undefined = undefined
  #closed = false

  /** `most`: idle connections that are kept for one upstream. */
  constructor(clock: Clock, most: number) {
    this.clock = clock
    this.#most = most
  }

  /** An idle connection that still stands, or undefined. */
  take(key: string): UpstreamConnection | undefined {
    const idle = this.#idle.get(key)
    for (let connection = idle?.pop(); connection !== undefined; connection = idle?.pop()) {
      if (!connection.stale) return connection
      connection.destroy()
    }
    return undefined
  }

  /** False: the connection is not to be reused. */
  keep(key: string, connection: UpstreamConnection): boolean {
    if (this.#closed || connection.stale || this.#retained?.has(sharedKey(key)) === false) return false
    const idle = this.#idle.get(key)
    if (idle === undefined) {
      this.#forgetEmpty()
      this.#idle.set(key, [connection])
    } else if (idle.length >= this.#most) return false
    else idle.push(connection)
    return true
  }

  /** Keys of tunnels come and go without a change of the configuration. */
  #forgetEmpty(): void {
    if (this.#idle.size < this.#roomFor) return
    for (const [key, idle] of this.#idle) if (idle.length === 0) this.#idle.delete(key)
    this.#roomFor = Math.max(KEYS, 2 * this.#idle.size)
  }

  /** An idle connection that ended by itself. */
  forget(key: string, connection: UpstreamConnection): void {
    const idle = this.#idle.get(key)
    const at = idle?.indexOf(connection) ?? -1
    if (at !== -1) idle?.splice(at, 1)
    if (idle?.length === 0) this.#idle.delete(key)
  }

  /** Ends idle connections of all other keys and keeps none of them from now on. */
  retain(keys: UpstreamKeys): void {
    this.#retained = keys
    for (const [key, idle] of this.#idle) {
      if (keys.has(sharedKey(key))) continue
      this.#idle.delete(key)
      for (const connection of idle) connection.destroy()
    }
  }

  /** Ends idle connections of one key. */
  end(key: string): void {
    const idle = this.#idle.get(key)
    this.#idle.delete(key)
    if (idle !== undefined) for (const connection of idle) connection.destroy()
  }

  close(): void {
    this.#closed = true
    for (const idle of this.#idle.values()) for (const connection of [...idle]) connection.destroy()
    this.#idle.clear()
  }
}
