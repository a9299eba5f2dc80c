import type {
  BytePipe,
  ConnectionFacts,
  Exchange,
  Failure,
  Outgoing,
  RequestHead,
  ResponseHead,
  Sent
} from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import type { Clock } from '../../lib/clock.js'
import type { ListenLimits } from '../contract.js'
import { AbortList, silenceAllowed } from '../deadlines.js'
import { type BodySource, CodecBody } from '../http1/body.js'
import type { Wire } from '../http1/wire.js'
import { type JoinEnd, join, joinLimits, type PipeHost } from '../join.js'
import { drop, framingOf } from '../outgoing.js'
import { ignore } from '../pipes.js'
import { AnswerWriter } from './answer-writer.js'
import { CODE } from './frames.js'
import { ACCEPT_FIELD, acceptsKey, encodeFields, type Http2Head, isOfConnection, writeRefusal } from './heads.js'
import type { HpackDecoder } from './hpack-decoder.js'
import type { Http2Stream, StreamEnd, StreamUser } from './stream.js'
import { StreamDuplex } from './stream-duplex.js'

const COLON = 0x3a

/** Services of the connection for an exchange. */
export interface ExchangeHost {
  readonly facts: ConnectionFacts
  readonly clock: Clock
  /** Provides pipes with connection places and limits. */
  readonly host: PipeHost
  ended(exchange: Http2Exchange): void
  fed(exchange: Http2Exchange): void
  why(end: StreamEnd): Failure
  refusedUnseen(exchange: Http2Exchange): void
}

/** One exchange on a stream of an HTTP/2 connection. Its failure affects no other stream. */
export class Http2Exchange implements Exchange, StreamUser, BodySource {
  readonly connection: ConnectionFacts
  readonly request: RequestHead & { readonly body: CodecBody }
  readonly upgrade: 'websocket' | undefined
  readonly signal = new AbortList()
  readonly #host: ExchangeHost
  readonly #stream: Http2Stream
  readonly #head: Http2Head
  #expects: boolean
  #ended = false
  #failure: Failure | undefined = undefined
  #firstByteAt = 0
  #endedAt = 0
  #trailers: HeaderList = []
  /** True while the body is paused; `#heldBytes` arrived meanwhile. */
  #held = true
  #heldBytes = 0
  #abandoned = false
  /** True between bytes for the body and `flushBody`. */
  #fed = false
  #writer: AnswerWriter | undefined = undefined
  #duplex: StreamDuplex | undefined = undefined
  #pipe: BytePipe | undefined = undefined
  #bytesIn: number
  #bytesOut = 0
  /** Sum of consumed response bytes and received request bytes at the last progress. */
  #moved = -1
  #movedAt = 0
  #sent: Promise<Sent> | undefined = undefined
  #report: ((sent: Sent) => void) | undefined = undefined

  constructor(host: ExchangeHost, stream: Http2Stream, head: Http2Head, ended: boolean) {
    this.#host = host
    this.#stream = stream
    this.#head = head
    this.connection = host.facts
    this.upgrade = head.upgrade
    this.#expects = head.expectsContinue
    this.#bytesIn = head.bytes
    const { method, target, authority, headers, framing } = head
    // Bytes on the stream of a CONNECT are not a body.
    const body = new CodecBody(framing, ended || framing.kind === 'none' ? undefined : this, 'client-gone')
    body.awaitsContinue = head.expectsContinue
    if (framing.kind === 'length') stream.expect(framing.bytes)
    const scheme = host.facts.tls === undefined ? 'http' : 'https'
    this.request = { method, target, authority, scheme, version: '2', headers, body }
  }

  /** True once the response has begun. */
  get begun(): boolean {
    return this.#firstByteAt !== 0
  }

  get piped(): boolean {
    return this.#pipe !== undefined
  }

  // Events of the stream.

