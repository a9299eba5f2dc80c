import type {
  BytePipe,
  ConnectionFacts,
  Exchange,
  Failure,
  Framing,
  Outgoing,
  RequestHead,
  ResponseHead,
  Sent
} from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import type { Clock } from '../../lib/clock.js'
import { AbortList, isOfType } from '../deadlines.js'
import { join, joinLimits, type PipeHost } from '../join.js'
import { MALFORMED, type MalformedMessage } from '../message-scanner.js'
import { answerFraming, drop } from '../outgoing.js'
import { ignore } from '../pipes.js'
import type { CodecBody } from './body.js'
import type { HeadReader } from './head-reader.js'
import type { MessageWriter, WrittenEnd } from './message-writer.js'
import { hasToken, type Serialiser } from './serialise.js'
import type { Wire } from './wire.js'
import type { WireDuplex } from './wire-duplex.js'

const OPEN: Framing = { kind: 'open' }

/** Notified of the end of an exchange without a closure per exchange. */
export interface ExchangeWatcher {
  aborted(why: Failure): void
}

/** A request as read from the connection. */
interface ReadRequest extends RequestHead {
  readonly body: CodecBody
}

/** The connection of an exchange, reduced to what the exchange uses. */
interface ExchangeConnection {
  readonly facts: ConnectionFacts
  /** Bytes of the current exchange. */
  readonly bytesIn: number
  readonly bytesOut: number
  /** Whether the connection closes after the response. */
  closing: boolean
  readonly wire: Wire
  readonly writer: MessageWriter
  readonly serialiser: Serialiser
  readonly clock: Clock
  /** Reason why the connection was cut; undefined otherwise. */
  readonly cutBy: Failure | undefined
  /** Restarts the idle timeout. */
  touch(): void
  /** Limits of pipes. */
  readonly host: PipeHost
  becomePipe(other: BytePipe): { duplex: WireDuplex; first: readonly Buffer[] }
  linger(): void
  /** Returns whether the response about to begin must be the last. */
  endsAfterAnswer(): boolean
  /** The response has ended, at `now` of the monotonic clock. */
  answered(now: number): void
}

/** One request on a codec connection, with its response. */
export class CodecExchange implements Exchange {
  readonly connection: ConnectionFacts
  readonly request: ReadRequest
  /** Changes only before the exchange is passed to the handler. */
  upgrade: 'websocket' | 'other' | undefined
  readonly signal = new AbortList()
  /** The same engine's forwarding of this exchange. */
  watcher: ExchangeWatcher | undefined = undefined
  readonly #client: ExchangeConnection
  readonly #keepAlive: boolean
  #expects: boolean
  #ended = false
  #closeDelimited = false
  #failure: Failure | undefined = undefined
  #firstByteAt = 0
  #endedAt = 0
  /** Set while the response is being started; one that ends meanwhile ends at the same moment. */
  #answering = false
  #responded = false
  #answerFields: HeaderList | undefined = undefined
  /** Set once the response has ended. */
  #outcome: Sent | undefined = undefined
  #sent: Promise<Sent> | undefined = undefined
  #report: ((sent: Sent) => void) | undefined = undefined

  constructor(
    client: ExchangeConnection,
    request: ReadRequest,
    upgrade: 'websocket' | 'other' | undefined,
    expects: boolean,
    keepAlive: boolean
  ) {
    this.connection = client.facts
    this.#client = client
    this.request = request
    this.upgrade = upgrade
    this.#expects = expects
    this.#keepAlive = keepAlive
  }

  /** True once bytes of the response are being sent. */
  get begun(): boolean {
    return this.#firstByteAt !== 0
  }

  /** True once the response has begun as an event stream. */
  get streamsEvents(): boolean {
    return this.#answerFields !== undefined && isOfType(this.#answerFields, 'text/event-stream')
  }

  /** True if the client should send its body now. */
  get bodyDue(): boolean {
    return !this.#expects
  }

