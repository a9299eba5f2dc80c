import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Failure } from '../../flow/exchange.js'
import type { Clock } from '../../lib/clock.js'
import type { SocketFacts } from '../connection-facts.js'
import type { ListenLimits } from '../contract.js'
import { endIdle, type Protocol, type Served, type ServingHost } from '../listener.js'
import { MALFORMED, type Refusal } from '../message-scanner.js'
import { cut, ignore } from '../pipes.js'
import { Http2Exchange } from './exchange.js'
import { readHead } from './heads.js'
import { joinInput } from './joined-input.js'

/** What nghttp2 calls what a client did wrong → how HTTP/2 says it (RFC 9113 7). */
const CODES: ReadonlyMap<unknown, number> = new Map([
  // NGHTTP2_ERR_PROTO, _STREAM_CLOSED, _FRAME_SIZE_ERROR, _HEADER_COMP, _FLOW_CONTROL
  [-505, constants.NGHTTP2_PROTOCOL_ERROR],
  [-510, constants.NGHTTP2_STREAM_CLOSED],
  [-522, constants.NGHTTP2_FRAME_SIZE_ERROR],
  [-523, constants.NGHTTP2_COMPRESSION_ERROR],
  [-524, constants.NGHTTP2_FLOW_CONTROL_ERROR]
])

/** The code for GOAWAY of an error that ends a session; undefined when it says nothing of the client. */
function errorCode(error: unknown): number | undefined {
  return error instanceof Error ? CODES.get((error as NodeJS.ErrnoException).errno) : undefined
}

const SECOND = 1000
/** Resets that a client may send within a second. */
const RESETS = 100
/** Of so many streams at most half may be reset. */
const STREAMS_AT_ONCE = 200
/** PING and SETTINGS frames within a second; each costs an answer. Some clients measure the way with a PING per round trip. */
const CONTROLS = 1000

/** At most `most` events in any second. */
class Rate {
  readonly #times: Float64Array
  #next = 0

  constructor(most: number) {
    this.#times = new Float64Array(most).fill(Number.NEGATIVE_INFINITY)
  }

  /** True when this one is too many. `now` in milliseconds. */
  exceeds(now: number): boolean {
    const oldest = this.#times[this.#next] as number
    this.#times[this.#next] = now
    this.#next = (this.#next + 1) % this.#times.length
    return now - oldest < SECOND
  }
}

/**
 * Tells a client that floods one session from one that changes its mind. Each method is true when the session must end;
 * `now` is of the monotonic clock, in milliseconds.
 */
class FloodWatch {
  readonly #resets = new Rate(RESETS)
  #controls: Rate | undefined = undefined
  #streamsOfBlock = 0
  #resetsOfBlock = 0

  /** A stream began. */
  stream(): void {
    if (++this.#streamsOfBlock <= STREAMS_AT_ONCE) return
    this.#streamsOfBlock = 1
    this.#resetsOfBlock = 0
  }

  /** The client reset a stream. */
  reset(now: number): boolean {
    return this.#resets.exceeds(now) || ++this.#resetsOfBlock > STREAMS_AT_ONCE / 2
  }

  /** A PING or SETTINGS frame came. */
  control(now: number): boolean {
    this.#controls ??= new Rate(CONTROLS)
    return this.#controls.exceeds(now)
  }
}

const STREAMS = 128
/** How long a session that has ended may take to close. */
const LINGER = 500
/** A session that nothing came from for so long is asked for a sign of life; one that gives none for so long again is given up. */
const SILENCE = 60_000
/** The largest stream id: a first GOAWAY with it says that the end is near and not yet what is refused (RFC 9113 6.8). */
const LAST_STREAM = 2 ** 31 - 1
/** Length of a PING frame with its header (RFC 9113 4.1, 6.7). */
const PING_BYTES = 17
/** What HPACK adds to each field when it counts a list (RFC 7541 4.1). */
const FIELD_OVERHEAD = 32
/** Fields beyond the limit that are still read, so that the client gets 431 and no reset. */
const SPARE_FIELDS = 128

/** One HTTP/2 session: streams become exchanges that run beside each other. */
export class Http2Connection implements Served {
  place = -1
  readonly facts: SocketFacts
  readonly clock: Clock
  readonly #host: ServingHost
  readonly #socket: TLSSocket
  readonly #session: ServerHttp2Session
  readonly #exchanges = new Set<Http2Exchange>()
  /** Those that came since the last turn of the event loop; what was read with them may have reset them. */
  readonly #fresh: Http2Exchange[] = []
  readonly #floods = new FloodWatch()
  /** Why streams end that end from here. */
  #cutBy: Failure = 'client-gone'
  #answeredAny = false
  #gone = false
  #draining = false
  /** The first GOAWAY is out. */
  #leaving = false
  #since: number
  /** Bytes that had come when something last came, and whether we have asked for a sign of life since. */
  #heard = 0
  #heardAt: number
  #probed = false
  /** Has the session shown that it works since then? `#written`: bytes that had left when it was asked to. */
  #proven = true
  #written: number | undefined = undefined

