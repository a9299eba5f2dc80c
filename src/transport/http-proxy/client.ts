import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Exchange, Failure, ResponseHead } from '../../flow/exchange.js'
import type { Clock } from '../../lib/clock.js'
import { type DeadlineOwner, DeadlineTimer } from '../../lib/deadline-timer.js'
import { type Answer, type ClientTransport, DialError, type Dialer, type ForwardOptions } from '../contract.js'
import { InterimBudget } from '../interim-budget.js'
import { BodyBroken, type BodyOwner, httpSink, MessageBody } from '../message-body.js'
import { asksUpgrade, awaitsContinue, framingOf, send, sendExpectingHead, sendHead } from '../outgoing.js'
import { ignore, StreamPipe } from '../pipes.js'
import { type Requester, requester, responseFraming, writeRequestHead } from './client-messages.js'
import { MAX_RESPONSE_HEAD, UpstreamConnection, UpstreamPool } from './upstream-connection.js'

/** Wait for 100 Continue before the body is sent anyway (ms; RFC 9110 10.1.1). */
const CONTINUE_WAIT = 1000

interface Parts {
  readonly clock: Clock
  readonly pool: UpstreamPool
  readonly deadlineTimer: DeadlineTimer
  readonly request: Requester
}

/** One request to an upstream; also the agent from which node:http gets a connection, and the object that lets http-proxy write the body. */
class HttpProxyForwarding implements DeadlineOwner, BodyOwner {
  place = -1
  readonly protocol = 'http:'
  readonly keepAlive = true
  readonly answer: Promise<Answer>
  readonly #parts: Parts
  readonly #exchange: Exchange
  readonly #dialer: Dialer
  readonly #options: ForwardOptions
  #resolve: ((answer: Answer) => void) | undefined = undefined
  #request: ClientRequest | undefined = undefined
  #connection: UpstreamConnection | undefined = undefined
  #body: MessageBody | undefined = undefined
  #response: IncomingMessage | undefined = undefined
  #phase: 'dialling' | 'waiting' | 'continuing' | 'answered' | 'over' = 'dialling'
  #since: number
  #interim: InterimBudget | undefined = undefined
  #lastCarried = -1
  #stopSending: () => void = ignore
  #stopListening: () => void = ignore

  constructor(parts: Parts, exchange: Exchange, dialer: Dialer, options: ForwardOptions) {
    this.#parts = parts
    this.#exchange = exchange
    this.#dialer = dialer
    this.#options = options
    this.#since = parts.clock.monotonic()
    this.answer = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  start(): void {
    this.#parts.deadlineTimer.add(this)
    this.#stopListening = this.#exchange.signal.onAbort((why) =>
      this.#fail(why, 'never', 'the client ended the exchange')
    )
    if (this.#phase === 'over') return
    this.#parts.request({ method: this.#options.head.method, agent: this, buffer: this }, (error) =>
      this.#broken(error)
    )
  }

  /** Called by node:http for a connection, before there is a head. */
  addRequest(request: object): void {
    this.#request = request as ClientRequest
    const { pool } = this.#parts
    const idle = this.#dialer.reusable ? pool.take(this.#dialer.key) : undefined
    if (idle !== undefined) {
      this.#request.reusedSocket = true
      this.#connection = idle
    }
  }

