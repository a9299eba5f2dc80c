import type { Exchange, Failure } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import type { DeadlineOwner } from '../../lib/deadline-timer.js'
import type { Answer, Dialer, ForwardOptions } from '../contract.js'
import { type BodySource, CodecBody } from '../http1/body.js'
import type { Wire } from '../http1/wire.js'
import { InterimBudget } from '../interim-budget.js'
import { awaitsContinue, drop, framingOf } from '../outgoing.js'
import { ignore, StreamPipe } from '../pipes.js'
import { AnswerWriter } from './answer-writer.js'
import type { ClientConnection, ClientHost, ClientUser } from './client-connection.js'
import {
  type AnswerHead,
  areTrailers,
  isBodiless,
  isWritable,
  readAnswer,
  switchedHead,
  writeRequest
} from './client-heads.js'
import type { ClientPool, Waiter } from './client-pool.js'
import { CODE } from './frames.js'
import type { HpackDecoder } from './hpack-decoder.js'
import type { Http2Stream, StreamEnd } from './stream.js'
import { StreamDuplex } from './stream-duplex.js'

/** Time to wait for 100 before the body is sent without it (ms; RFC 9110 10.1.1). */
const CONTINUE_WAIT = 1000
/** Time for a stalled request body after the complete response (ms). */
const UPLOAD_REST = 1000

/** One request and its response on a stream of an upstream connection. */
export class Http2Forwarding implements ClientUser, Waiter, BodySource, DeadlineOwner {
  place = -1
  readonly #host: ClientHost
  readonly #exchange: Exchange
  readonly #options: ForwardOptions
  readonly #resolve: (answer: Answer | 'http1') => void
  #phase: 'dialling' | 'continuing' | 'waiting' | 'answered' | 'piped' | 'over' = 'dialling'
  #connection: ClientConnection | undefined = undefined
  #stream: Http2Stream | undefined = undefined
  #writer: AnswerWriter | undefined = undefined
  #body: CodecBody | undefined = undefined
  #duplex: StreamDuplex | undefined = undefined
  #trailers: HeaderList = []
  /** True if the connection had carried a stream before. */
  #reused = false
  #websocket = false
  #interim: InterimBudget | undefined = undefined
  /** True after the first bytes of a response. */
  #begun = false
  #sent = false
  /** True while the body is paused; `#heldBytes` arrived meanwhile. */
  #held = true
  #heldBytes = 0
  #abandoned = false
  #fed = false
  #since: number
  #moved = -1
  #stopListening: () => void = ignore
  #stopWaiting: () => void = ignore

  constructor(
    host: ClientHost,
    exchange: Exchange,
    options: ForwardOptions,
    resolve: (answer: Answer | 'http1') => void
  ) {
    this.#host = host
    this.#exchange = exchange
    this.#options = options
    this.#resolve = resolve
    this.#since = host.now()
  }

  get client(): Exchange['connection'] {
    return this.#exchange.connection
  }

  get connectTimeout(): number {
    return this.#options.connectTimeout
  }