  /** The body is read for the first time: sends 100 Continue if the client waits. */
  wanted(): void {
    if (!this.#expects || this.#responded || this.#ended) return
    this.#expects = false
    this.request.body.awaitsContinue = false
    this.#client.writer.send('HTTP/1.1 100 Continue\r\n\r\n')
    this.#client.touch()
  }

  /** The client sent the body without waiting for 100 Continue. */
  bodyArrived(): void {
    this.#expects = false
    this.request.body.awaitsContinue = false
  }

  inform(head: ResponseHead): void {
    if (this.#responded || this.#ended || this.request.version === '1.0') return
    // A client that does not read gets no interim responses, which would accumulate in memory.
    if (head.status < 102 || head.status > 199 || this.#client.wire.congested) return
    this.#client.writer.send(this.#client.serialiser.interim(head))
  }

  respond(head: ResponseHead, body?: Outgoing, trailers?: () => HeaderList): Sent | Promise<Sent> {
    if (this.#responded || this.#ended) {
      drop(body)
      return this.#reported()
    }
    this.#responded = true
    this.#firstByteAt = this.#client.clock.monotonic()
    if (Number.isInteger(head.status) && head.status >= 200 && head.status <= 999) this.#answer(head, body, trailers)
    else {
      drop(body)
      this.#answer({ status: 500, headers: [] }, undefined, undefined)
    }
    return this.#reported()
  }

  admitsPipe(): boolean | Promise<boolean> {
    return this.#client.host.lasts(this.connection)
  }

  splice(head: ResponseHead, other: BytePipe): Sent | Promise<Sent> {
    if (this.#responded || this.#ended) {
      other.duplex.on('error', ignore)
      other.destroy(this.#failure ?? 'client-gone')
      return this.#reported()
    }
    this.#responded = true
    this.#firstByteAt = this.#client.clock.monotonic()
    this.#client.writer.send(this.#client.serialiser.interim(head, '\r\nConnection: Upgrade'))
    const { duplex, first } = this.#client.becomePipe(other)
    for (const chunk of first) other.duplex.write(chunk)
    join(duplex, other.duplex, joinLimits(this.#client.host, other), (end) => {
      if (end === 'complete') this.complete()
      else this.fail(end === 'idle' ? end : (this.#client.cutBy ?? 'client-gone'))
    })
    return this.#reported()
  }

  close(how: 'fin' | 'reset'): void {
    if (this.#ended) return
    this.fail('client-gone')
    if (how === 'reset') this.#client.wire.cut()
    else this.#client.linger()
  }

  /** Ends the exchange before a complete response; the caller handles the socket. */
  fail(why: Failure): void {
    if (this.#ended) return
    this.#ended = true
    this.#failure = why
    this.watcher?.aborted(why)
    this.signal.abort(why)
    this.request.body.fail(why)
    this.#client.writer.abort()
    this.#finish()
  }

  /** The writer has finished the response; `why`: failure of its body. */
  written(why: Failure | undefined): void {
    if (why === undefined) this.complete()
    else if (!this.#ended) {
      this.fail(why)
      // A message that ends with its connection would look complete after a FIN.
      if (this.#closeDelimited) this.#client.wire.cut()
      else this.#client.wire.destroy()
    }
  }

  complete(): void {
    if (this.#ended) return
    this.#ended = true
    this.#finish()
    this.#client.answered(this.#endedAt)
  }

  #answer(head: ResponseHead, body: Outgoing, trailers: (() => HeaderList) | undefined): void {
    const { status, close: ends } = head
    const client = this.#client
    this.#answerFields = head.headers
    const bodiless = status === 204 || status === 304 || this.request.method === 'HEAD'
    const framing = answerFraming(body, trailers, this.request.headers)
    const old = this.request.version === '1.0'
    const close = ends === true || old || !this.#keepAlive || this.#expects || client.endsAfterAnswer()
    let length: number | undefined
    if (framing.kind === 'length') length = framing.bytes
    else if (framing.kind === 'none' && status !== 304) length = 0
    if (status === 204) length = undefined
    const chunked = !bodiless && framing.kind === 'open' && !old
    this.#closeDelimited = close && !chunked && length === undefined && !bodiless
    client.closing = close
    const text = client.serialiser.answer(head, { length, chunked, close })
    const end: WrittenEnd = bodiless ? 'none' : chunked ? 'chunked' : length === undefined ? 'close' : 'length'
    this.#answering = true
    client.writer.start(text, body, end, length ?? 0, trailers)
    this.#answering = false
    if (bodiless) drop(body)
  }

  #finish(): void {
    this.#endedAt = this.#answering ? this.#firstByteAt : this.#client.clock.monotonic()
    if (!this.#responded) return
    // The next request may begin immediately, and restart the counts.
    this.#outcome = this.#account()
    this.#report?.(this.#outcome)
  }

  /** Returns what was sent, immediately or once the response has ended. */
  #reported(): Sent | Promise<Sent> {
    if (this.#outcome !== undefined) return this.#outcome
    if (this.#ended) return this.#account()
    this.#sent ??= new Promise((resolve) => {
      this.#report = resolve
    })
    return this.#sent
  }

  #account(): Sent {
    const { bytesIn, bytesOut } = this.#client
    const sent = { bytesIn, bytesOut, firstByteAt: this.#firstByteAt, endedAt: this.#endedAt }
    return this.#failure === undefined ? sent : { ...sent, failure: this.#failure }
  }
}

const EXPECTATION: MalformedMessage = { status: 417, why: 'client-malformed' }
const NONE: Framing = { kind: 'none' }

/**
 * Why a request head that keeps the grammar is refused all the same (RFC 9112 3.2, 6.3; RFC 9110 10.1.1), or undefined.
 *
 * 400: more than one Content-Length even when equal, Content-Length beside Transfer-Encoding, any Transfer-Encoding
 * but `chunked` or on HTTP/1.0, not exactly one Host on HTTP/1.1. 417: an expectation other than 100-continue.
 */
export function refusalOf(head: HeadReader): MalformedMessage | undefined {
  if (head.hosts !== 1 && (head.hosts > 1 || head.minor === 1)) return MALFORMED
  if (head.lengths + head.encodings > 1 || head.badFraming) return MALFORMED
  if (head.encodings > 0 && head.minor === 0) return MALFORMED
  if (head.expectation !== '' && head.minor === 1 && head.expectation !== '100-continue') return EXPECTATION
  return undefined
}

/** Returns the framing of an accepted request's body. A CONNECT has none. */
export function requestFraming(head: HeadReader): Framing {
  if (head.lengths + head.encodings === 0 || head.method === 'CONNECT') return NONE
  return head.encodings > 0 ? OPEN : { kind: 'length', bytes: head.length }
}

/**
 * Returns the requested upgrade to a byte pipe after the complete request (RFC 9110 7.8). A WebSocket has no content, which some clients
 * express by a length of 0 or by chunks.
 */
export function upgradeOf(head: HeadReader, framing: Framing): 'websocket' | 'other' | undefined {
  if (head.upgrade === '' || !head.connectionUpgrade || head.minor !== 1) return undefined
  if (!hasToken(head.upgrade, 'websocket')) return 'other'
  if (head.method !== 'GET') return undefined
  if (framing.kind === 'none') return 'websocket'
  const mayBeEmpty = framing.kind === 'open' || framing.bytes === 0
  return mayBeEmpty && head.expectation === '' ? 'websocket' : undefined
}

/** Returns whether another request may follow on the connection. */
export function keepsAlive(head: HeadReader): boolean {
  return head.minor === 1 && !head.close && head.method !== 'CONNECT'
}
