import type { Socket } from 'node:net'
import type { BytePipe, ConnectionFacts, Failure, Framing } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { ByteQueue } from '../../lib/byte-queue.js'
import type { Clock } from '../../lib/clock.js'
import type { SocketFacts } from '../connection-facts.js'
import { awaitsAnswer, isAbandoned, LINGER, OVERTIME, silenceAllowed, WriteWatch } from '../deadlines.js'
import { endIdle } from '../idle-end.js'
import type { Served, ServingHost } from '../listener.js'
import type { MalformedMessage } from '../message-scanner.js'
import { type BodySource, CodecBody } from './body.js'
import { BodyReader } from './body-reader.js'
import { CodecExchange, keepsAlive, refusalOf, requestFraming, upgradeOf } from './exchange.js'
import { HeadReader } from './head-reader.js'
import { holdPiece } from './held-bytes.js'
import { MessageWriter } from './message-writer.js'
import { bareAnswer, type FieldNames, type Serialiser } from './serialise.js'
import { countsBelow, READ_BYTES, textOf, Wire, type WireOwner } from './wire.js'
import { WireDuplex } from './wire-duplex.js'

/** Maximum bytes of an early-answered request to read and discard; beyond this the connection is closed. */
const DISCARD_LIMIT = 65_536
/** Maximum bytes pending behind a running exchange before reading pauses. */
const HELD_LIMIT = 65_536
/** Bytes of a chunk read as text at once: a head mostly fits, and little of a following body is copied. */
const PIECE = 4096

const NO_FIELDS: HeaderList = []
const NONE: Framing = { kind: 'none' }

/** State shared by the connections of one listener. */
export interface Shared {
  readonly names: FieldNames
  readonly serialiser: Serialiser
  readonly shared: Buffer
}

/** One client connection: bytes in, one exchange at a time, bytes out. Further requests wait. */
export class ClientConnection implements Served, WireOwner, BodySource {
  readonly facts: ConnectionFacts
  readonly wire: Wire
  readonly writer: MessageWriter
  readonly clock: Clock
  place = -1
  /** Reason why a joined pipe was cut by this side. */
  cutBy: Failure | undefined = undefined
  /** The current response announces that it is the last. */
  closing = false
  readonly serialiser: Serialiser
  readonly host: ServingHost
  readonly #scheme: 'http' | 'https'
  readonly #head: HeadReader
  readonly #bodies: BodyReader
  #phase: 'http' | 'lingering' | 'pipe' | 'closed' = 'http'
  #reading: 'head' | 'body' | 'ended' = 'head'
  #exchange: CodecExchange | undefined = undefined
  /** A WebSocket request with a chunked body: passed as such if the body is empty, else as an ordinary request. */
  #asking: CodecExchange | undefined = undefined
  #body: CodecBody | undefined = undefined
  #duplex: WireDuplex | undefined = undefined
  #pipe: BytePipe | undefined = undefined
  /** The next response is the last one. */
  #last = false
  /** The client has closed its direction and waits for the remaining responses. */
  #halfClosed = false
  /** Time for which an idle connection is still read while its listener drains (ms). */
  #grace: number | undefined = undefined
  #answeredAny = false
  #consuming = false
  /** Bytes after the message in progress. */
  #held: ByteQueue | undefined = undefined
  #since: number
  #byteAt: number
  #messageBytes = 0
  #discarded = 0
  readonly #writes = new WriteWatch()

  constructor(host: ServingHost, { names, serialiser, shared }: Shared, facts: SocketFacts, socket: Socket) {
    this.host = host
    this.clock = host.clock
    this.serialiser = serialiser
    this.wire = new Wire(socket, shared, this)
    // A socket replaced by the wire no longer counts; one below TLS counts encrypted bytes.
    facts.counts = facts.counts === socket ? this.wire : countsBelow(facts.counts, this.wire)
    this.facts = facts
    this.#scheme = this.facts.tls === undefined ? 'http' : 'https'
    this.writer = new MessageWriter(this.wire, this, serialiser)
    this.#head = new HeadReader('request', host.limits, names)
    this.#bodies = new BodyReader(this.#head)
    this.#since = this.#byteAt = host.clock.monotonic()
  }

  get idle(): boolean {
    return this.#phase === 'http' && this.#exchange === undefined && this.#reading === 'head' && this.#head.fresh
  }

  /** Bytes of the running exchange. */
  get bytesIn(): number {
    return this.#messageBytes + (this.#duplex?.bytesRead ?? 0)
  }

