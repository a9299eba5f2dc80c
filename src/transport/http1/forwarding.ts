import type { Exchange, Failure, ResponseHead } from '../../flow/exchange.js'
import type { Clock } from '../../lib/clock.js'
import { type DeadlineOwner, DeadlineTimer } from '../../lib/deadline-timer.js'
import { type Answer, type ClientTransport, DialError, type Dialer, type ForwardOptions } from '../contract.js'
import { InterimBudget } from '../interim-budget.js'
import { LenientAnswer } from '../lenient-answer.js'
import { asksUpgrade, awaitsContinue, framingOf } from '../outgoing.js'
import { ignore, StreamPipe } from '../pipes.js'
import type { CodecBody } from './body.js'
import { CodecExchange, type ExchangeWatcher } from './exchange.js'
import { DateLine, FieldNames, Serialiser } from './serialise.js'
import { UpstreamConnection, type UpstreamHost, UpstreamPool, type UpstreamUser } from './upstream-connection.js'
import { READ_BYTES } from './wire.js'

/** Wait for 100 Continue before the body is sent anyway (ms; RFC 9110 10.1.1). */
const CONTINUE_WAIT = 1000

/** A connection whose responses are rewritten to the strict grammar before they are read. */
class LenientConnection extends UpstreamConnection {
  readonly #answer = new LenientAnswer()

  override begin(user: UpstreamUser): void {
    this.#answer.begin(user.method)
    super.begin(user)
  }

  override received(chunk: Buffer, length: number): void {
    const strict = this.#answer.read(chunk, length)
    super.received(strict, strict === chunk ? length : strict.length)
  }
}

/** One request to an upstream and its response. */
class Http1Forwarding implements UpstreamUser, ExchangeWatcher, DeadlineOwner {
  place = -1
  readonly #host: UpstreamHost
  readonly #exchange: Exchange
  readonly #dialer: Dialer
  readonly #options: ForwardOptions
  readonly #onAnswer: (answer: Answer) => void
  #connection: UpstreamConnection | undefined = undefined
  /** Set after its head has been read, while the rest of the chunk has not. */
  #answer: Answer | undefined = undefined
  #body: CodecBody | undefined = undefined
  #phase: 'dialling' | 'continuing' | 'waiting' | 'answered' | 'over' = 'dialling'
  #head = ''
  #since: number
  #interim: InterimBudget | undefined = undefined
  #started = false
  #sent = false
  #writtenBefore = 0
  #moved = -1
  #stopListening: () => void = ignore

  constructor(
    host: UpstreamHost,
    exchange: Exchange,
    dialer: Dialer,
    options: ForwardOptions,
    onAnswer: (answer: Answer) => void
  ) {
    this.#host = host
    this.#exchange = exchange
    this.#dialer = dialer
    this.#options = options
    this.#onAnswer = onAnswer
    this.#since = host.pool.clock.monotonic()
  }

  get method(): string {
    return this.#options.head.method
  }

  start(): void {
    this.#begin()
    this.#started = true
  }

