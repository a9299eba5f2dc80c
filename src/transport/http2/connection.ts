import type { Socket } from 'node:net'
import type { Failure } from '../../flow/exchange.js'
import type { Clock } from '../../lib/clock.js'
import type { SocketFacts } from '../connection-facts.js'
import type { ListenLimits } from '../contract.js'
import { READ_BYTES, Wire, type WireOwner } from '../http1/wire.js'
import type { Protocol, Served, ServingHost } from '../listener.js'
import { MALFORMED, type MalformedMessage } from '../message-scanner.js'
import { ignore } from '../pipes.js'
import { Http2Exchange } from './exchange.js'
import { FloodWatch } from './flood-watch.js'
import { CODE, LARGEST } from './frames.js'
import { readHead, writeRefusal } from './heads.js'
import type { HpackDecoder } from './hpack-decoder.js'
import { FIELD_OVERHEAD } from './hpack-tables.js'
import { Http2Session, STREAM_WINDOW } from './session.js'
import type { SessionLimits, SessionOwner } from './session-owner.js'
import { SETTING } from './settings.js'
import type { Http2Stream, StreamEnd } from './stream.js'

const STREAMS = 128
/** Time for a client to answer the first GOAWAY (ms). */
const LINGER = 500
/** Time without streams until a session releases its caches (ms). */
const QUIET = 5_000
/** Time without received bytes until a PING, and from the PING until the session is closed (ms). */
const SILENCE = 60_000
/** Time for a client to acknowledge our SETTINGS (RFC 9113 6.5.3) (ms). */
const SETTLE = 30_000
/** Number of fields read beyond the limit, so that the client gets 431 instead of a reset. */
const SPARE_FIELDS = 128
/** Maximum number of additional pseudo-header fields. */
const PSEUDO_FIELDS = 8

/** One HTTP/2 connection of a client; its streams become concurrent exchanges. */
class Http2Connection implements Served, SessionOwner, WireOwner {
  place = -1
  readonly facts: SocketFacts
  readonly clock: Clock
  readonly host: ServingHost
  readonly #wire: Wire
  readonly #session: Http2Session
  readonly #exchanges = new Set<Http2Exchange>()
  /** Exchanges begun in this turn of the event loop; the same chunk may also reset them. */
  readonly #fresh: Http2Exchange[] = []
  /** Exchanges whose bodies got bytes of the current chunk. */
  readonly #fed: Http2Exchange[] = []
  readonly #floods = new FloodWatch()
  /** Failure of the streams that the end of the connection ends. */
  #cutBy: Failure = 'client-gone'
  #answeredAny = false
  /** True if the session has caches to release. */
  #held = false
  #gone = false
  /** True after the first GOAWAY; `#ending` after the last one. */
  #leaving = false
  #ending = false
  /** Number of unanswered PINGs. */
  #pongsDue = 0
  readonly #startedAt: number
  #since: number
  /** Stream with an incomplete head at the last deadline check (0 if none), and the time when that head was first seen. */
  #openHead = 0
  #openSince = 0
  /** Received bytes at the last progress, its time, and whether a PING was sent since. */
  #received = 0
  #receivedAt: number
  #probed = false

