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

/** Maximum number of open streams per connection, even if the server allows more. */
export const STREAMS = 100
/** Receive window of the connection (bytes): over twice the windows of all streams, so that slow streams do not block others. */
const WINDOW = (2 * STREAMS + 2) * STREAM_WINDOW
/** Maximum size of a header list (bytes). */
const LIST_BYTES = 262_144
/** Maximum number of fields in a header list. */
const LIST_FIELDS = 2048
/** Time until a connection without streams is closed (ms). */
const IDLE_TIME = 30_000
/** Time without received bytes until a PING (ms): gRPC servers accept one in five minutes from an idle client. */
const SILENCE = 310_000
/** Timeout for a PING response (ms). */
const PONG_TIME = 10_000
/** Timeout for the acknowledgment of our SETTINGS (ms). */
const SETTLE = 30_000
/** Time for the peer to close after GOAWAY (ms). */
const LINGER = 500

/** Failure if the server closes the connection without GOAWAY. */
const ENDED = { failure: 'upstream-gone', message: 'the connection ended' } as const

/** Owner of a connection. */
export interface ClientHost {
  readonly shared: Buffer
  readonly deadlineTimer: DeadlineTimer
  readonly windows: WindowBudget | undefined
  now(): number
}

/** Owner of a client connection. */
export interface ClientOwner {
  /** Called if a stream may have become available: the peer sent SETTINGS, or a stream ended. */
  room(connection: ClientConnection): void
  /** Called once when the connection accepts no more streams. `before`: the failure, if the connection never accepted any. */
  gone(connection: ClientConnection, before: Failure | undefined, detail: string): void
}

/** User of a client stream. `flushBody` is called after the chunk with its bytes has been read. */
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
  /** Monotonic time when the last stream ended, or when closing began (ms). */
  #since: number
  #pongDue = false
  #pingedAt = 0
  #receivedAt: number
  /** True if a stream has ended on this connection. */
  reused = false
  /** Failure of the streams that the end of the connection ends. */
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

  /** Number of streams that can be opened now. */
  get free(): number {
    // A connection with an unanswered PING may be dead.
    if (!this.#greeted || this.#left || this.#pongDue || this.#pipe.stale === true) return 0
    return Math.min(STREAMS, this.allowed) - this.#session.streams
  }

  /** Maximum number of concurrent streams that the server allows. */
  get allowed(): number {
    return this.#session.peer.concurrentStreams
  }

  /** True if the server accepts an extended CONNECT (RFC 8441 3). */
  get takesWebSockets(): boolean {
    return this.#session.peer.connectProtocol
  }

  /** True if the connection failed before the peer read any written byte. */
  get unreached(): boolean {
    return this.#pipe.unreached === true
  }

  /** Reason of the failure if `unreached`. */
  get refusal(): NonNullable<BytePipe['refusal']> {
    return this.#pipe.refusal ?? TURNED_AWAY
  }

  /** Opens a stream. The caller sends the head at once, and calls only if `free` is above 0. */
  open(user: ClientUser): Http2Stream | undefined {
    const stream = this.#session.open(user)
    if (stream === undefined) this.leave()
    return stream
  }

  /** Schedules `flushBody` of a stream's user for after the current chunk. */
  fed(user: ClientUser): void {
    this.#fed.push(user)
  }

  /** Handles the end of a stream. */
  released(): void {
    this.reused = true
    if (!this.#left) this.#owner.room(this)
  }

  /** Handles a timeout of a stream: sends a PING, and opens no stream until the server has answered. */
  doubt(): void {
    if (this.#pongDue || this.#session.over) return
    this.#pongDue = true
    this.#pingedAt = this.#host.now()
    this.#session.ping()
  }

  /** Accepts no more streams, and closes with the last one. */
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

  // Events of the wire.

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

  // Events of the session.

  /** Resets a stream of the server, which must not open any. */
  begins(stream: Http2Stream): void {
    stream.reset(CODE.protocol, 'malformed')
  }

  chatter(): void {
    if (this.#floods.control(this.#host.now()))
      this.#fail('upstream-malformed', 'too many frames', CODE.enhanceYourCalm)
  }

  /** A server may reset any number of streams, so this counts for no flood protection. */
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

  /** Sends GOAWAY and FIN. */
  #hangUp(code: number): void {
    if (this.#closing) return
    this.#closing = true
    this.#since = this.#host.now()
    this.#session.end(code)
    this.wire.resume()
    this.wire.end()
  }
}