  /** Called by http-proxy with its request: head, listeners, and the body once connected. */
  pipe(sink: object): void {
    const request = sink as ClientRequest & { maxHeadersCount: number; maxHeaderSize: number }
    const body = this.#options.body
    const expects = awaitsContinue(body)
    // Unlimited: node:http would silently drop fields beyond its limit. The size of the block is bounded.
    request.maxHeadersCount = 0
    request.maxHeaderSize = MAX_RESPONSE_HEAD
    const asks = asksUpgrade(this.#exchange, this.#options)
    if (!writeRequestHead(request, this.#options.head, framingOf(body), asks, expects)) {
      this.#fail('upstream-malformed', 'never', 'the request target cannot be written')
      return
    }
    request.on('response', this.#onResponse)
    request.on('information', this.#onInformation)
    request.on('upgrade', this.#onUpgrade)
    if (this.#connection !== undefined) this.#attach(this.#connection)
    else this.#dial()
  }

  wanted(): void {
    this.#since = this.#parts.clock.monotonic()
  }

  /** The response body was read to its end, or failed. */
  settled(complete: boolean): void {
    if (complete) this.#end()
    else this.#discard()
  }

  abandoned(): void {
    this.#end()
  }

  checkDeadlines(now: number): void {
    const { connectTimeout, responseTimeout, idleTimeout } = this.#options
    const waited = now - this.#since
    if (this.#phase === 'dialling') {
      if (connectTimeout > 0 && waited > connectTimeout) this.#fail('dial-timeout', 'safe', 'no connection in time')
    } else if (this.#phase === 'continuing') {
      if (waited > CONTINUE_WAIT) this.#sendBody()
    } else if (this.#phase === 'waiting') {
      if (this.#request?.writableEnded === false) this.#checkUpload(now, idleTimeout)
      else if (responseTimeout > 0 && waited > responseTimeout) {
        this.#fail('upstream-timeout', 'never', 'no response head in time')
      }
    } else if (this.#phase === 'answered') this.#checkBody(now, idleTimeout)
  }

  /** A body times out only while it is awaited and nothing moves the other way; an unread one is given up after the same time. */
  #checkBody(now: number, idleTimeout: number): void {
    const response = this.#response as IncomingMessage
    const connection = this.#connection as UpstreamConnection
    const bytes = connection.bytesRead + connection.bytesWritten
    if (bytes !== this.#lastCarried || (this.#body?.wanted === true && response.isPaused())) {
      this.#lastCarried = bytes
      this.#since = now
    } else if (idleTimeout > 0 && now - this.#since > idleTimeout) {
      if (this.#body !== undefined) this.#body.failure = 'upstream-timeout'
      this.#discard()
    }
  }

  /** The request body times out only while the upstream does not accept pending bytes; the server transport checks for a slow client. */
  #checkUpload(now: number, idleTimeout: number): void {
    const connection = this.#connection as UpstreamConnection
    const bytes = connection.bytesWritten
    if (bytes !== this.#lastCarried || connection.stream.writableLength === 0) {
      this.#lastCarried = bytes
      this.#since = now
    } else if (idleTimeout > 0 && now - this.#since > idleTimeout) {
      this.#fail('upstream-timeout', 'never', 'the upstream does not take the request body')
    }
  }

  #dial(): void {
    const { pool } = this.#parts
    const { connectTimeout } = this.#options
    const why = { client: this.#exchange.connection, deadline: connectTimeout, signal: this.#exchange.signal }
    this.#dialer.open(why).then(
      (pipe) => {
        const connection = new UpstreamConnection(pool, this.#dialer, pipe)
        if (this.#phase === 'over') connection.destroy()
        else {
          this.#connection = connection
          this.#options.onConnected?.()
          this.#attach(connection)
        }
      },
      (error: unknown) => {
        const failure = error instanceof DialError ? error.failure : 'dial-refused'
        this.#fail(failure, 'safe', error instanceof Error ? error.message : 'the dialer failed')
      }
    )
  }

  #attach(connection: UpstreamConnection): void {
    const request = this.#request as ClientRequest
    this.#since = this.#parts.clock.monotonic()
    connection.carry(request, (why) => this.#fail(why, 'never', 'the answer breaks the grammar or was cut off'))
    if (request.hasHeader('expect')) {
      this.#phase = 'continuing'
      sendExpectingHead(request)
    } else this.#sendBody()
  }

  #sendBody(): void {
    this.#phase = 'waiting'
    this.#since = this.#parts.clock.monotonic()
    this.#stopSending = send(this.#options.body, httpSink(this.#request as ClientRequest), undefined, (complete) => {
      this.#stopSending = ignore
      this.#since = this.#parts.clock.monotonic()
      // The body failed, so the upstream must not see a complete request; the client's side knows the reason.
      if (!complete && this.#phase === 'waiting') this.#fail('client-gone', 'never', 'the request body broke')
      else if (!complete) this.#discard()
    })
    // The head does not wait for a slow body.
    if (this.#request?.writableEnded === false) sendHead(this.#request)
  }

  readonly #onInformation = (head: { statusCode: number; statusMessage: string; rawHeaders: string[] }): void => {
    if (this.#phase === 'over') return
    this.#connection?.expect('interim')
    const now = this.#parts.clock.monotonic()
    this.#interim ??= new InterimBudget(now)
    if (!this.#interim.takes(head.rawHeaders, now)) {
      this.#fail('upstream-malformed', 'never', 'too many interim answers')
    } else if (head.statusCode === 100) {
      if (this.#phase === 'continuing') this.#sendBody()
    } else {
      this.#options.onInform?.({ status: head.statusCode, reason: head.statusMessage, headers: head.rawHeaders })
    }
  }

  readonly #onResponse = (response: IncomingMessage): void => {
    const status = response.statusCode as number
    const method = this.#options.head.method
    this.#response = response
    const framing = responseFraming(status, response.rawHeaders)
    if (this.#phase === 'over') return
    if (framing === undefined) {
      this.#fail('upstream-malformed', 'never', 'the response head contradicts itself')
      return
    }
    const connection = this.#connection as UpstreamConnection
    const bodiless = method === 'HEAD' || status === 204 || status === 304
    connection.expect(bodiless ? 0 : framing.follows)
    this.#phase = 'answered'
    this.#since = this.#parts.clock.monotonic()
    this.#lastCarried = -1
    this.#body = new MessageBody(response, response, framing.framing, this, 'upstream-gone')
    const head: ResponseHead = { status, reason: response.statusMessage as string, headers: response.rawHeaders }
    this.#report({ kind: 'response', head, body: this.#body, reusedConnection: connection.reused })
    if (bodiless) {
      // The connection must not wait for a reader of an empty body.
      response.resume()
      response.once('end', () => this.#end())
    }
  }

  readonly #onUpgrade = (response: IncomingMessage, _stream: Duplex): void => {
    const connection = this.#connection as UpstreamConnection
    if (this.#phase === 'over') return
    const complete = this.#request?.writableEnded === true
    if (!asksUpgrade(this.#exchange, this.#options) || !complete || response.statusCode !== 101) {
      this.#fail(
        'upstream-malformed',
        'never',
        'switched protocols without being asked, or before the request was sent'
      )
      return
    }
    const stream = connection.release()
    stream.pause()
    this.#phase = 'over'
    this.#leave()
    const head = { status: 101, reason: response.statusMessage as string, headers: response.rawHeaders }
    this.#report({ kind: 'switched', head, pipe: new StreamPipe(stream, this.#options.idleTimeout) })
  }

  /** The request failed in node:http: before a head this is the response; afterwards the body has been notified. */
  #broken(error: NodeJS.ErrnoException): void {
    if (this.#phase === 'over') return
    const malformed = error.code?.startsWith('HPE_') === true
    if (this.#phase === 'answered') {
      if (malformed && this.#body !== undefined) this.#body.failure = 'upstream-malformed'
      if (this.#response?.complete !== true) this.#discard()
      return
    }
    if (this.#connection?.unreached === true) {
      const { failure, message } = this.#connection.refusal
      this.#fail(failure, 'safe', message)
      return
    }
    const reused = this.#connection?.reused === true
    // node:http writes as soon as the request has its socket; how much was sent afterwards is unknown.
    const untouched = this.#connection === undefined || !this.#request?.socket
    const retry = malformed
      ? 'never'
      : untouched
        ? 'safe'
        : reused && this.#interim === undefined
          ? 'idempotent-only'
          : 'never'
    this.#fail(malformed ? 'upstream-malformed' : 'upstream-gone', retry, error.code ?? 'the connection broke')
  }

  #fail(failure: Failure, retry: 'safe' | 'idempotent-only' | 'never', detail: string): void {
    if (this.#phase === 'over') return
    if (this.#phase === 'answered' && this.#body !== undefined) this.#body.failure = failure
    this.#discard()
    this.#report({ kind: 'failed', failure, retry, detail })
  }

  #report(answer: Answer): void {
    const resolve = this.#resolve
    this.#resolve = undefined
    resolve?.(answer)
  }

  /** Aborts the upstream request; its connection is not reused. */
  #discard(): void {
    if (this.#phase === 'over') return
    this.#phase = 'over'
    this.#leave()
    // A body that ends with its connection would look complete: node:http treats every end as clean.
    if (this.#response?.complete === false)
      this.#response.destroy(new BodyBroken(this.#body?.failure ?? 'upstream-gone'))
    this.#request?.destroy()
    this.#connection?.destroy()
  }

  /** Ends the exchange. A connection with two complete messages belongs to the pool, or to its next request. */
  #end(): void {
    if (this.#phase === 'over') return
    if (this.#response?.complete !== true || this.#request?.writableEnded !== true) {
      this.#discard()
      return
    }
    this.#phase = 'over'
    this.#leave()
  }

  #leave(): void {
    this.#stopSending()
    this.#stopListening()
    this.#parts.deadlineTimer.delete(this)
  }
}

const CHECK_PERIOD = 50

/** HTTP/1.1 client transport based on http-proxy. */
export function httpProxyBack({ clock }: { clock: Clock }): ClientTransport {
  const pool = new UpstreamPool()
  const parts: Parts = { clock, pool, deadlineTimer: new DeadlineTimer(clock, CHECK_PERIOD), request: requester() }
  return {
    forward(exchange, dialer, options, answered) {
      const forwarding = new HttpProxyForwarding(parts, exchange, dialer, options)
      forwarding.start()
      void forwarding.answer.then(answered)
    },
    retainUpstreams: (keys) => pool.retain(keys),
    endUpstream: (key) => pool.end(key),
    close: () => pool.close()
  }
}