  start(pool: ClientPool, dialer: Dialer): void {
    const { signal } = this.#exchange
    if (signal.aborted !== undefined) this.#fail(signal.aborted, 'never', 'the client ended the exchange')
    else if (!isWritable(this.#options.head)) this.#fail('upstream-malformed', 'never', 'the request cannot be written')
    else {
      this.#stopListening = signal.onAbort((why) => this.#fail(why, 'never', 'the client ended the exchange'))
      this.#host.deadlineTimer.add(this)
      const stop = pool.take(dialer, this)
      if (this.#phase === 'dialling') this.#stopWaiting = stop
    }
  }

  // Events of the pool.

  connected(connection: ClientConnection): void {
    const waited = this.#stopWaiting !== ignore
    this.#stopWaiting = ignore
    this.#websocket = this.#exchange.upgrade === 'websocket'
    if (this.#websocket && !connection.takesWebSockets) {
      this.#fallBack()
      return
    }
    const stream = connection.open(this)
    if (stream === undefined) {
      this.#fail('upstream-gone', 'safe', 'the connection takes no more streams')
      return
    }
    this.#connection = connection
    this.#reused = connection.reused
    if (waited && !this.#reused) this.#options.onConnected?.()
    this.#stream = stream
    const { head, body } = this.#options
    const framing = framingOf(body)
    const expects = !this.#websocket && awaitsContinue(body)
    const length = framing.kind === 'length' && !this.#websocket ? framing.bytes : -1
    const form = { scheme: connection.scheme, length, expects, websocket: this.#websocket }
    const ends = !this.#websocket && (body === undefined || framing.kind === 'none')
    this.#since = this.#host.now()
    this.#phase = 'waiting'
    stream.sendHead((encoder) => writeRequest(encoder, head, form), ends)
    if (ends || this.#websocket) {
      this.#sent = true
      if (body !== undefined) drop(body)
    } else if (expects) this.#phase = 'continuing'
    else this.#sendBody()
  }

  unconnected(failure: Failure, detail: string, retry: 'safe' | 'never'): void {
    this.#stopWaiting = ignore
    this.#fail(failure, retry, detail)
  }

  /** Sends the request over HTTP/1.1, because the server accepts it only there. */
  #fallBack(): void {
    this.#leave()
    this.#resolve('http1')
  }

  /** True if the request can be sent again: it has no body, or one that is completely in memory. */
  get #repeatable(): boolean {
    const { body } = this.#options
    return body === undefined || body instanceof Uint8Array || framingOf(body).kind === 'none'
  }

  // Events of the stream.

  data(bytes: Buffer, from: number, to: number, wire: Wire): void {
    const body = this.#body
    if (this.#duplex !== undefined) this.#duplex.received(bytes, from, to, wire)
    else if (body === undefined || body.complete) this.#malformed('content where none may be')
    else if (this.#abandoned) this.#stream?.consumed(to - from)
    else {
      if (this.#held) this.#heldBytes += to - from
      else this.#stream?.consumed(to - from)
      body.push(bytes, from, to, wire)
      if (this.#fed) return
      this.#fed = true
      this.#connection?.fed(this)
    }
  }

  flushBody(): void {
    this.#fed = false
    this.#body?.flush()
  }

  block(block: HpackDecoder, ended: boolean): boolean {
    this.#begun = true
    if (this.#phase === 'answered') {
      if (!ended || !areTrailers(block)) return false
      this.#trailers = block.fields.slice()
      return true
    }
    if (this.#phase === 'piped') return false
    const head = readAnswer(block, ended, this.#options.head.method)
    if (head === undefined) return false
    if (head.status < 200) return this.#informed(head)
    this.#answered(head, ended)
    return true
  }

  ended(): void {
    this.#duplex?.remoteEnd()
    if (this.#body !== undefined && !this.#body.complete) this.#body.finish(this.#trailers)
    this.#settle()
  }

  finished(): void {
    this.#duplex?.finished()
    this.#sent = true
    this.#since = this.#host.now()
    this.#settle()
  }

  drained(): void {
    this.#duplex?.drained()
    this.#writer?.resume()
  }

  closed(end: StreamEnd, code: number): void {
    if (this.#phase === 'piped') {
      this.#leave()
      this.#duplex?.destroy()
      return
    }
    if (end === 'here' || this.#phase === 'over') return
    const connection = this.#connection as ClientConnection
    // A server may reset the stream after a complete response if it does not need the rest of the request (RFC 9113 8.1).
    if (this.#phase === 'answered' && this.#body?.complete === true) this.#leave()
    else if (end === 'malformed') this.#fail('upstream-malformed', 'never', 'the answer is malformed')
    else if (end === 'peer') {
      // The server has not processed the request (RFC 9113 8.7).
      const refused = code === CODE.refusedStream && !this.#begun
      if (code === CODE.http11Required && !this.#begun && this.#repeatable) this.#fallBack()
      else this.#fail('upstream-gone', refused ? 'safe' : 'never', `the stream was reset (${code})`)
    } else if (connection.unreached) this.#fail(connection.refusal.failure, 'safe', connection.refusal.message)
    else {
      const malformed = connection.failure === 'upstream-malformed'
      const again = this.#reused && !this.#begun && !malformed ? 'idempotent-only' : 'never'
      this.#fail(connection.failure, again, connection.detail)
    }
  }

  // Calls of the response body.

  bodyWanted(): void {
    // The server sends without request, within the window.
  }

  pauseBody(): void {
    this.#held = true
  }

  resumeBody(): void {
    this.#held = false
    const held = this.#heldBytes
    this.#heldBytes = 0
    this.#stream?.consumed(held)
  }

  /** Drops the rest of the body. Unlike on HTTP/1.1, the connection stays usable. */
  bodyAbandoned(): void {
    this.#abandoned = true
    if (this.#phase === 'over') return
    this.#leave()
    this.#stream?.reset(CODE.cancel)
  }

  checkDeadlines(now: number): void {
    const { connectTimeout, responseTimeout, idleTimeout } = this.#options
    const waited = now - this.#since
    if (this.#phase === 'dialling') {
      if (connectTimeout > 0 && waited > connectTimeout) this.#fail('dial-timeout', 'safe', 'no connection in time')
    } else if (this.#phase === 'continuing') {
      if (waited > CONTINUE_WAIT) this.#sendBody()
    } else if (this.#phase === 'waiting') {
      if (!this.#sent) this.#checkUpload(now, idleTimeout)
      else if (responseTimeout > 0 && waited > responseTimeout) this.#late('no response head in time')
    } else if (this.#phase === 'answered') this.#checkBody(now, idleTimeout)
  }

  /** Times out the request body while the upstream reads nothing; a slow client is timed by the server transport. */
  #checkUpload(now: number, idleTimeout: number): void {
    const { waiting } = this.#stream as Http2Stream
    const taken = (this.#writer?.carried ?? 0) - waiting
    if (taken !== this.#moved || waiting === 0) {
      this.#moved = taken
      this.#since = now
    } else if (idleTimeout > 0 && now - this.#since > idleTimeout)
      this.#late('the upstream does not take the request body')
  }

  /** Times out a response body that is requested while no bytes move in either direction, or that is not read for the same time. */
  #checkBody(now: number, idleTimeout: number): void {
    const body = this.#body as CodecBody
    const { waiting } = this.#stream as Http2Stream
    const moved = body.bytes + (this.#writer?.carried ?? 0) - waiting
    if (moved !== this.#moved || (!body.complete && body.wanted && this.#held)) {
      this.#moved = moved
      this.#since = now
    } else if (body.complete) {
      if (now - this.#since > UPLOAD_REST) this.#cancel()
    } else if (idleTimeout > 0 && now - this.#since > idleTimeout) this.#late('the body is late')
  }

  #late(detail: string): void {
    const connection = this.#connection
    this.#fail('upstream-timeout', 'never', detail)
    connection?.doubt()
  }

  #informed(head: AnswerHead): boolean {
    const now = this.#host.now()
    this.#interim ??= new InterimBudget(now)
    if (!this.#interim.takes(head.headers, now)) return false
    if (head.status !== 100) this.#options.onInform?.({ status: head.status, headers: head.headers })
    else if (this.#phase === 'continuing') this.#sendBody()
    return true
  }

  #answered(head: AnswerHead, ended: boolean): void {
    const stream = this.#stream as Http2Stream
    const { method } = this.#options.head
    if (this.#websocket && head.status < 300 && !ended) {
      this.#phase = 'piped'
      this.#duplex = new StreamDuplex(stream)
      this.#duplex.on('error', ignore)
      this.#stopListening()
      this.#host.deadlineTimer.delete(this)
      this.#resolve({
        kind: 'switched',
        head: switchedHead(head.headers, this.#options.head.headers),
        pipe: new StreamPipe(this.#duplex, this.#options.idleTimeout)
      })
      return
    }
    const empty = ended || isBodiless(head.status, method)
    // A response without content may still end with an empty DATA frame.
    if (empty) stream.expect(0)
    else if (head.framing.kind === 'length') stream.expect(head.framing.bytes)
    this.#body = new CodecBody(head.framing, empty ? undefined : this, 'upstream-gone')
    this.#phase = 'answered'
    this.#moved = -1
    const { status, headers } = head
    this.#resolve({ kind: 'response', head: { status, headers }, body: this.#body, reusedConnection: this.#reused })
    // After a refused WebSocket there is no request content.
    if (this.#websocket) stream.end()
  }

  #sendBody(): void {
    const { body } = this.#options
    const framing = framingOf(body)
    this.#phase = 'waiting'
    this.#since = this.#host.now()
    const length = framing.kind === 'length' ? framing.bytes : -1
    this.#writer = new AnswerWriter(this.#stream as Http2Stream, length, undefined, (why) => this.#brokeOff(why))
    this.#writer.start(body as Exclude<typeof body, undefined>)
  }

  /** Resets the stream so that the upstream does not take a broken request for complete. `why`: failure of the client's side. */
  #brokeOff(why: Failure): void {
    this.#fail(
      why === 'upstream-gone' || why === 'upstream-malformed' ? 'client-gone' : why,
      'never',
      'the request body broke'
    )
  }

  #malformed(detail: string): void {
    this.#fail('upstream-malformed', 'never', detail, CODE.protocol)
  }

  /** Resets the stream after a complete response, if the rest of the request is stalled. */
  #cancel(): void {
    this.#leave()
    this.#stream?.reset(CODE.none)
  }

  /** Completes the exchange if both directions have ended. */
  #settle(): void {
    const stream = this.#stream
    if (stream?.remoteEnded === true && stream.localEnded) this.#leave()
  }

  #fail(
    failure: Failure,
    retry: 'safe' | 'idempotent-only' | 'never',
    detail: string,
    code: number = CODE.cancel
  ): void {
    if (this.#phase === 'over') return
    const before = this.#phase
    const body = this.#body
    this.#leave()
    this.#stream?.reset(code)
    if (body !== undefined && !body.complete) body.fail(failure)
    this.#duplex?.destroy()
    if (before !== 'answered' && before !== 'piped') this.#resolve({ kind: 'failed', failure, retry, detail })
  }

  #leave(): void {
    if (this.#phase === 'over') return
    this.#phase = 'over'
    this.#stopListening()
    this.#stopWaiting()
    this.#writer?.stop()
    this.#host.deadlineTimer.delete(this)
    const connection = this.#connection
    if (connection !== undefined) setImmediate(() => connection.released())
  }
}
