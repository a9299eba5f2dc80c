import { constants, type ServerHttp2Stream } from 'node:http2'
import { Readable } from 'node:stream'
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
import { AbortList } from '../deadlines.js'
import { allowedTrailers } from '../fields.js'
import { type BodyOwner, MessageBody, type MessageSink } from '../message-body.js'
import { drop, failureOf, framingOf, send } from '../outgoing.js'
import { ignore, join, resetStream } from '../pipes.js'
import type { Http2Connection } from './connection.js'
import { answerFields, type Http2Head, sendHead, textLength, websocketFields } from './heads.js'

const MAX_INTERIM = 32
const { NGHTTP2_NO_ERROR } = constants

/** One stream of an HTTP/2 session: a request with its answer. Whatever ends it ends no other stream. */
export class Http2Exchange implements Exchange, BodyOwner {
  readonly connection: ConnectionFacts
  readonly request: RequestHead & { readonly body: MessageBody }
  readonly upgrade: 'websocket' | undefined
  readonly signal = new AbortList()
  readonly #session: Http2Connection
  readonly #stream: ServerHttp2Stream
  readonly #head: Http2Head
  /** How the request ended, as far as it has. */
  readonly #end: { complete: boolean; rawTrailers: HeaderList }
  #expects: boolean
  #ended = false
  /** The end of the stream comes from here. */
  #closing = false
  /** The last byte of the answer was handed to the stream. */
  #whole = false
  #interim = 0
  #failure: Failure | undefined = undefined
  #firstByteAt = 0
  #endedAt = 0
  #pipe: BytePipe | undefined = undefined
  #bytesIn: number
  #bytesOut = 0
  /** What had been taken of the answer, and had come of the request, when either last moved. */
  #taken = -1
  #takenAt = 0
  #came = -1
  #cameAt = 0
  #stop: () => void = ignore
  #sent: Promise<Sent> | undefined = undefined
  #report: ((sent: Sent) => void) | undefined = undefined

