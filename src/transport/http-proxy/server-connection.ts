import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { BytePipe, Failure } from '../../flow/exchange.js'
import { ByteQueue } from '../../lib/byte-queue.js'
import type { Clock } from '../../lib/clock.js'
import type { SocketFacts } from '../connection-facts.js'
import { awaitsAnswer, isAbandoned, LINGER, OVERTIME, silenceAllowed, WriteWatch } from '../deadlines.js'
import { bareAnswer } from '../http1/serialise.js'
import type { Http2Protocol } from '../http2/connection.js'
import { PrefaceWatch } from '../http2/preface.js'
import { endIdle } from '../idle-end.js'
import type { Served, ServingHost } from '../listener.js'
import { MALFORMED, type MalformedMessage, MessageScanner, TrailerSieve } from '../message-scanner.js'
import { cut, ignore } from '../pipes.js'
import { parserOf, RequestLine, readHead } from './request-head.js'
import { DISCARD_LIMIT, HttpExchange } from './server-exchange.js'

/** Maximum bytes pending behind a running exchange before reading pauses. */
const HELD_LIMIT = 65_536

/**
 * One client connection: bytes pass the scanner to node:http's parser, one exchange at a time. Bytes of the next request wait until the
 * running exchange has its response, so that responses stay in order and a flood of pipelined requests costs one exchange.
 */
export class ClientConnection implements Served {
  place = -1
  readonly facts: SocketFacts
  readonly socket: Socket
  readonly scheme: 'http' | 'https'
  readonly clock: Clock
  /** Reason why a joined pipe was cut by this side. */
  cutBy: Failure | undefined = undefined
  readonly host: ServingHost
  readonly #scanner: MessageScanner
  readonly #sieve = new TrailerSieve()
  readonly #http2: Http2Protocol
  /** Set while the first bytes may be those of HTTP/2. */
  #opening: PrefaceWatch | undefined
  readonly #feed: (chunk: Buffer) => void
  #phase: 'http' | 'lingering' | 'pipe' | 'closed' = 'http'
  #exchange: HttpExchange | undefined = undefined
  #pipe: BytePipe | undefined = undefined
  /** The next response is the last one. */
  #last = false
  /** The client has closed its direction and waits for the remaining responses. */
  #halfClosed = false
  /** Time for which an idle connection is still read while its listener drains (ms). */
  #grace: number | undefined = undefined
  #answeredAny = false
  /** The request that is still being read already has its response. */
  #answered = false
  /** Bytes after the message in progress. */
  readonly #held = new ByteQueue()
  #since: number
  #byteAt: number
  #messageBytes = 0
  #outBefore = 0
  #inBefore = 0
  #discarded = 0
  readonly #writes = new WriteWatch()

