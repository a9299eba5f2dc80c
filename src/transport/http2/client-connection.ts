import type { BytePipe, Failure } from '../../flow/exchange.js'
import type { DeadlineOwner, DeadlineTimer } from '../../lib/deadline-timer.js'
import { Wire, type WireOwner } from '../http1/wire.js'
import { TURNED_AWAY } from '../pipes.js'
import { FloodWatch } from './flood-watch.js'
import { CODE } from './frames.js'
import type { WindowBudget } from './receive-window.js'
import { Http2Session, STREAM_WINDOW } from './session.js'
import type { SessionOwner } from './session-owner.js'
import { SETTING } from './settings.js'
import type { Http2Stream, StreamUser } from './stream.js'

/** Streams that we open on one connection, whatever its peer allows. */
export const STREAMS = 100
/**
 * Content of all streams that may arrive before it is consumed: more than twice what the streams may hold back together, so
 * that slow ones never take the window of the others.
 */
const WINDOW = (2 * STREAMS + 2) * STREAM_WINDOW
/** Maximum size of a header list (bytes). */
const LIST_BYTES = 262_144
/** Maximum number of fields in a header list. */
const LIST_FIELDS = 2048
/** A connection without a stream is given up after this time. Milliseconds. */
const IDLE_TIME = 30_000
/** Servers of gRPC take no more than one PING in five minutes from a client that sends nothing. */
const SILENCE = 310_000
/** Timeout for a PING response (ms). */
const PONG_TIME = 10_000
/** Timeout for the acknowledgment of our SETTINGS (ms). */
const SETTLE = 30_000
/** Time for the peer to close after GOAWAY (ms). */
const LINGER = 500

/** Its server ended it without a word of why. */
const ENDED = { failure: 'upstream-gone', message: 'the connection ended' } as const

/** Owner of a connection. */
export interface ClientHost {
  readonly shared: Buffer
  readonly deadlineTimer: DeadlineTimer
  readonly windows: WindowBudget | undefined
  now(): number
}

/** Called with what becomes of a connection. */
export interface ClientOwner {
  /** The SETTINGS of the peer came for the first time, or changed, or a stream has ended: there may be room. */
  room(connection: ClientConnection): void
  /** It takes no more streams. `before`: it never took any; why. Called once. */
  gone(connection: ClientConnection, before: Failure | undefined, detail: string): void
}

/** The user of a stream; it is called when the chunk that fed it has been read. */
export interface ClientUser extends StreamUser {
  flushBody(): void
}

/** One HTTP/2 connection to an upstream (RFC 9113). Streams are opened once the SETTINGS of the server are known. */
export class ClientConnection implements SessionOwner, WireOwner, DeadlineOwner {
  place = -1
  readonly wire: Wire
  /** Scheme of the pipe: 'https' over TLS. */
  readonly scheme: 'http' | 'https'
  readonly #host: ClientHost
  readonly #owner: ClientOwner
  readonly #pipe: BytePipe
  readonly #session: Http2Session
  readonly #floods = new FloodWatch()
  readonly #fed: ClientUser[] = []
  #greeted = false
  #left = false
  #closing = false
  readonly #startedAt: number
  /** When the last stream ended, or the end began. */
  #since: number
  #pongDue = false
  #pingedAt = 0
  #receivedAt: number
  /** It has carried a stream before. */
  reused = false
  /** Why streams end that end with the connection. */
  failure: Failure = 'upstream-gone'
  detail = 'the connection ended'