  constructor(session: Http2Connection, stream: ServerHttp2Stream, head: Http2Head, ended: boolean) {
    this.#session = session
    this.#stream = stream
    this.#head = head
    this.connection = session.facts
    this.upgrade = head.upgrade
    this.#expects = head.expectsContinue
    this.#bytesIn = head.bytes
    this.#end = { complete: ended, rawTrailers: [] }
    const framing = head.framing
    // What comes on the stream of a CONNECT is no body.
    const message = framing.kind === 'none' && !ended ? Readable.from([]) : stream
    if (framing.kind === 'none' && ended) stream.resume()
    const body = new MessageBody(message, this.#end, framing, this, 'client-gone')
    body.awaitsContinue = head.expectsContinue
    const { method, target, authority, headers } = head
    this.request = { method, target, authority, scheme: 'https', version: '2', headers, body }
    stream.on('trailers', (_trailers, _flags, raw?: string[]) => {
      this.#end.rawTrailers = raw ?? []
    })
    stream.once('end', () => {
      // node:http2 ends the readable side of a stream that the client reset with NO_ERROR as if all had come.
      if (stream.closed) this.fail(session.why)
      else this.#end.complete = true
    })
    // It also ends the writable side of a stream that the client reset.
    stream.once('finish', () => {
      if (this.#whole) this.#complete()
    })
    stream.once('close', this.#onClose)
  }

  /** Bytes of the answer have left or are about to. */
  get begun(): boolean {
    return this.#firstByteAt !== 0
  }

  get piped(): boolean {
    return this.#pipe !== undefined
  }

  wanted(): void {
    if (!this.#expects || this.#sent !== undefined || this.#ended) return
    this.#expects = false
    this.request.body.awaitsContinue = false
    this.#stream.additionalHeaders({ ':status': 100 })
  }

  settled(): void {
    // The stream itself knows where the message ends.
  }

  abandoned(): void {
    // What nobody reads ends with the stream, after the answer.
  }

  inform(head: ResponseHead): void {
    if (this.#sent !== undefined || this.#ended || this.#stream.destroyed) return
    if (head.status < 102 || head.status > 199 || ++this.#interim > MAX_INTERIM) return
    this.#stream.additionalHeaders({ ...answerFields(head.headers), ':status': head.status })
  }

  respond(head: ResponseHead, body?: Outgoing, trailers?: () => HeaderList): Promise<Sent> {
    if (this.#sent !== undefined || this.#ended || this.#stream.destroyed) {
      drop(body)
      return this.#sent ?? Promise.resolve(this.#account())
    }
    this.#sent = new Promise((resolve) => {
      this.#report = resolve
    })
    this.#firstByteAt = this.#session.clock.monotonic()
    if (Number.isInteger(head.status) && head.status >= 200 && head.status <= 599) this.#answer(head, body, trailers)
    else {
      drop(body)
      this.#answer({ status: 500, headers: [] }, undefined, undefined)
    }
    return this.#sent
  }

  splice(head: ResponseHead, other: BytePipe): Promise<Sent> {
    const fields = websocketFields(head.headers, this.#head.websocketKey)
    if (this.#sent !== undefined || this.#ended || this.#stream.destroyed || fields === undefined) {
      other.duplex.on('error', ignore)
      other.destroy(this.#failure ?? (fields === undefined ? 'upstream-malformed' : 'client-gone'))
      // Over HTTP/1.1 the client would notice that its key was not understood; here nobody else can.
      if (fields === undefined) return this.respond({ status: 502, headers: [] })
      return this.#sent ?? Promise.resolve(this.#account())
    }
    this.#sent = new Promise((resolve) => {
      this.#report = resolve
    })
    const stream = this.#stream
    this.#firstByteAt = this.#session.clock.monotonic()
    this.#pipe = other
    this.#bytesOut = textLength(fields)
    fields[':status'] = 200
    sendHead(stream, fields, { endStream: false, waitForTrailers: false })
    const done = (clean: boolean): void => {
      if (clean) this.#complete()
      else this.abort(this.#session.why)
    }
    join(stream, other.duplex, done, {
      fromA: (bytes) => {
        this.#bytesIn += bytes
      },
      fromB: (bytes) => {
        this.#bytesOut += bytes
      }
    })
    return this.#sent
  }

  close(_how: 'fin' | 'reset'): void {
    if (this.#ended) return
    this.fail('client-gone')
    this.#reset()
  }

  /** Ends the exchange before a complete answer, and its stream with it. */
  abort(why: Failure): void {
    if (this.#ended) return
    this.fail(why)
    this.#reset()
  }

  /** Ends the exchange before a complete answer; what happens to the stream is the caller's business. */
  fail(why: Failure): void {
    if (this.#ended) return
    this.#ended = true
    this.#failure = why
    this.request.body.failure = why
    this.#stop()
    this.#pipe?.destroy(why)
    this.signal.abort(why)
    this.#finish()
  }

  /** The connection is gone. What it had taken of the answer, its last byte included, is delivered as far as anybody can tell. */
  lost(): void {
    if (this.#whole && this.#stream.writableLength === 0) this.#complete()
    else this.fail(this.#session.why)
  }

  /** Ends both directions of a joined pipe. */
  endPipe(): void {
    this.#stream.end()
    this.#pipe?.end()
  }

  /** Looks whether the client takes the answer and sends the request. `allowed` in milliseconds; 0: for ever. */
  sweep(now: number, allowed: number): void {
    if (allowed === 0 || this.piped) return
    const stream = this.#stream
    const taken = this.#bytesOut - stream.writableLength
    if (stream.writableLength === 0 || taken !== this.#taken) {
      this.#taken = taken
      this.#takenAt = now
    } else if (now - this.#takenAt > allowed) {
      this.abort('client-timeout')
      return
    }
    const { body } = this.request
    const due =
      body.wanted && !this.#expects && !this.#end.complete && !stream.isPaused() && stream.readableLength === 0
    if (!due || body.arrived !== this.#came) {
      this.#came = body.arrived
      this.#cameAt = now
    } else if (now - this.#cameAt > allowed) this.#late()
  }

  #late(): void {
    if (this.begun) {
      this.abort('client-timeout')
      return
    }
    this.fail('client-timeout')
    this.#stream.respond({ ':status': 408 }, { endStream: true })
    this.#leaveRest()
  }

  #answer({ status, headers }: ResponseHead, body: Outgoing, trailers: (() => HeaderList) | undefined): void {
    const stream = this.#stream
    const fields = answerFields(headers)
    const bodiless = this.request.method === 'HEAD' || status === 204 || status === 205 || status === 304
    const framing = framingOf(body)
    const length = framing.kind === 'length' ? framing.bytes : framing.kind === 'none' && status !== 304 ? 0 : undefined
    // Trailers need no framing of their own here, so a length stays.
    if (length !== undefined && status !== 204 && status !== 205) fields['content-length'] = length
    this.#bytesOut = textLength(fields)
    fields[':status'] = status
    if (bodiless || body === undefined) {
      drop(body)
      this.#whole = true
      sendHead(stream, fields, { endStream: true, waitForTrailers: false })
      return
    }
    // Only an open message of HTTP/1.1 can bring trailers.
    const waitForTrailers = trailers !== undefined || framing.kind === 'open'
    sendHead(stream, fields, { endStream: false, waitForTrailers })
    this.#stop = send(body, this.#sink(), trailers, (complete) => {
      this.#stop = ignore
      if (!complete) this.#broke(body)
    })
  }

  #sink(): MessageSink {
    const stream = this.#stream
    let trailers: HeaderList = []
    stream.once('wantTrailers', () => {
      // Ends the stream, with or without fields.
      stream.sendTrailers(answerFields(allowedTrailers(trailers)))
    })
    const carried = (bytes: number): void => {
      this.#bytesOut += bytes
    }
    return {
      stream,
      carried,
      finish: (list, last) => {
        trailers = list ?? []
        this.#whole = true
        if (last === undefined || last.length === 0) stream.end()
        else {
          carried(last.length)
          stream.end(last)
        }
      }
    }
  }

  #broke(body: Outgoing): void {
    if (this.#ended) return
    this.fail(failureOf(body))
    this.#reset()
  }

  #complete(): void {
    if (this.#ended) return
    this.#ended = true
    this.#finish()
    this.#leaveRest()
  }

  /** What is left of the request is not wanted; the answer is whole (RFC 9113 8.1). Its last frame leaves first. */
  #leaveRest(): void {
    if (this.#end.complete) return
    this.#closing = true
    setImmediate(() => {
      if (!this.#stream.destroyed && !this.#stream.closed) this.#stream.close(NGHTTP2_NO_ERROR)
    })
  }

  #reset(): void {
    this.#closing = true
    resetStream(this.#stream)
  }

  readonly #onClose = (): void => {
    const stream = this.#stream
    const byClient = !this.#closing && (!(this.#ended || this.#whole) || stream.rstCode !== NGHTTP2_NO_ERROR)
    // A stream whose both sides have ended closes before its writable side says that it has finished, and while the socket is
    // busy even before it knows that its bytes have left. A client that resets with NO_ERROR then looks the same.
    const ended = this.#end.complete && this.#session.why === 'client-gone'
    const delivered = stream.rstCode === NGHTTP2_NO_ERROR && (ended || stream.writableLength === 0)
    if (this.#whole && delivered) this.#complete()
    else this.fail(this.#session.why)
    this.#session.closed(byClient)
  }

  #finish(): void {
    this.#endedAt = this.#session.clock.monotonic()
    this.#session.ended(this)
    const report = this.#report
    this.#report = undefined
    if (report !== undefined) report(this.#account())
  }

  #account(): Sent {
    const sent = {
      bytesIn: this.#bytesIn + this.request.body.bytes,
      bytesOut: this.#bytesOut,
      firstByteAt: this.#firstByteAt,
      endedAt: this.#endedAt
    }
    return this.#failure === undefined ? sent : { ...sent, failure: this.#failure }
  }
}