  get bytesOut(): number {
    return this.writer.carried + (this.#duplex?.bytesWritten ?? 0)
  }

  received(chunk: Buffer, length: number): void {
    if (this.#phase !== 'http') return
    this.#byteAt = this.clock.monotonic()
    if (this.#held !== undefined) this.#hold(chunk, 0, length)
    else this.#consume(chunk, length)
  }

  drained(): void {
    this.writer.drained()
  }

  /**
   * A client that closes its direction after complete requests may wait for their responses. Any other has probably disconnected, and work
   * for it stops.
   */
  wireEnded(): void {
    if (this.#phase === 'http') {
      const exchange = this.#exchange
      if (exchange !== undefined && this.#reading === 'ended' && awaitsAnswer(exchange, this.host.limits)) {
        this.#halfClosed = true
        this.touch()
        return
      }
      this.#exchange = undefined
      exchange?.fail('client-gone')
    }
    this.wire.destroy()
  }

  wireClosed(): void {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    const exchange = this.#exchange
    this.#exchange = undefined
    exchange?.fail(this.cutBy ?? 'client-gone')
    this.host.gone(this)
  }

  written(why: Failure | undefined): void {
    this.#exchange?.written(why)
  }

  /** The exchange has had its complete response since `now`. */
  answered(now: number): void {
    this.#exchange = undefined
    this.#answeredAny = true
    this.#since = this.#byteAt = now
    if (this.#phase !== 'http') return
    if (this.closing) this.#finish()
    else if (this.#reading !== 'ended') this.wire.resume()
    else if (!this.#consuming) this.#next()
  }

  /** Responds without an exchange, or instead of one, and closes. A request gets at most one response. */
  refuse(refusal: MalformedMessage): void {
    if (this.#phase !== 'http') return
    const exchange = this.#exchange
    const answered = exchange === undefined && this.#reading === 'body' && this.#asking === undefined
    if (this.writer.leaving || answered) {
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
    this.writer.send(bareAnswer(refusal))
    this.linger()
  }

  /** Sends FIN and discards further data until the client closes, too. */
  linger(): void {
    if (this.#phase === 'closed' || this.#phase === 'lingering') return
    this.#phase = 'lingering'
    this.#since = this.clock.monotonic()
    this.#held = undefined
    this.wire.end()
    this.wire.resume()
  }

  /** Restarts the client's timeout after 100 Continue. */
  touch(): void {
    this.#byteAt = this.clock.monotonic()
  }

  /** Returns whether the response about to begin must be the last: draining, or too much of the request is left. */
  endsAfterAnswer(): boolean {
    if (this.#halfClosed && this.#held === undefined && !this.#consuming) return true
    return this.#last || (this.#reading === 'body' && (this.#bodies.left ?? 0) > DISCARD_LIMIT)
  }

  bodyWanted(): void {
    this.#exchange?.wanted()
  }

  pauseBody(): void {
    if (this.#reading === 'body' && this.#phase === 'http') this.wire.pause()
  }

  resumeBody(): void {
    if (this.#phase === 'http') this.wire.resume()
  }

  bodyAbandoned(): void {
    this.resumeBody()
  }

  /** Leaves HTTP; returns the wire as a stream, and the bytes after the head. */
  becomePipe(other: BytePipe): { duplex: WireDuplex; first: readonly Buffer[] } {
    this.#messageBytes += this.#held?.length ?? 0
    const first = this.#held?.takePieces() ?? []
    this.#phase = 'pipe'
    this.#pipe = other
    this.#held = undefined
    this.wire.bulk = true
    this.#duplex = new WireDuplex(this.wire, () => this.wireClosed())
    return { duplex: this.#duplex, first }
  }

  /** Gives the connection up to another protocol. Returns the monotonic time of its first byte; undefined if already rejected. */
  handOver(): number | undefined {
    if (this.#phase !== 'http') return undefined
    this.#phase = 'closed'
    return this.#head.fresh ? this.clock.monotonic() : this.#since
  }

  drain(grace: number): void {
    this.#last = true
    this.#grace = grace
    if (this.idle) endIdle(this, grace)
  }

  cutOff(): boolean {
    if (this.idle || (this.#phase === 'lingering' && this.wire.waiting === 0)) {
      this.#endSoon()
      return false
    }
    if (this.#phase === 'pipe') {
      this.cutBy = 'draining'
      this.#duplex?.end()
      this.#pipe?.end()
    } else this.#abort('draining')
    return true
  }

  /** Sends RST for a pipe that did not end after its FIN. */
  reset(): void {
    this.#pipe?.destroy('draining')
    this.wire.cut()
  }

  checkDeadlines(now: number): void {
    if (this.#phase === 'lingering') this.#checkEnd(now)
    if (this.#phase !== 'http') return
    const { limits } = this.host
    const { bodyIdle, streamIdle = bodyIdle } = limits
    if (this.#stuck(now, streamIdle)) this.#abort('client-timeout')
    else if (this.#reading === 'head') this.#checkHead(now)
    else if (this.#reading === 'body' && this.#exchange?.bodyDue !== false) {
      const exchange = this.#exchange
      const allowed = silenceAllowed(exchange, limits)
      if (this.#writes.moved(this.writer.carried) || this.wire.paused) this.#byteAt = now
      else if (allowed > 0 && now - this.#byteAt > allowed) {
        if (exchange === undefined) this.#abort('client-timeout')
        else this.refuse(OVERTIME)
      }
    } else if (this.#halfClosed) {
      if (this.#writes.moved(this.writer.carried)) this.#byteAt = now
      else if (isAbandoned(now - this.#byteAt, limits)) this.#abort('client-gone')
    }
  }

  #checkEnd(now: number): void {
    // The time for the client's close starts when all bytes have been sent.
    if (this.wire.waiting > 0) this.#since = now
    if (this.#stuck(now, this.host.limits.bodyIdle)) this.#abort('client-timeout')
    else if (now - this.#since > LINGER) this.wire.destroy()
  }

  #checkHead(now: number): void {
    const { headTimeout, keepAlive } = this.host.limits
    if (this.#head.fresh) {
      const allowed = this.#answeredAny ? keepAlive : headTimeout
      // Without a request there is no response.
      if (allowed > 0 && now - this.#since > allowed) {
        this.#last = true
        endIdle(this, 0)
      }
    } else if (headTimeout > 0 && now - this.#since > headTimeout) this.refuse(OVERTIME)
  }

  /** Returns whether the client has accepted no pending bytes for longer than `allowed`; one that meanwhile sends its request is alive. */
  #stuck(now: number, allowed: number): boolean {
    const bytes = { bytesWritten: this.facts.bytesOut, writableLength: this.wire.waiting }
    return this.#writes.stuck(bytes, now, allowed, this.#reading === 'body' ? this.#byteAt : 0)
  }

  /** Reads messages from `chunk` until one has to wait. Re-entrant calls only set flags; this loop continues. */
  #consume(chunk: Buffer, length: number): void {
    let at = 0
    this.#consuming = true
    while (at < length && this.#phase === 'http') {
      if (this.#reading === 'ended') {
        if (this.#exchange !== undefined) {
          this.#hold(chunk, at, length)
          break
        }
        this.#nextMessage()
      }
      at = this.#reading === 'head' ? this.#readHead(chunk, at, length) : this.#readBody(chunk, at, length)
    }
    this.#consuming = false
    if (this.#phase !== 'http') return
    if (this.#halfClosed && this.#reading !== 'ended') this.wireEnded()
    else if (this.#reading === 'body') this.#body?.flush()
    else if (this.#reading === 'ended' && this.#exchange === undefined) this.#next()
  }

  #readHead(chunk: Buffer, from: number, to: number): number {
    const head = this.#head
    if (head.fresh) {
      this.#since = this.#byteAt
      this.#messageBytes = this.#discarded = 0
    }
    const piece = textOf(chunk, from, Math.min(to, from + PIECE))
    const used = head.read(piece)
    if (used === -1) {
      this.#messageBytes += piece.length
      if (head.refusal !== undefined) this.refuse(head.refusal)
      return from + piece.length
    }
    this.#messageBytes += used
    this.#begin(head)
    return from + used
  }

  #readBody(chunk: Buffer, from: number, to: number): number {
    const bodies = this.#bodies
    const end = bodies.read(chunk, from, to, this)
    this.#messageBytes += end - from
    if (bodies.refusal !== undefined) this.refuse(bodies.refusal)
    else if (bodies.done) {
      this.#reading = 'ended'
      this.wire.bulk = false
      this.#exchange?.bodyArrived()
      if (this.#asking === undefined) this.#body?.finish(bodies.fields)
      else {
        this.#body?.becomeNone()
        this.#start(this.#asking)
      }
    }
    return end
  }

  /** Bytes of a body were found. */
  data(chunk: Buffer, from: number, to: number): void {
    if (this.#asking !== undefined) {
      this.#asking.upgrade = undefined
      this.#start(this.#asking)
    }
    if (this.#exchange !== undefined) {
      this.#body?.push(chunk, from, to, this.wire)
      return
    }
    this.#discarded += to - from
    if (this.#discarded > DISCARD_LIMIT) this.linger()
  }

  /** Handles a complete head: creates the exchange and calls the handler. */
  #begin(head: HeadReader): void {
    const refusal = refusalOf(head)
    if (refusal !== undefined) {
      this.refuse(refusal)
      return
    }
    const read = requestFraming(head)
    const upgrade = upgradeOf(head, read)
    const framing = upgrade === 'websocket' && read.kind === 'length' ? NONE : read
    const none = framing.kind === 'none'
    const body = new CodecBody(framing, none ? undefined : this, 'client-gone')
    this.#body = body
    this.#expectBody(framing)
    // An expectation needs a body that can be delayed (RFC 9110 10.1.1).
    const expects = this.#reading === 'body' && head.minor === 1 && head.expectation !== ''
    body.awaitsContinue = expects
    if (!none && this.#reading === 'ended') body.finish(NO_FIELDS)
    this.writer.carried = 0
    const request = {
      method: head.method,
      target: head.target,
      authority: head.authority,
      scheme: this.#scheme,
      version: head.minor === 1 ? ('1.1' as const) : ('1.0' as const),
      headers: head.list,
      body
    }
    const exchange = new CodecExchange(this, request, upgrade, expects, keepsAlive(head))
    if (upgrade === 'websocket' && this.#reading === 'body') this.#asking = exchange
    else this.#start(exchange)
  }

  #start(exchange: CodecExchange): void {
    this.#asking = undefined
    this.#exchange = exchange
    this.#handle(exchange)
  }

  #expectBody(framing: Framing): void {
    this.#reading = 'ended'
    if (framing.kind === 'none') return
    const length = framing.kind === 'length' ? framing.bytes : 0
    this.#bodies.begin(framing.kind === 'length' ? 'length' : 'chunked', length)
    if (this.#bodies.done) return
    this.#reading = 'body'
    this.wire.bulk = framing.kind === 'open' || length > READ_BYTES
  }

  #handle(exchange: CodecExchange): void {
    try {
      const work = this.host.handler.exchange(exchange)
      if (work !== undefined) work.catch(() => this.#crashed(exchange))
    } catch {
      this.#crashed(exchange)
    }
  }

  /** The handler failed: 500, as in the contract. */
  #crashed(exchange: CodecExchange): void {
    // An ended exchange needs no response; the connection may be serving the next.
    if (this.#exchange !== exchange) return
    if (exchange.begun) this.#abort('internal')
    else {
      this.host.handler.refused(this.facts, 500, 'internal')
      void exchange.respond({ status: 500, headers: [] })
    }
  }

  #hold(chunk: Buffer, from: number, to: number): void {
    this.#held ??= new ByteQueue()
    holdPiece(this.#held, chunk, from, to, this.wire)
    if (this.#held.length > HELD_LIMIT) this.wire.pause()
  }

  /** Starts the next message; reads pending bytes. */
  #next(): void {
    this.#nextMessage()
    this.wire.resume()
    const held = this.#held
    if (held === undefined) {
      if (this.#halfClosed) this.#endSoon()
      else if (this.#grace !== undefined) endIdle(this, this.#grace)
      return
    }
    this.#held = undefined
    this.#byteAt = this.clock.monotonic()
    const all = held.takeAll()
    this.#consume(all, all.length)
  }

  #nextMessage(): void {
    this.#head.next()
    this.#reading = 'head'
    this.#body = undefined
  }

  /** The last response is sent. Closing with unread bytes makes the kernel send RST, which can overtake it (RFC 9112 9.6). */
  #finish(): void {
    if (this.#reading === 'ended' && this.#held === undefined && !this.#consuming) this.#endSoon()
    else this.linger()
  }

  #endSoon(): void {
    this.#phase = 'lingering'
    this.#since = this.clock.monotonic()
    this.wire.endSoon()
  }

  #abort(why: Failure): void {
    const exchange = this.#exchange
    this.#exchange = undefined
    exchange?.fail(why)
    this.wire.cut()
  }
}