  constructor(host: ClientHost, owner: ClientOwner, pipe: BytePipe) {
    this.#host = host
    this.#owner = owner
    this.#pipe = pipe
    this.scheme = 'encrypted' in pipe.duplex ? 'https' : 'http'
    this.#startedAt = this.#since = this.#receivedAt = host.now()
    this.wire = new Wire(pipe.duplex, host.shared, this)
    const limits = { streams: 0, listBytes: LIST_BYTES, listFields: LIST_FIELDS, window: WINDOW, windows: host.windows }
    this.#session = new Http2Session(this.wire, this, limits, 'client')
    this.#session.start([
      [SETTING.enablePush, 0],
      [SETTING.initialWindow, STREAM_WINDOW],
      [SETTING.listSize, LIST_BYTES]
    ])
    host.deadlineTimer.add(this)
  }

  /** Streams that may be opened now. */
  get free(): number {
    // One that owes the answer to a PING may be dead.
    if (!this.#greeted || this.#left || this.#pongDue || this.#pipe.stale === true) return 0
    return Math.min(STREAMS, this.allowed) - this.#session.streams
  }

  /** Streams that the server allows at once. */
  get allowed(): number {
    return this.#session.peer.concurrentStreams
  }

  /** Can an extended CONNECT be sent (RFC 8441 3)? */
  get takesWebSockets(): boolean {
    return this.#session.peer.connectProtocol
  }

  /** It broke before the peer had read any of what was written. */
  get unreached(): boolean {
    return this.#pipe.unreached === true
  }

  /** Why it was not read, when `unreached`. */
  get refusal(): NonNullable<BytePipe['refusal']> {
    return this.#pipe.refusal ?? TURNED_AWAY
  }

  /** Opens a stream whose head is to be sent at once; only while `free` is above 0. */
  open(user: ClientUser): Http2Stream | undefined {
    const stream = this.#session.open(user)
    if (stream === undefined) this.leave()
    return stream
  }

  /** A body got bytes; its user is called when the chunk at hand has been read. */
  fed(user: ClientUser): void {
    this.#fed.push(user)
  }

  /** A stream has ended. */
  released(): void {
    this.reused = true
    if (!this.#left) this.#owner.room(this)
  }

  /** A stream ran out of time: sends a PING to learn whether the server is alive. No stream is opened until it answers. */
  doubt(): void {
    if (this.#pongDue || this.#session.over) return
    this.#pongDue = true
    this.#pingedAt = this.#host.now()
    this.#session.ping()
  }

  /** Takes no more streams, and ends with its last one. */
  leave(): void {
    this.#leave(undefined)
    if (this.#session.streams === 0) this.#hangUp(CODE.none)
  }

  checkDeadlines(now: number): void {
    if (this.#closing) {
      if (now - this.#since > LINGER) this.wire.destroy()
      return
    }
    if (this.#pongDue && now - this.#pingedAt > PONG_TIME)
      this.#fail('upstream-timeout', 'no answer to PING', CODE.none)
    else if (!this.#greeted && now - this.#startedAt > PONG_TIME)
      this.#fail('dial-timeout', 'SETTINGS did not come', CODE.none)
    else if (!this.#session.settled && now - this.#startedAt > SETTLE)
      this.#fail('upstream-timeout', 'SETTINGS were not acknowledged', CODE.settingsTimeout)
    else if (this.#session.streams === 0) {
      if (now - this.#since > IDLE_TIME || this.#pipe.stale === true) this.leave()
    } else if (now - this.#receivedAt > SILENCE) {
      this.#receivedAt = now
      this.doubt()
    }
  }

  // What the wire says.

  received(chunk: Buffer, length: number): void {
    this.#receivedAt = this.#host.now()
    this.#session.received(chunk, length)
    for (const user of this.#fed.splice(0)) user.flushBody()
  }

  drained(): void {
    this.#session.drained()
  }

  wireEnded(): void {
    const { failure, message } = this.unreached ? this.refusal : ENDED
    this.#fail(failure, message, CODE.none)
  }

  wireClosed(): void {
    this.#leave('the connection broke')
    this.#session.stop()
    this.#host.deadlineTimer.delete(this)
  }

  // What the session says.

  /** A server opens no streams: the session refuses them. */
  begins(stream: Http2Stream): void {
    stream.reset(CODE.protocol, 'malformed')
  }

  chatter(): void {
    if (this.#floods.control(this.#host.now()))
      this.#fail('upstream-malformed', 'too many frames', CODE.enhanceYourCalm)
  }

  /** A server may refuse as many streams as it likes. */
  spoiled(): void {
    this.#since = this.#host.now()
  }

  failed(code: number): void {
    this.#fail('upstream-malformed', `the connection breaks the rules of HTTP/2 (${code})`, code)
  }

  emptied(): void {
    this.#since = this.#host.now()
    if (this.#left) setImmediate(this.#onEmpty)
  }

  ponged(): void {
    this.#pongDue = false
    this.#owner.room(this)
  }

  adjusted(): void {
    this.#greeted = true
    this.#owner.room(this)
  }

  leaves(): void {
    this.#leave(undefined)
    if (this.#session.streams === 0) setImmediate(this.#onEmpty)
  }

  readonly #onEmpty = (): void => {
    if (this.#session.streams === 0) this.#hangUp(CODE.none)
  }

  #leave(detail: string | undefined): void {
    if (this.#left) return
    this.#left = true
    if (detail !== undefined) this.detail = detail
    this.#owner.gone(this, this.#greeted ? undefined : this.failure, this.detail)
  }

  #fail(failure: Failure, detail: string, code: number): void {
    if (this.#closing) return
    this.failure = failure
    this.detail = detail
    this.#leave(detail)
    this.#hangUp(code)
  }

  /** GOAWAY and FIN. */
  #hangUp(code: number): void {
    if (this.#closing) return
    this.#closing = true
    this.#since = this.#host.now()
    this.#session.end(code)
    this.wire.resume()
    this.wire.end()
  }
}