  /** `shared`: read buffer for sockets without TLS, see `Wire`. `since`: start of the timeout for the first request. */
  constructor(host: ServingHost, facts: SocketFacts, pipe: Socket | Wire, shared: Buffer, since: number) {
    this.host = host
    this.facts = facts
    this.clock = host.clock
    this.#startedAt = this.#receivedAt = host.clock.monotonic()
    this.#since = since
    const wire = pipe instanceof Wire ? pipe : new Wire(pipe, shared, this)
    wire.owner = this
    this.#wire = wire
    if (facts.counts === pipe) facts.counts = wire
    this.#session = new Http2Session(wire, this, sessionLimits(host.limits))
    const { streams, listBytes } = sessionLimits(host.limits)
    this.#session.start([
      [SETTING.concurrentStreams, streams],
      [SETTING.initialWindow, STREAM_WINDOW],
      [SETTING.listSize, listBytes],
      [SETTING.connectProtocol, 1]
    ])
  }

  /** Removes a finished exchange. */
  ended(exchange: Http2Exchange): void {
    this.#exchanges.delete(exchange)
    this.#answeredAny = true
    this.#since = this.clock.monotonic()
  }

  /** Schedules the notification of a body for after the current chunk. */
  fed(exchange: Http2Exchange): void {
    this.#fed.push(exchange)
  }

  /** Returns the failure of an exchange for the end of its stream. */
  why(end: StreamEnd): Failure {
    if (end === 'malformed') return 'client-malformed'
    return end === 'peer' ? 'client-gone' : this.#cutBy
  }

  drain(_grace: number): void {
    this.#linger()
  }

  cutOff(): boolean {
    const busy = this.#exchanges.size > 0
    this.#cutBy = 'draining'
    for (const exchange of this.#exchanges) {
      if (exchange.piped) exchange.endPipe()
      else exchange.abort('draining')
    }
    if (this.#session.streams > 0) this.#end()
    else this.#hangUp(CODE.none)
    return busy
  }

  reset(): void {
    for (const exchange of this.#exchanges) exchange.abort('draining')
    this.#session.end(CODE.none)
    this.#wire.cut()
  }

  checkDeadlines(now: number): void {
    const { limits } = this.host
    if (this.#session.over) {
      if (now - this.#since > LINGER) this.#wire.destroy()
      return
    }
    this.#watchSilence(now)
    this.#watchHead(now)
    if (!this.#session.settled && now - this.#startedAt > SETTLE) {
      this.#cutBy = 'client-timeout'
      this.#hangUp(CODE.settingsTimeout)
    }
    if (this.#exchanges.size > 0) {
      for (const exchange of this.#exchanges) exchange.sweep(now, limits)
      return
    }
    if (this.#held && now - this.#since > QUIET) {
      this.#held = false
      this.#session.encoder.release()
      this.#session.decoder.release()
    }
    const allowed = this.#answeredAny ? limits.keepAlive : limits.headTimeout
    if (allowed > 0 && now - this.#since > allowed) this.#linger()
  }

  // Events of the wire.

  received(chunk: Buffer, length: number): void {
    this.#session.received(chunk, length)
    const fed = this.#fed
    if (fed.length === 0) return
    for (const exchange of fed) exchange.flushBody()
    fed.length = 0
  }

  drained(): void {
    this.#session.drained()
  }

  /** Closes the connection when the client closes its direction. */
  wireEnded(): void {
    this.#wire.destroy()
  }

  wireClosed(): void {
    if (this.#gone) return
    this.#gone = true
    this.#session.stop()
    this.host.gone(this)
  }

  // Events of the session.

  begins(stream: Http2Stream, block: HpackDecoder, ended: boolean): void {
    this.#floods.stream()
    const head = readHead(block, ended, this.host.limits)
    if ('status' in head) {
      this.#refuse(stream, head)
      return
    }
    const exchange = new Http2Exchange(this, stream, head, ended)
    stream.user = exchange
    this.#exchanges.add(exchange)
    this.#held = true
    if (this.#fresh.push(exchange) === 1) setImmediate(this.#handOver)
  }

  chatter(): void {
    if (this.#floods.control(this.clock.monotonic())) this.#calm('client-malformed')
  }

  spoiled(): void {
    if (this.#floods.reset(this.clock.monotonic())) this.#calm('client-reset-flood')
  }

  failed(code: number): void {
    if (this.#session.over) return
    this.#cutBy = 'client-malformed'
    this.host.handler.refused(this.facts, 400, 'client-malformed')
    this.#hangUp(code)
  }

  emptied(): void {
    // Its last frames are being written.
    if (this.#ending) setImmediate(this.#onEmpty)
  }

  ponged(): void {
    if (this.#pongsDue === 0) return
    this.#pongsDue--
    if (this.#leaving && this.#pongsDue === 0) this.#end()
  }

  /** Reports malformed trailers of an exchange that the handler has not seen yet. */
  refusedUnseen(exchange: Http2Exchange): void {
    if (this.#fresh.includes(exchange)) this.host.handler.refused(this.facts, MALFORMED.status, MALFORMED.why)
  }

  readonly #onEmpty = (): void => {
    if (this.#session.streams === 0) this.#hangUp(CODE.none)
  }

  /** Detects a client that has gone without closing the connection. */
  #watchSilence(now: number): void {
    const received = this.facts.bytesIn
    if (received !== this.#received) {
      this.#received = received
      this.#receivedAt = now
      this.#probed = false
    } else if (now - this.#receivedAt <= SILENCE) return
    else if (!this.#probed) {
      this.#probed = true
      this.#receivedAt = now
      this.#ping()
    } else {
      this.#cutBy = 'client-timeout'
      this.#session.end(CODE.none)
      this.#wire.destroy()
    }
  }

  /** Times out an incomplete head, which blocks all other frames of the connection (RFC 9113 4.3). */
  #watchHead(now: number): void {
    const { limits, handler } = this.host
    const open = this.#session.openHead()
    if (open !== this.#openHead || open === 0) {
      this.#openHead = open
      this.#openSince = now
    } else if (limits.headTimeout > 0 && now - this.#openSince > limits.headTimeout && !this.#session.over) {
      this.#cutBy = 'client-timeout'
      handler.refused(this.facts, 408, 'client-timeout')
      this.#hangUp(CODE.enhanceYourCalm)
    }
  }

  #ping(): void {
    this.#pongsDue++
    this.#session.ping()
  }

  /** Hands over the new exchanges, except those that were reset in the same chunk. */
  readonly #handOver = (): void => {
    for (const exchange of this.#fresh.splice(0)) if (this.#exchanges.has(exchange)) this.#hand(exchange)
  }

  #hand(exchange: Http2Exchange): void {
    try {
      const work = this.host.handler.exchange(exchange)
      if (work !== undefined) work.catch(() => this.#crashed(exchange))
    } catch {
      this.#crashed(exchange)
    }
  }

  /** Answers 500 after an error in the handler. */
  #crashed(exchange: Http2Exchange): void {
    if (!this.#exchanges.has(exchange)) return
    if (exchange.begun) exchange.abort('internal')
    else {
      this.host.handler.refused(this.facts, 500, 'internal')
      exchange.respond({ status: 500, headers: [] }).catch(ignore)
    }
  }

  /** Refuses a stream that becomes no exchange. A malformed request is reset without a response (RFC 9113 8.1.1). */
  #refuse(stream: Http2Stream, refusal: MalformedMessage): void {
    const { status, why } = refusal
    this.host.handler.refused(this.facts, status, why)
    this.#answeredAny = true
    this.#since = this.clock.monotonic()
    if (refusal === MALFORMED) {
      // Malformed requests count as resets of the client for flood protection.
      stream.reset(CODE.protocol, 'malformed')
      return
    }
    stream.sendHead((encoder) => writeRefusal(encoder, refusal), true)
    stream.dropRequest()
  }

  /** Closes a session that exceeds a flood limit. */
  #calm(why: Failure): void {
    if (this.#session.over) return
    this.#cutBy = why
    this.host.handler.refused(this.facts, 429, why)
    this.#hangUp(CODE.enhanceYourCalm)
  }

  /**
   * Starts a graceful shutdown (RFC 9113 6.8): sends a GOAWAY that still allows new streams, and the final one after a round trip or a timeout.
   */
  #linger(): void {
    if (this.#leaving || this.#session.over) return
    this.#leaving = true
    this.#session.goaway(CODE.none, LARGEST)
    this.#ping()
    setTimeout(() => this.#end(), LINGER).unref()
  }

  /** Sends the final GOAWAY; the connection closes with its last stream. */
  #end(): void {
    if (this.#ending || this.#session.over) return
    this.#leaving = this.#ending = true
    if (this.#session.streams === 0) this.#hangUp(CODE.none)
    else this.#session.goaway(CODE.none)
  }

  /** Sends GOAWAY and FIN, and discards received bytes for a while, because a TCP reset could overtake the GOAWAY. */
  #hangUp(code: number): void {
    if (this.#session.over) return
    this.#since = this.clock.monotonic()
    this.#session.end(code)
    this.#wire.resume()
    this.#wire.end()
    setTimeout(() => this.#wire.destroy(), LINGER).unref()
  }
}

function sessionLimits(limits: ListenLimits): SessionLimits {
  const listFields = limits.headers + SPARE_FIELDS + PSEUDO_FIELDS
  return {
    streams: limits.streams ?? STREAMS,
    windows: limits.windows,
    listFields,
    listBytes: limits.headerBytes + 2 * limits.targetBytes + listFields * FIELD_OVERHEAD + 4096
  }
}

/** Observed properties of a connection that began as HTTP/2. */
interface Opened {
  readonly facts: SocketFacts
  readonly since: number
  readonly before: Buffer
  readonly chunk: Buffer
  readonly length: number
}

/** HTTP/2 for clients that chose it by ALPN, or by prior knowledge without TLS. */
export class Http2Protocol implements Protocol {
  readonly #shared = Buffer.allocUnsafeSlow(READ_BYTES)
  readonly #host: ServingHost

  constructor(host: ServingHost) {
    this.#host = host
  }

  serve(facts: SocketFacts, socket: Socket): Served {
    return new Http2Connection(this.#host, facts, socket, this.#shared, this.#host.clock.monotonic())
  }

  /**
   * Takes over a connection from `previous`, which served it as HTTP/1.1 until it saw the HTTP/2 preface. The bytes read so far are `before`, then
   * `chunk` (from 0 to `length`). `since`: monotonic time of the first byte (ms).
   */
  goOn(previous: Served, pipe: Socket | Wire, { facts, since, before, chunk, length }: Opened): void {
    const connection = new Http2Connection(this.#host, facts, pipe, this.#shared, since)
    this.#host.replaced(previous, connection)
    connection.received(before, before.length)
    connection.received(chunk, length)
  }
}