  data(bytes: Buffer, from: number, to: number, wire: Wire): void {
    const { body } = this.request
    if (this.upgrade !== undefined) this.#asDuplex().received(bytes, from, to, wire)
    else if (this.#abandoned || this.#ended || body.complete) this.#stream.consumed(to - from)
    else {
      this.#expects = false
      body.awaitsContinue = false
      if (this.#held) this.#heldBytes += to - from
      else this.#stream.consumed(to - from)
      body.push(bytes, from, to, wire)
      if (this.#fed) return
      this.#fed = true
      this.#host.fed(this)
    }
  }

  /** Notifies the body after the bytes of a chunk have been pushed. */
  flushBody(): void {
    this.#fed = false
    this.request.body.flush()
  }

  /** Reads trailers. Returns false for any other block, which is malformed (RFC 9113 8.1). */
  block({ fields, malformed, tooLarge }: HpackDecoder, ended: boolean): boolean {
    let sound = ended && !malformed && !tooLarge
    for (let i = 0; i < fields.length && sound; i += 2) {
      const name = fields[i] as string
      sound = name.charCodeAt(0) !== COLON && !isOfConnection(name, fields[i + 1] as string)
    }
    if (sound) this.#trailers = fields.slice()
    else this.#host.refusedUnseen(this)
    return sound
  }

  ended(): void {
    this.#duplex?.remoteEnd()
    const { body } = this.request
    if (!body.complete && !this.#ended) body.finish(this.#trailers)
  }

  finished(): void {
    this.#duplex?.finished()
    if (this.#pipe === undefined && this.#sent !== undefined) this.#complete()
  }

  drained(): void {
    this.#duplex?.drained()
    this.#writer?.resume()
  }

  closed(end: StreamEnd): void {
    const why = this.#host.why(end)
    this.fail(why)
    this.#duplex?.destroy()
  }

  // Calls of the request body.

  bodyWanted(): void {
    if (!this.#expects || this.#sent !== undefined || this.#ended) return
    this.#expects = false
    this.request.body.awaitsContinue = false
    this.#stream.sendHead((encoder) => encoder.field(':status', '100'), false)
  }

  pauseBody(): void {
    this.#held = true
  }

  resumeBody(): void {
    this.#held = false
    const held = this.#heldBytes
    this.#heldBytes = 0
    this.#stream.consumed(held)
  }

  /** Keeps unread bytes until the stream ends, after the response. */
  bodyAbandoned(): void {
    this.#abandoned = true
    this.resumeBody()
  }

  // The response.

  inform(head: ResponseHead): void {
    if (this.#sent !== undefined || this.#ended) return
    // For a client that does not read, interim responses would only collect in memory.
    if (head.status < 102 || head.status > 199 || this.#stream.blocked) return
    this.#stream.sendHead((encoder) => {
      encoder.field(':status', String(head.status))
      encodeFields(encoder, head.headers)
    }, false)
  }

  respond(head: ResponseHead, body?: Outgoing, trailers?: () => HeaderList): Promise<Sent> {
    if (this.#sent !== undefined || this.#ended) {
      drop(body)
      return this.#sent ?? Promise.resolve(this.#account())
    }
    const sent = this.#begin()
    if (Number.isInteger(head.status) && head.status >= 200 && head.status <= 999) this.#answer(head, body, trailers)
    else {
      drop(body)
      this.#answer({ status: 500, headers: [] }, undefined, undefined)
    }
    return sent
  }

  admitsPipe(): boolean | Promise<boolean> {
    return this.#host.host.lasts(this.connection)
  }

  splice(head: ResponseHead, other: BytePipe): Promise<Sent> {
    const accepted = acceptsKey(head.headers, this.#head.websocketKey)
    if (this.#sent !== undefined || this.#ended || !accepted) {
      other.duplex.on('error', ignore)
      other.destroy(this.#failure ?? (accepted ? 'client-gone' : 'upstream-malformed'))
      // Over HTTP/1.1 the client checks the accepted key; an extended CONNECT has none, so the proxy checks it.
      if (!accepted) return this.respond({ status: 502, headers: [] })
      return this.#sent ?? Promise.resolve(this.#account())
    }
    const sent = this.#begin()
    this.#pipe = other
    this.#stream.sendHead((encoder) => {
      encoder.field(':status', '200')
      this.#bytesOut = encodeFields(encoder, head.headers, ACCEPT_FIELD)
    }, false)
    const done = (end: JoinEnd): void => {
      if (end === 'complete') this.#complete()
      else this.abort(end === 'idle' ? end : this.#host.why('lost'))
    }
    join(this.#asDuplex(), other.duplex, joinLimits(this.#host.host, other), done, {
      fromA: (bytes) => {
        this.#bytesIn += bytes
      },
      fromB: (bytes) => {
        this.#bytesOut += bytes
      }
    })
    return sent
  }

  close(_how: 'fin' | 'reset'): void {
    this.abort('client-gone')
  }

  /** Ends the exchange and its stream before a complete response. */
  abort(why: Failure): void {
    if (this.#ended) return
    this.fail(why)
    this.#stream.reset(CODE.internal)
  }

  /** Ends the exchange before a complete response; the caller ends the stream. */
  fail(why: Failure): void {
    if (this.#ended) return
    this.#ended = true
    this.#failure = why
    this.#writer?.stop()
    this.#pipe?.destroy(why)
    this.signal.abort(why)
    this.request.body.fail(why)
    this.#finish()
  }

  /** Ends both directions of a joined pipe. */
  endPipe(): void {
    this.#duplex?.end()
    this.#pipe?.end()
  }

  /** Times out a client that neither reads the response nor sends the rest of its request. */
  sweep(now: number, limits: Pick<ListenLimits, 'bodyIdle' | 'streamIdle'>): void {
    if (this.piped) return
    const { waiting } = this.#stream
    const { body } = this.request
    const due = body.wanted && !this.#expects && !body.complete && !this.#held && !this.#abandoned
    const moved = (this.#writer?.carried ?? 0) - waiting + body.bytes
    if ((waiting === 0 && !due) || moved !== this.#moved) {
      this.#moved = moved
      this.#movedAt = now
      return
    }
    const allowed = silenceAllowed(this, limits)
    if (allowed === 0 || now - this.#movedAt <= allowed) return
    if (waiting > 0) this.abort('client-timeout')
    else this.#late()
  }

  #late(): void {
    if (this.begun) {
      this.abort('client-timeout')
      return
    }
    this.fail('client-timeout')
    this.#stream.sendHead((encoder) => writeRefusal(encoder, { status: 408, why: 'client-timeout' }), true)
    this.#stream.dropRequest()
  }

  #begin(): Promise<Sent> {
    this.#sent = new Promise((resolve) => {
      this.#report = resolve
    })
    this.#firstByteAt = this.#host.clock.monotonic()
    return this.#sent
  }

  #answer({ status, headers }: ResponseHead, body: Outgoing, trailers: (() => HeaderList) | undefined): void {
    const bodiless = this.request.method === 'HEAD' || status === 204 || status === 205 || status === 304
    const framing = framingOf(body)
    // In HTTP/2 a Content-Length may accompany trailers.
    let length = framing.kind === 'length' ? framing.bytes : framing.kind === 'none' && status !== 304 ? 0 : -1
    if (status === 204 || status === 205) length = -1
    // The head ends the stream: gRPC clients recognise a trailers-only response by that.
    const ends = bodiless || framing.kind === 'none' || (length === 0 && trailers === undefined)
    if (ends) drop(body)
    this.#stream.sendHead((encoder) => {
      encoder.field(':status', String(status))
      this.#bytesOut = encodeFields(encoder, headers)
      if (length >= 0) encoder.field('content-length', String(length))
    }, ends)
    if (ends || body === undefined) return
    this.#writer = new AnswerWriter(this.#stream, length, trailers, this.#onBroken)
    this.#writer.start(body)
  }

  readonly #onBroken = (why: Failure): void => this.abort(why)

  #asDuplex(): StreamDuplex {
    if (this.#duplex !== undefined) return this.#duplex
    const duplex = new StreamDuplex(this.#stream)
    duplex.on('error', ignore)
    this.#duplex = duplex
    return duplex
  }

  #complete(): void {
    if (this.#ended) return
    this.#ended = true
    this.#finish()
    this.#stream.dropRequest()
  }

  #finish(): void {
    this.#endedAt = this.#host.clock.monotonic()
    this.#host.ended(this)
    const report = this.#report
    this.#report = undefined
    if (report !== undefined) report(this.#account())
  }

  #account(): Sent {
    const sent = {
      bytesIn: this.#bytesIn + this.request.body.bytes,
      bytesOut: this.#bytesOut + (this.#writer?.carried ?? 0),
      firstByteAt: this.#firstByteAt,
      endedAt: this.#endedAt
    }
    return this.#failure === undefined ? sent : { ...sent, failure: this.#failure }
  }
}