  constructor(host: ServingHost, facts: SocketFacts, socket: TLSSocket) {
    this.#host = host
    this.facts = facts
    this.clock = host.clock
    this.#since = host.clock.monotonic()
    this.#heardAt = this.#since
    this.#socket = socket
    socket.allowHalfOpen = false
    const session = performServerHandshake(socket, sessionOptions(host.limits))
    this.#session = session
    // Node ends a session that nghttp2 refuses with INTERNAL_ERROR, as if the fault were here.
    const destroy = session.destroy.bind(session)
    session.destroy = (error, code) => destroy(error, code ?? errorCode(error))
    session.on('stream', (stream, _headers, flags, rawHeaders?: string[]) => {
      this.#begin(stream, rawHeaders ?? [], (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0)
    })
    session.on('ping', this.#onControl)
    session.on('remoteSettings', this.#onControl)
    session.on('error', this.#onError)
    // The end of the client's direction is the end of the client, as on HTTP/1.1.
    socket.on('end', () => socket.destroy())
    socket.once('close', this.#onClose)
    if (socket.destroyed) process.nextTick(this.#onClose)
  }

  /** The exchange is over, with an answer or without. */
  ended(exchange: Http2Exchange): void {
    this.#exchanges.delete(exchange)
    this.#answeredAny = true
    this.#since = this.clock.monotonic()
  }

  /** The stream of an exchange has closed; `byClient`: with a reset of the client. */
  closed(byClient: boolean): void {
    if (byClient && this.#floods.reset(this.clock.monotonic())) this.#calm('client-reset-flood')
  }

  /** Why an exchange ends whose stream closed under it. */
  get why(): Failure {
    return this.#cutBy
  }

  get idle(): boolean {
    return this.#exchanges.size === 0 && !this.#leaving
  }

  /**
   * What a client sends behind a GOAWAY that it has not read yet is not served but refused, because nghttp2 takes no stream from
   * then on. So an idle session is told only when it has asked once more: until that answer has come, most ask nothing else.
   */
  drain(grace: number): void {
    this.#draining = true
    if (this.idle) endIdle(this, grace)
    else this.linger()
  }

  /**
   * Says that the end is near, and after a round trip (or a while, when the client answers nothing) which stream was the last
   * one (RFC 9113 6.8).
   */
  linger(): void {
    if (this.#leaving || this.#session.closed || this.#session.destroyed) return
    this.#leaving = true
    this.#session.goaway(constants.NGHTTP2_NO_ERROR, LAST_STREAM)
    this.#session.ping(() => this.#end())
    setTimeout(() => this.#end(), LINGER).unref()
  }

  cutOff(): boolean {
    const busy = this.#exchanges.size > 0
    this.#cutBy = 'draining'
    let piped = false
    for (const exchange of this.#exchanges) {
      if (exchange.piped) {
        exchange.endPipe()
        piped = true
      } else exchange.abort('draining')
    }
    if (piped) this.#end()
    else this.#session.destroy()
    return busy
  }

  reset(): void {
    for (const exchange of this.#exchanges) exchange.abort('draining')
    this.#session.destroy()
    cut(this.#socket)
  }

  sweep(now: number): void {
    const { limits } = this.#host
    this.#listen(now)
    if (this.#exchanges.size > 0) {
      for (const exchange of this.#exchanges) exchange.sweep(now, limits.bodyIdle)
      return
    }
    if (this.#session.closed || this.#session.destroyed) {
      if (now - this.#since > LINGER) this.#socket.destroy()
      return
    }
    const allowed = this.#answeredAny ? limits.keepAlive : limits.headTimeout
    if (allowed > 0 && now - this.#since > allowed) endIdle(this, 0)
  }

  /**
   * Notices a session that is dead without an end. nghttp2 makes one of most that break the protocol: it sends GOAWAY, drops
   * what it is to send afterwards, node reads no more, not even the end of the connection, and nobody is told. So a session
   * that something came for has to send a PING when it is quiet again.
   */
  #listen(now: number): void {
    const heard = this.#socket.bytesRead
    if (heard !== this.#heard) {
      this.#heard = heard
      this.#heardAt = now
      this.#probed = this.#proven = false
      this.#written = undefined
    } else if (this.#session.destroyed) return
    else if (!this.#proven && !this.#session.closed) this.#prove()
    else if (!this.#probed && now - this.#heardAt > SILENCE) {
      this.#probed = true
      this.#heardAt = now
      this.#session.ping(ignore)
    } else if (this.#probed && now - this.#heardAt > SILENCE) {
      this.#cutBy = 'client-timeout'
      this.#session.destroy()
    }
  }

  #prove(): void {
    const session = this.#session
    if (this.#written === undefined) {
      this.#written = this.#socket.bytesWritten
      // The answer is no news, but what came with it is.
      session.ping((error) => {
        if (error === null) this.#heard += PING_BYTES
      })
    } else if (this.#socket.bytesWritten !== this.#written) this.#proven = true
    else if (waitingBelow(this.#socket) === 0) {
      this.#cutBy = 'client-malformed'
      this.#host.handler.refused(this.facts, 400, 'client-malformed')
      session.destroy()
      this.#socket.destroy()
    }
  }

  #begin(stream: ServerHttp2Stream, block: readonly string[], ended: boolean): void {
    stream.on('error', ignore)
    this.#floods.stream()
    if (stream.destroyed || stream.closed) {
      // The reset came with the head: no work is done for it.
      this.closed(true)
      return
    }
    const head = readHead(block, ended, this.#host.limits)
    if ('status' in head) {
      this.#refuse(stream, head)
      return
    }
    if (!ended) joinInput(stream)
    const exchange = new Http2Exchange(this, stream, head, ended)
    this.#exchanges.add(exchange)
    if (this.#fresh.push(exchange) === 1) setImmediate(this.#handOver)
  }

  /** No work is done for a stream whose reset came right behind its head. */
  readonly #handOver = (): void => {
    for (const exchange of this.#fresh.splice(0)) if (this.#exchanges.has(exchange)) this.#hand(exchange)
    if (this.#draining) this.linger()
  }

  #hand(exchange: Http2Exchange): void {
    try {
      const work = this.#host.handler.exchange(exchange)
      if (work !== undefined) work.catch(() => this.#crashed(exchange))
    } catch {
      this.#crashed(exchange)
    }
  }

  /** Answers a stream that is no exchange, and reads no more of it. A malformed request gets no answer (RFC 9113 8.1.1). */
  #refuse(stream: ServerHttp2Stream, refusal: Refusal): void {
    const { status, why } = refusal
    this.#host.handler.refused(this.facts, status, why)
    this.#answeredAny = true
    this.#since = this.clock.monotonic()
    if (refusal === MALFORMED) {
      stream.close(constants.NGHTTP2_PROTOCOL_ERROR)
      // A client that sends nothing else is one that resets what it began.
      this.closed(true)
      return
    }
    stream.respond({ ':status': status }, { endStream: true })
    setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR))
  }

  /** The handler failed: 500, as the contract says. */
  #crashed(exchange: Http2Exchange): void {
    if (!this.#exchanges.has(exchange)) return
    if (exchange.begun) exchange.abort('internal')
    else {
      this.#host.handler.refused(this.facts, 500, 'internal')
      exchange.respond({ status: 500, headers: [] }).catch(ignore)
    }
  }

  readonly #onControl = (): void => {
    if (this.#floods.control(this.clock.monotonic())) this.#calm('client-malformed')
  }

  /** Ends a session that floods us. */
  #calm(why: Failure): void {
    if (this.#session.destroyed) return
    this.#cutBy = why
    this.#host.handler.refused(this.facts, 429, why)
    // Without an error node takes the code for none.
    this.#session.destroy(new Error(`the session is ended: ${why}`), constants.NGHTTP2_ENHANCE_YOUR_CALM)
  }

  readonly #onError = (error: NodeJS.ErrnoException): void => {
    // Only what nghttp2 refused; a broken connection is none of it.
    if (error.code !== 'ERR_HTTP2_ERROR' || this.#cutBy !== 'client-gone') return
    this.#cutBy = 'client-malformed'
    this.#host.handler.refused(this.facts, 400, 'client-malformed')
  }

  /** GOAWAY with the last stream that came; the session closes with its last stream. */
  #end(): void {
    if (this.#session.closed || this.#session.destroyed) return
    this.#since = this.clock.monotonic()
    this.#session.close()
  }

  readonly #onClose = (): void => {
    if (this.#gone) return
    this.#gone = true
    for (const exchange of this.#exchanges) exchange.lost()
    this.#session.destroy()
    this.#host.gone(this)
  }
}

/** Bytes that node has and the system has not taken; of what a session writes the socket itself knows nothing. */
function waitingBelow(socket: TLSSocket): number {
  const { _handle: handle } = socket as unknown as { _handle: { readonly writeQueueSize: number } | null }
  return handle?.writeQueueSize ?? 0
}

type SessionOptions = NonNullable<Parameters<typeof performServerHandshake>[1]> & {
  /** Of newer versions of Node; without it such a field is dropped. */
  strictFieldWhitespaceValidation: boolean
}

function sessionOptions(limits: ListenLimits): SessionOptions {
  const fields = limits.headers + SPARE_FIELDS
  return {
    // Pseudo-header fields count too.
    maxHeaderListPairs: fields + 8,
    // White space around a value comes here then, and makes the request malformed.
    strictFieldWhitespaceValidation: false,
    settings: {
      maxConcurrentStreams: limits.streams ?? STREAMS,
      enableConnectProtocol: true,
      maxHeaderListSize: limits.headerBytes + 2 * limits.targetBytes + (fields + 8) * FIELD_OVERHEAD + 4096
    }
  }
}

/** HTTP/2 for clients that chose it in their handshake. */
export class Http2Protocol implements Protocol {
  readonly #host: ServingHost

  constructor(host: ServingHost) {
    this.#host = host
  }

  serve(facts: SocketFacts, socket: Socket): Served {
    return new Http2Connection(this.#host, facts, socket as TLSSocket)
  }
}