  /** `enter` passes the socket to node:http's server, which adds its listeners. `http2` takes over connections that begin as HTTP/2. */
  constructor(host: ServingHost, facts: SocketFacts, socket: Socket, enter: () => void, http2: Http2Protocol) {
    this.host = host
    this.#http2 = http2
    this.#opening = facts.tls === undefined ? new PrefaceWatch() : undefined
    this.facts = facts
    this.socket = socket
    this.scheme = facts.tls === undefined ? 'http' : 'https'
    this.clock = host.clock
    this.#scanner = new MessageScanner(host.limits, new RequestLine(host.limits.targetBytes))
    this.#since = this.#byteAt = host.clock.monotonic()
    enter()
    this.#feed = parserOf(socket)
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('close', this.#onClose)
    socket.on('error', ignore)
    const destroySoon = socket.destroySoon.bind(socket)
    socket.destroySoon = () => {
      // Closing with unread bytes makes the kernel send RST, which can overtake the response (RFC 9112 9.6).
      if (this.#scanner.state !== 'ended' || this.#held.length > 0) this.linger()
      else {
        this.#endsSoon()
        destroySoon()
      }
    }
  }

  get idle(): boolean {
    return this.#phase === 'http' && this.#exchange === undefined && this.#scanner.fresh
  }

  get piped(): boolean {
    return this.#phase === 'pipe'
  }

  /** Handles a request head: creates the exchange and calls the handler. */
  begin(message: IncomingMessage, response: ServerResponse): void {
    const head = readHead(message.method as string, message.httpVersionMinor, message.rawHeaders)
    if (head.refused !== undefined) {
      this.refuse(head.refused === 400 ? MALFORMED : { status: head.refused, why: 'client-malformed' })
      return
    }
    if (message.method === 'CONNECT') head.framing = { kind: 'none' }
    this.#scanner.expect(
      head.framing.kind === 'open' ? undefined : head.framing.kind === 'none' ? 0 : head.framing.bytes
    )
    this.#outBefore = this.#answeredAny ? this.socket.bytesWritten : 0
    const exchange = new HttpExchange(this, message, response, head)
    this.#exchange = exchange
    try {
      const work = this.host.handler.exchange(exchange)
      if (work !== undefined) work.catch(() => this.#crashed(exchange))
    } catch {
      this.#crashed(exchange)
    }
  }

  /** Responds without an exchange, or instead of one, and closes. A request gets at most one response. */
  refuse(refusal: MalformedMessage): void {
    if (this.#phase !== 'http') return
    const exchange = this.#exchange
    if (this.#answered || exchange?.written === true) {
      this.linger()
      return
    }
    if (exchange?.begun === true) {
      this.#abort(refusal.why)
      return
    }
    this.#exchange = undefined
    if (exchange !== undefined) exchange.fail(refusal.why)
    else this.host.handler.refused(this.facts, refusal.status, refusal.why)
    this.socket.write(bareAnswer(refusal))
    this.linger()
  }

  /** The parser or the socket failed. */
  failed(code: string | undefined): void {
    if (code?.startsWith('HPE_') === true) this.refuse(MALFORMED)
    else this.socket.destroy()
  }

  /** The exchange has its complete response. */
  answered(): void {
    const exchange = this.#exchange
    this.#exchange = undefined
    this.#answeredAny = true
    this.#since = this.clock.monotonic()
    if (this.#phase !== 'http') return
    if (this.#scanner.state === 'ended') this.#next()
    else {
      this.#answered = true
      this.#byteAt = this.#since
      exchange?.request.body.drain()
    }
  }

  /** Sends FIN and discards further data until the client closes, too. */
  linger(): void {
    if (this.#phase === 'closed' || this.#phase === 'lingering') return
    this.#phase = 'lingering'
    this.#since = this.clock.monotonic()
    this.#held.clear()
    this.socket.end()
    this.socket.resume()
  }

  /** Restarts the client's timeout after 100 Continue. */
  touch(): void {
    this.#byteAt = this.clock.monotonic()
  }

  /** Returns whether the response about to begin must be the last: draining, or too much of the request is left. */
  endsAfterAnswer(discardable: number): boolean {
    if (this.#halfClosed && this.#held.length === 0) return true
    return this.#last || (this.#scanner.state === 'body' && (this.#scanner.remaining ?? 0) > discardable)
  }

  /** Bytes of the running exchange. */
  counts(): { bytesIn: number; bytesOut: number } {
    const piped = this.#pipe === undefined ? 0 : this.socket.bytesRead - this.#inBefore
    return { bytesIn: this.#messageBytes + piped, bytesOut: this.socket.bytesWritten - this.#outBefore }
  }

  /** Leaves HTTP; returns the bytes after the head. */
  becomePipe(other: BytePipe): Buffer[] {
    this.#inBefore = this.socket.bytesRead - this.#held.length
    const held = this.#held.takePieces()
    this.#phase = 'pipe'
    this.#pipe = other
    this.socket.removeListener('data', this.#onData)
    this.socket.removeListener('end', this.#onEnd)
    return held
  }

  drain(grace: number): void {
    this.#last = true
    this.#grace = grace
    if (this.idle) endIdle(this, grace)
  }

  cutOff(): boolean {
    if (this.idle || (this.#phase === 'lingering' && this.socket.writableLength === 0)) {
      this.#endsSoon()
      this.socket.end(() => this.socket.destroy())
      return false
    }
    if (this.#phase === 'pipe') {
      this.cutBy = 'draining'
      this.socket.end()
      this.#pipe?.end()
    } else this.#abort('draining')
    return true
  }

  /** Sends RST for a pipe that did not end after its FIN. */
  reset(): void {
    this.#pipe?.destroy('draining')
    cut(this.socket)
  }

  checkDeadlines(now: number): void {
    const { limits } = this.host
    if (this.#phase === 'lingering') this.#checkEnd(now)
    if (this.#phase !== 'http') return
    const state = this.#scanner.state
    // A client that meanwhile sends its request is alive.
    const heardAt = state === 'body' ? this.#byteAt : 0
    if (this.#writes.stuck(this.socket, now, limits.streamIdle ?? limits.bodyIdle, heardAt)) {
      this.#abort('client-timeout')
      return
    }
    if (state === 'head') this.#checkHead(now)
    else if (state === 'body' && this.#exchange?.bodyDue !== false) {
      const allowed = silenceAllowed(this.#exchange, limits)
      if (this.#writes.moved(this.socket.bytesWritten) || this.socket.isPaused()) this.#byteAt = now
      else if (allowed > 0 && now - this.#byteAt > allowed) {
        if (this.#exchange === undefined) this.#abort('client-timeout')
        else this.refuse(OVERTIME)
      }
    } else if (this.#halfClosed) {
      if (this.#writes.moved(this.socket.bytesWritten)) this.#byteAt = now
      else if (isAbandoned(now - this.#byteAt, limits)) this.#abort('client-gone')
    }
  }

  #checkEnd(now: number): void {
    // The time for the client's close starts when all bytes have been sent.
    if (this.socket.writableLength > 0) this.#since = now
    if (this.#writes.stuck(this.socket, now, this.host.limits.bodyIdle)) this.#abort('client-timeout')
    else if (now - this.#since > LINGER) this.socket.destroy()
  }

  #checkHead(now: number): void {
    const { headTimeout, keepAlive } = this.host.limits
    if (this.#scanner.fresh) {
      const allowed = this.#answeredAny ? keepAlive : headTimeout
      // Without a request there is no response.
      if (allowed > 0 && now - this.#since > allowed) {
        this.#last = true
        endIdle(this, 0)
      }
    } else if (headTimeout > 0 && now - this.#since > headTimeout) this.refuse(OVERTIME)
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#byteAt = this.clock.monotonic()
    if (this.#phase !== 'http') return
    if (this.#opening !== undefined && this.#leavesHttp1(this.#opening, chunk)) return
    if (this.#held.length > 0) this.#hold(chunk)
    else this.#consume(chunk)
  }

  /** Returns whether the connection uses HTTP/2 and has another owner. node:http has then read the start of a message that never continues. */
  #leavesHttp1(opening: PrefaceWatch, chunk: Buffer): boolean {
    const version = opening.read(chunk, chunk.length)
    if (version !== 'open') this.#opening = undefined
    if (version !== 'http2') return false
    const { socket, facts } = this
    const since = this.#scanner.fresh ? this.#byteAt : this.#since
    this.#phase = 'closed'
    socket.removeListener('data', this.#onData)
    socket.removeListener('end', this.#onEnd)
    socket.removeListener('close', this.#onClose)
    Reflect.deleteProperty(socket, 'destroySoon')
    this.#http2.goOn(this, socket, { facts, since, before: opening.before, chunk, length: chunk.length })
    return true
  }

  #consume(chunk: Buffer): void {
    const scanner = this.#scanner
    let at = 0
    while (at < chunk.length) {
      if (scanner.state === 'ended') {
        this.#hold(at === 0 ? chunk : chunk.subarray(at))
        return
      }
      if (scanner.fresh) {
        this.#since = this.#byteAt
        this.#messageBytes = 0
        this.#discarded = 0
      }
      const { trailing } = scanner
      const end = scanner.scan(chunk, at)
      if ((scanner.state as string) === 'refused') {
        this.refuse(scanner.refusal)
        return
      }
      this.#messageBytes += end - at
      const part = at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end)
      const passed = trailing ? this.#sieve.pass(part, (scanner.state as string) === 'ended') : part
      if (passed.length > 0) this.#feed(passed)
      if (this.#phase !== 'http') return
      if (this.#exchange === undefined && this.#unwanted(end - at)) return
      at = end
    }
  }

  /** Discards the rest of a request with a response; returns whether it is too long. */
  #unwanted(bytes: number): boolean {
    const state = this.#scanner.state
    if (state === 'head') return false
    if (state === 'ended') {
      this.#next()
      return false
    }
    this.#discarded += bytes
    if (this.#discarded <= DISCARD_LIMIT) return false
    this.linger()
    return true
  }

  #hold(chunk: Buffer): void {
    this.#held.push(chunk)
    if (this.#held.length > HELD_LIMIT) this.socket.pause()
  }

  /** Starts the next message. */
  #next(): void {
    this.#scanner.next()
    this.#answered = false
    if (this.#held.length === 0) {
      if (this.#halfClosed) this.socket.destroySoon()
      else if (this.#grace !== undefined) endIdle(this, this.#grace)
      return
    }
    if (this.#held.length > HELD_LIMIT) this.socket.resume()
    this.#byteAt = this.clock.monotonic()
    this.#consume(this.#held.takeAll())
    if (this.#halfClosed && this.#scanner.state !== 'ended') this.#onEnd()
  }

  #endsSoon(): void {
    this.#phase = 'lingering'
    this.#since = this.clock.monotonic()
  }

  #crashed(exchange: HttpExchange): void {
    // An ended exchange needs no response; the connection may be serving the next.
    if (this.#exchange !== exchange) return
    if (exchange.begun) this.#abort('internal')
    else {
      this.host.handler.refused(this.facts, 500, 'internal')
      exchange.respond({ status: 500, headers: [] }).catch(ignore)
    }
  }

  #abort(why: Failure): void {
    const exchange = this.#exchange
    this.#exchange = undefined
    exchange?.fail(why)
    cut(this.socket)
  }

  /** Like the engine `codec`, lets a connection whose requests are complete wait for its responses. */
  readonly #onEnd = (): void => {
    const exchange = this.#exchange
    if (this.#phase === 'lingering') this.socket.destroy()
    if (this.#phase !== 'http') return
    if (exchange !== undefined && this.#scanner.state === 'ended' && awaitsAnswer(exchange, this.host.limits)) {
      this.#halfClosed = true
      this.touch()
      return
    }
    this.#exchange = undefined
    exchange?.fail('client-gone')
    this.socket.destroy()
  }

  readonly #onClose = (): void => {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    this.#exchange?.fail(this.cutBy ?? 'client-gone')
    this.#exchange = undefined
    this.host.gone(this)
  }
}