  #begin(): void {
    const exchange = this.#exchange
    if (exchange.signal.aborted !== undefined) {
      this.aborted(exchange.signal.aborted)
      return
    }
    const { head, body } = this.#options
    const text = this.#host.serialiser.request(
      head,
      framingOf(body),
      asksUpgrade(exchange, this.#options),
      awaitsContinue(body)
    )
    if (text === undefined) {
      this.#fail('upstream-malformed', 'never', 'the request line cannot be written')
      return
    }
    this.#head = text
    if (exchange instanceof CodecExchange) exchange.watcher = this
    else this.#stopListening = exchange.signal.onAbort((why) => this.aborted(why))
    const idle = this.#dialer.reusable ? this.#host.pool.take(this.#dialer.key) : undefined
    if (idle !== undefined) this.#attach(idle)
    else this.#dial()
  }

  aborted(why: Failure): void {
    this.#fail(why, 'never', 'the client ended the exchange')
  }

  interim(head: ResponseHead): void {
    const now = this.#host.pool.clock.monotonic()
    this.#interim ??= new InterimBudget(now)
    if (!this.#interim.takes(head.headers, now)) this.#fail('upstream-malformed', 'never', 'too many interim answers')
    else if (head.status === 100) {
      if (this.#phase === 'continuing') this.#sendBody()
    } else this.#options.onInform?.(head)
  }

  answered(head: ResponseHead, body: CodecBody): void {
    const connection = this.#connection as UpstreamConnection
    this.#phase = 'answered'
    this.#body = body
    // Makes the next deadline check start the body's timeout.
    this.#moved = -1
    this.#answer = { kind: 'response', head, body, reusedConnection: connection.reused }
  }

  switched(head: ResponseHead): void {
    const connection = this.#connection as UpstreamConnection
    if (!asksUpgrade(this.#exchange, this.#options) || !this.#sent) {
      this.#fail(
        'upstream-malformed',
        'never',
        'switched protocols without being asked, or before the request was sent'
      )
      return
    }
    this.#leave()
    this.#answer = { kind: 'switched', head, pipe: new StreamPipe(connection.release(), this.#options.idleTimeout) }
  }

  headTaken(): void {
    const answer = this.#answer
    this.#answer = undefined
    if (answer === undefined) return
    if (this.#started) this.#onAnswer(answer)
    // A pipe in this process may deliver it while the request is being written.
    else queueMicrotask(() => this.#onAnswer(answer))
  }

  sent(why: Failure | undefined): void {
    this.#sent = true
    // The upstream must not see a complete request; the client's side knows the reason.
    if (why !== undefined) this.#fail(why, 'never', 'the request body broke')
  }

  broken(failure: Failure, detail: string, begun: boolean): void {
    const connection = this.#connection as UpstreamConnection
    if (connection.unreached) {
      this.#fail(connection.refusal.failure, 'safe', connection.refusal.message)
      return
    }
    const untouched = this.#written(connection) === this.#writtenBefore
    const malformed = failure === 'upstream-malformed'
    const again = untouched ? 'safe' : connection.reused && !begun ? 'idempotent-only' : 'never'
    this.#fail(failure, malformed ? 'never' : again, detail)
  }

  checkDeadlines(now: number): void {
    const { connectTimeout, responseTimeout, idleTimeout } = this.#options
    const waited = now - this.#since
    if (this.#phase === 'dialling') {
      if (connectTimeout > 0 && waited > connectTimeout) this.#fail('dial-timeout', 'safe', 'no connection in time')
    } else if (this.#phase === 'continuing') {
      if (waited > CONTINUE_WAIT) this.#sendBody()
    } else if (this.#phase === 'waiting') this.#checkHead(now, responseTimeout, idleTimeout)
    else if (this.#phase === 'answered') this.#checkBody(now, idleTimeout)
  }

  #checkHead(now: number, responseTimeout: number, idleTimeout: number): void {
    if (!this.#sent) this.#checkUpload(now, idleTimeout)
    else if (responseTimeout > 0 && now - this.#since > responseTimeout) {
      this.#fail('upstream-timeout', 'never', 'no response head in time')
    }
  }

  /** The request body times out only while the upstream does not accept pending bytes; the server transport checks for a slow client. */
  #checkUpload(now: number, idleTimeout: number): void {
    const connection = this.#connection as UpstreamConnection
    const taken = this.#written(connection)
    if (taken !== this.#moved || connection.wire.waiting === 0) {
      this.#moved = taken
      this.#since = now
    } else if (idleTimeout > 0 && now - this.#since > idleTimeout) {
      this.#fail('upstream-timeout', 'never', 'the upstream does not take the request body')
    }
  }

  /** A body times out only while it is awaited and nothing moves the other way; an unread one is given up after the same time. */
  #checkBody(now: number, idleTimeout: number): void {
    const connection = this.#connection as UpstreamConnection
    const moved = connection.bytesRead + this.#written(connection)
    if (moved !== this.#moved || (this.#body?.wanted === true && connection.wire.paused)) {
      this.#moved = moved
      this.#since = now
    } else if (idleTimeout > 0 && now - this.#since > idleTimeout) {
      this.#fail('upstream-timeout', 'never', 'the body is late')
    }
  }

  #dial(): void {
    const host = this.#host
    const { connectTimeout } = this.#options
    const { exchange, dialer } = { exchange: this.#exchange, dialer: this.#dialer }
    host.deadlineTimer.add(this)
    dialer.open({ client: exchange.connection, deadline: connectTimeout, signal: exchange.signal }).then(
      (pipe) => {
        if (this.#phase === 'over') {
          pipe.duplex.on('error', ignore)
          pipe.destroy('client-gone')
          return
        }
        host.deadlineTimer.delete(this)
        this.#options.onConnected?.()
        const Connection = dialer.lenient === true ? LenientConnection : UpstreamConnection
        this.#attach(new Connection(host, dialer.key, pipe, dialer.reusable))
      },
      (error: unknown) => {
        const failure = error instanceof DialError ? error.failure : 'dial-refused'
        this.#fail(failure, 'safe', error instanceof Error ? error.message : 'the dialer failed')
      }
    )
  }

  #attach(connection: UpstreamConnection): void {
    this.#connection = connection
    connection.begin(this)
    connection.writer.carried = 0
    this.#writtenBefore = this.#written(connection)
    if (awaitsContinue(this.#options.body)) {
      this.#phase = 'continuing'
      connection.writer.send(this.#head)
      this.#head = ''
      this.#since = this.#host.pool.clock.monotonic()
    } else this.#sendBody()
  }

  #sendBody(): void {
    const { body } = this.#options
    const framing = framingOf(body)
    const end = framing.kind === 'open' ? 'chunked' : framing.kind
    this.#phase = 'waiting'
    if (end !== 'none') {
      this.#since = this.#host.pool.clock.monotonic()
      this.#connection?.wire.readAfterReset()
    }
    const head = this.#head
    this.#head = ''
    this.#connection?.writer.start(head, body, end, framing.kind === 'length' ? framing.bytes : 0)
  }

  /** Bytes accepted by the kernel, or the carrier of the pipe; only changes are meaningful. */
  #written(connection: UpstreamConnection): number {
    return connection.writer.carried - connection.wire.waiting
  }

  #fail(failure: Failure, retry: 'safe' | 'idempotent-only' | 'never', detail: string): void {
    if (this.#phase === 'over') return
    const answered = this.#phase === 'answered'
    if (this.#body !== undefined && !this.#body.complete) this.#body.failure = failure
    this.#leave()
    // A complete response may still be on its way to the client; its connection then serves other exchanges.
    if (!answered || this.#body?.complete !== true || this.#body.untaken) this.#connection?.destroy()
    // The exchange may just be ending, or its connection being read.
    if (!answered) queueMicrotask(() => this.#onAnswer({ kind: 'failed', failure, retry, detail }))
  }

  #leave(): void {
    this.#phase = 'over'
    this.#stopListening()
    this.#host.deadlineTimer.delete(this)
  }
}

const CHECK_PERIOD = 50
/** Maximum idle connections per upstream. */
const MOST_IDLE = 1024

/** HTTP/1.1 client transport on raw sockets; keeps up to `mostIdle` idle connections per upstream. */
export function codecBack({ clock, mostIdle = MOST_IDLE }: { clock: Clock; mostIdle?: number }): ClientTransport {
  const pool = new UpstreamPool(clock, mostIdle)
  const names = new FieldNames()
  const host: UpstreamHost = {
    names,
    serialiser: new Serialiser(names, new DateLine(clock)),
    shared: Buffer.allocUnsafeSlow(READ_BYTES),
    pool,
    deadlineTimer: new DeadlineTimer(clock, CHECK_PERIOD)
  }
  return {
    forward: (exchange, dialer, options, answered) =>
      new Http1Forwarding(host, exchange, dialer, options, answered).start(),
    retainUpstreams: (keys) => pool.retain(keys),
    endUpstream: (key) => pool.end(key),
    close: () => pool.close()
  }
}
