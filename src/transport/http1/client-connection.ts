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
import { type BodySource, CodecBody, holdPiece } from './body.js'
import { BodyReader } from './body-reader.js'
import { CodecExchange, keepsAlive, refusalOf, requestFraming, upgradeOf } from './exchange.js'
import { HeadReader } from './head-reader.js'
import { MessageWriter } from './message-writer.js'
import { bareAnswer, type FieldNames, type Serialiser } from './serialise.js'
import { countsBelow, READ_BYTES, textOf, Wire, WireDuplex, type WireOwner } from './wire.js'

/** What of an early-answered request is read and thrown away before the connection is given up instead. */
const DISCARD_LIMIT = 65_536
/** Bytes that may wait behind a running exchange before the socket is no longer read. */
const HELD_LIMIT = 65_536
/** How much of a chunk is read as text at once: a head mostly fits, a body behind it is not copied for nothing. */
const PIECE = 4096

const NO_FIELDS: HeaderList = []
const NONE: Framing = { kind: 'none' }

/** What the connections of one listener share. */
export interface Shared {
  readonly names: FieldNames
  readonly serialiser: Serialiser
  readonly shared: Buffer
}

/** One client connection: bytes in, one exchange at a time, bytes out. Requests behind the running one wait. */
export class ClientConnection implements Served, WireOwner, BodySource {
  readonly facts: ConnectionFacts
  readonly wire: Wire
  readonly writer: MessageWriter
  readonly clock: Clock
  place = -1
  /** Why a joined pipe was cut from here. */
  cutBy: Failure | undefined = undefined
  /** The answer at hand said that it is the last. */
  closing = false
  readonly serialiser: Serialiser
  readonly host: ServingHost
  readonly #scheme: 'http' | 'https'
  readonly #head: HeadReader
  readonly #bodies: BodyReader
  #phase: 'http' | 'lingering' | 'pipe' | 'closed' = 'http'
  #reading: 'head' | 'body' | 'ended' = 'head'
  #exchange: CodecExchange | undefined = undefined
  /** Asks for a WebSocket and has a chunked body: handed over as such if that is empty, else as an ordinary request. */
  #asking: CodecExchange | undefined = undefined
  #body: CodecBody | undefined = undefined
  #duplex: WireDuplex | undefined = undefined
  #pipe: BytePipe | undefined = undefined
  /** The next answer is the last one. */
  #last = false
  /** The client has ended its direction and waits for answers to the requests that it sent. */
  #halfClosed = false
  /** What an idle connection is still read for, while its listener drains. Milliseconds. */
  #grace: number | undefined = undefined
  #answeredAny = false
  #consuming = false
  /** What came behind the message that is being answered. */
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
    // A socket that the wire has replaced counts no more; one below TLS counts what has been encrypted.
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
   * A client that ends its direction behind whole requests may wait for their answers. Any other looks like one that is gone, and work for it
   * stops.
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

  /** The exchange has its complete answer, since `now`. */
  answered(now: number): void {
    this.#exchange = undefined
    this.#answeredAny = true
    this.#since = this.#byteAt = now
    if (this.#phase !== 'http') return
    if (this.closing) this.#finish()
    else if (this.#reading !== 'ended') this.wire.resume()
    else if (!this.#consuming) this.#next()
  }

  /** Answers without an exchange, or instead of one, and closes. A request that has an answer gets no second one. */
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

  /** FIN now; what the client still sends is thrown away until it ends too. */
  linger(): void {
    if (this.#phase === 'closed' || this.#phase === 'lingering') return
    this.#phase = 'lingering'
    this.#since = this.clock.monotonic()
    this.#held = undefined
    this.wire.end()
    this.wire.resume()
  }

  /** The client was asked to go on: its time begins anew. */
  touch(): void {
    this.#byteAt = this.clock.monotonic()
  }

  /** True when the answer that is about to begin must be the last: draining, or too much of the request is left. */
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

  /** Leaves HTTP: the wire as a stream, and the bytes that came behind the head. */
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

  /**
   * Nothing of the connection is its own any more: its first bytes begin another protocol. The monotonic time at which the first one came;
   * undefined when it has already been refused.
   */
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

  /** RST, for a pipe that did not end after its FIN. */
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
    // The time for the client's end begins when it has been given everything.
    if (this.wire.waiting > 0) this.#since = now
    if (this.#stuck(now, this.host.limits.bodyIdle)) this.#abort('client-timeout')
    else if (now - this.#since > LINGER) this.wire.destroy()
  }

  #checkHead(now: number): void {
    const { headTimeout, keepAlive } = this.host.limits
    if (this.#head.fresh) {
      const allowed = this.#answeredAny ? keepAlive : headTimeout
      // Nothing was asked, so nothing is answered.
      if (allowed > 0 && now - this.#since > allowed) {
        this.#last = true
        endIdle(this, 0)
      }
    } else if (headTimeout > 0 && now - this.#since > headTimeout) this.refuse(OVERTIME)
  }

  /** True when bytes have waited for the client longer than `allowed` without any of them being taken; one that sends its request meanwhile is alive. */
  #stuck(now: number, allowed: number): boolean {
    const bytes = { bytesWritten: this.facts.bytesOut, writableLength: this.wire.waiting }
    return this.#writes.stuck(bytes, now, allowed, this.#reading === 'body' ? this.#byteAt : 0)
  }

  /** Reads messages from `chunk` until one has to wait. What is re-entered from below only notes; the loop goes on here. */
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

  /** A head is complete: makes the exchange and calls the handler. */
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
    // An expectation needs a body that it can hold back (RFC 9110 10.1.1).
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

  /** The handler failed: 500, as the contract says. */
  #crashed(exchange: CodecExchange): void {
    // One that has ended leaves nothing to answer; the connection may be serving the next.
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

  /** The next message may begin; reads what waited. */
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

  /** The last answer is out. Closing with unread bytes makes the kernel send RST, which can overtake it (RFC 9112 9.6). */
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
