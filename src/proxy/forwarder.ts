import { fieldsForReading } from '../flow/content-coding.js'
import { FAILURES, type FailureAnswer, requestErrors } from '../flow/error-codes.js'
import type { BytePipe, Exchange, ResponseHead } from '../flow/exchange.js'
import { type Flow, type FlowRequest, type FlowResponse, REQUEST_ID } from '../flow/flow.js'
import { HeaderFields, type HeaderList } from '../flow/headers.js'
import type { FlowTrace } from '../flow/trace.js'
import type { Clock } from '../lib/clock.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { UpstreamTries } from '../telemetry/upstream-tries.js'
import { type Answer, type ClientTransport, DialError, type ForwardOptions } from '../transport/contract.js'
import { ignore } from '../transport/pipes.js'
import { WebSocketPipe } from '../transport/websocket/pipe.js'
import type { ConnectionLogins } from './connection-logins.js'
import { cleanResponse, type HeaderKinds, HeadRules } from './header-sanitizing.js'
import { discard, failureResponse, fixedResponse } from './response.js'
import { isEmpty, isRefusal, isUnreached, mayRetry, type RetryBudget, retriesOf, successorOf } from './retries.js'
import type { Server } from './server.js'
import { serverOptions } from './server-options.js'
import {
  absence,
  type ServerTarget,
  type UpstreamLookup,
  type Upstreams,
  type UpstreamTarget,
  type UpstreamTimeouts
} from './upstreams.js'

/** Result of forwarding: a response, and after a protocol switch the pipe to join. */
export interface Forwarded {
  readonly response: FlowResponse
  readonly pipe?: BytePipe
  /** Milliseconds from forwarding to the response header; undefined if nothing was sent. */
  readonly duration: number | undefined
  /** True if the upstream connection was reused. Missing without an ordinary response from an upstream. */
  readonly reusedConnection?: boolean
}

/** Returns the result if nothing is forwarded. */
export function refusedWith(answer: FailureAnswer): Forwarded {
  return { response: failureResponse(answer), duration: undefined }
}

/** Releases a response that will not be sent to the client. */
export function release({ response, pipe }: Forwarded): void {
  discard(response)
  pipe?.destroy('client-gone')
}

export interface ForwarderParts {
  readonly clientTransport: ClientTransport
  readonly upstreams: Upstreams
  readonly kinds: HeaderKinds
  readonly logins: ConnectionLogins
  readonly clock: Clock
  readonly metrics: Metrics
  readonly timeouts: UpstreamTimeouts
  readonly log: { warn(fields: object, message: string): void }
}

const NO_BYTES = new Uint8Array(0)

/** Lowest status of an error. */
const FIRST_ERROR = 400
const NONE_TRIED: ReadonlySet<Server> = new Set()

/** Order to forward a request. Exactly one of the two functions is called, once, possibly before `forward` returns. Neither throws. */
export interface ForwardingOrder {
  /** Snapshot of the flow. */
  readonly units: UpstreamLookup
  /** Upstream of its route. */
  readonly key: string | undefined
  /** Records the attempts. */
  readonly tries: UpstreamTries | undefined
  forwarded(forwarded: Forwarded): void
  /** Called if forwarding itself failed. */
  crashed(error: unknown): void
}

/** Forwards requests: see `Forwarder`. */
export type Forwards = Pick<Forwarder, 'forward'>

/** Forwards requests to their upstreams. */
export class Forwarder implements Forwards {
  readonly #parts: ForwarderParts

  constructor(parts: ForwarderParts) {
    this.#parts = parts
  }

  forward(exchange: Exchange, flow: Flow & { readonly request: FlowRequest }, order: ForwardingOrder): void {
    new Forwarding(this.#parts, exchange, flow, order).start()
  }
}

/**
 * Forwarding of one request. Sends it, retries where that is safe, and turns every failure into a response. Uses no promises, whose cost
 * each request would pay.
 */
class Forwarding {
  readonly #parts: ForwarderParts
  readonly #exchange: Exchange
  readonly #flow: Flow & { readonly request: FlowRequest }
  readonly #order: ForwardingOrder
  #options: ForwardOptions | undefined = undefined
  #target: ServerTarget | undefined = undefined
  #tried = NONE_TRIED
  #budget: RetryBudget | undefined = undefined
  #attempt = 1
  /** Server that lost a connection, by GOAWAY or while idle: it is more likely to work than an unreachable one. */
  #broken: ServerTarget | undefined = undefined
  #begun = 0
  /** Milliseconds from the start to the last response. */
  #duration = 0
  #connect: number | undefined = undefined
  /** Set if the client connection has separate upstream connections. */
  #login: ReturnType<ConnectionLogins['of']> = undefined
  /** Releases the place at the server of the attempt. */
  #end: () => void = ignore

  constructor(
    parts: ForwarderParts,
    exchange: Exchange,
    flow: Flow & { readonly request: FlowRequest },
    order: ForwardingOrder
  ) {
    this.#parts = parts
    this.#exchange = exchange
    this.#flow = flow
    this.#order = order
  }

  /** Called once. */
  start(): void {
    const { upstreams } = this.#parts
    const flow = this.#flow
    upstreams.cookies.take(flow)
    const { units, key } = this.#order
    const target = key === undefined ? undefined : upstreams.choose(units, key, this.#tried, flow)
    if (target === undefined) {
      this.#order.forwarded(refusedWith(absence(units, key)))
      return
    }
    const { request, requestId } = flow
    if (!request.headers.has(REQUEST_ID)) request.headers.append(REQUEST_ID, requestId)
    else if (request.headers.get(REQUEST_ID) !== requestId) request.headers.set(REQUEST_ID, requestId)
    this.#login = this.#parts.logins.of(this.#exchange.connection, request.headers.current)
    if (this.#login === undefined || request.version !== '2') this.#begin(target)
    else {
      // Requests on one HTTP/1 connection are already sequential.
      this.#login.inTurn(
        this.#exchange,
        (run) => flow.onEnd(run),
        this.#parts.timeouts.response,
        (late) => {
          if (late) this.#order.forwarded(refusedWith(requestErrors.loginBusy))
          else this.#begin(target)
        }
      )
    }
  }

  #begin(target: UpstreamTarget): void {
    this.#begun = this.#parts.clock.monotonic()
    const forwarded = this.#send(target)
    if (forwarded !== undefined) this.#order.forwarded(forwarded)
  }

  readonly #onAnswer = (answer: Answer): void => {
    let forwarded: Forwarded | undefined
    try {
      forwarded = this.#answered(answer)
    } catch (error) {
      this.#order.crashed(error)
      return
    }
    if (forwarded !== undefined) this.#order.forwarded(forwarded)
  }

  /** Handles the answer of an attempt; returns the result, or undefined while another attempt is running. */
  #answered(answer: Answer): Forwarded | undefined {
    const { clock, metrics } = this.#parts
    const target = this.#target as ServerTarget
    const { server, backend, name } = target
    const failed = answer.kind === 'failed'
    if (failed) {
      this.#end()
      server.failed(answer.failure)
    } else {
      if (answer.kind === 'response' && server.failsWith(answer.head.status)) server.refused(answer.head.status)
      else server.succeeded()
      if (answer.head.status === 401) this.#parts.logins.challenged(this.#exchange.connection, answer.head.headers)
      this.#flow.onEnd(this.#end)
    }
    const from = this.#duration
    this.#duration = clock.monotonic() - this.#begun
    if (!failed) metrics.answered(backend, this.#duration - from)
    this.#order.tries?.add({
      backend,
      name,
      server: server.name,
      connect: this.#connect,
      firstByte: failed ? undefined : this.#duration - from,
      status: failed ? undefined : answer.head.status,
      failure: failed ? answer.failure : undefined
    })
    this.#flow.trace?.answered({
      at: this.#begun + this.#duration,
      backend,
      name,
      server: server.name,
      status: failed ? undefined : answer.head.status,
      failure: failed ? answer.failure : undefined
    })
    if (!failed && !isRefusal(answer, server, retriesOf(server))) return this.#forwarded(answer)
    return this.#again(answer, target)
  }

  /** Sends an attempt; returns undefined while waiting for a response or for a place at the server. */
  #send(target: UpstreamTarget): Forwarded | undefined {
    if (target.kind === 'response') return { response: fixedResponse(target.unit), duration: undefined }
    const { places } = target.server
    this.#target = target
    this.#connect = undefined
    if (places.state === 'free') this.#sendNow(target)
    else places.wait(this.#exchange.signal, () => this.#inTurn(target), this.#onAnswer)
    return undefined
  }

  #inTurn(target: ServerTarget): void {
    try {
      this.#sendNow(target)
    } catch (error) {
      this.#order.crashed(error)
    }
  }

  #sendNow(target: ServerTarget): void {
    const { server } = target
    if (this.#attempt === 1 && this.#budget === undefined && server.settings.retries !== undefined) {
      this.#budget = this.#parts.upstreams.retryBudget(this.#order.key as string)
      this.#budget.earn(retriesOf(server))
    }
    const { trace, speaksBytes } = this.#flow
    if (trace !== undefined) this.#write(trace)
    this.#options ??= this.#made()
    const options = this.#options
    this.#end = server.begin()
    if (speaksBytes === undefined)
      this.#parts.clientTransport.forward(
        this.#exchange,
        target.dialer.answers === undefined ? (this.#login?.dialer(target.dialer) ?? target.dialer) : target.dialer,
        serverOptions(options, server, this.#exchange),
        this.#onAnswer
      )
    else
      this.#open(target, speaksBytes.headers, options, this.#end).then(this.#onAnswer, (error: unknown) =>
        this.#order.crashed(error)
      )
  }

  /** Retries where that is safe; otherwise returns the answer. */
  #again(answer: Answer, target: ServerTarget): Forwarded | undefined {
    const { upstreams, metrics } = this.#parts
    const { server } = target
    const { signal } = this.#exchange
    const { request } = this.#flow
    const retries = retriesOf(server)
    const failed = answer.kind === 'failed'
    const successor = signal.aborted === undefined ? successorOf(answer, server) : undefined
    if (successor !== undefined && !this.#tried.has(server)) {
      // Nothing was sent and the connection is established: this is the same attempt.
      this.#tried = new Set([...this.#tried, server])
      return this.#send({ ...target, server: successor, dialer: successor.dialer })
    }
    let next: UpstreamTarget | undefined
    if (this.#attempt < retries.attempts && mayRetry(answer, request, retries) && signal.aborted === undefined) {
      this.#tried = new Set([...this.#tried, server])
      if (failed && !isUnreached(answer)) this.#broken = target
      const again = server.settings.retries !== undefined || (this.#attempt === 1 && failed)
      const { units, key } = this.#order
      const other = upstreams.choose(units, key as string, this.#tried, this.#flow)
      next = other ?? this.#broken ?? (again ? target : undefined)
      if (next?.kind === 'server' && this.#budget?.take(retries) === false) {
        metrics.retryRefused()
        next = undefined
      }
    }
    if (next === undefined) {
      return failed ? { response: this.#failed(answer, server), duration: this.#duration } : this.#forwarded(answer)
    }
    if (answer.kind === 'response') answer.body.discard()
    metrics.retried()
    // A body in its engine is sent once, even if empty.
    if (isEmpty(request.body)) this.#options = { ...(this.#options ?? this.#made()), body: NO_BYTES }
    this.#attempt++
    return this.#send(next)
  }

  /** Opens a pipe to the upstream for a WebSocket. */
  async #open(
    { server, dialer }: ServerTarget,
    headers: HeaderList,
    options: ForwardOptions,
    end: () => void
  ): Promise<Answer> {
    const { timeouts } = this.#parts
    const { connection: client, signal } = this.#exchange
    try {
      const { connect = timeouts.connect, idle = timeouts.idle } = server.settings.timeouts ?? {}
      const upstream = await dialer.open({ client, deadline: connect, signal, bytes: true })
      options.onConnected?.()
      const head = { status: 101, reason: 'Switching Protocols', headers }
      return { kind: 'switched', head, pipe: new WebSocketPipe(upstream, idle) }
    } catch (error) {
      if (!(error instanceof DialError)) {
        end()
        throw error
      }
      return { kind: 'failed', failure: error.failure, retry: 'safe', detail: error.message }
    }
  }

  #forwarded(answer: Exclude<Answer, { kind: 'failed' }>): Forwarded {
    const { sticks, dialer } = this.#target as ServerTarget
    const duration = this.#duration
    const plain = this.#response(answer.head, answer.kind === 'switched')
    const isFolderError = dialer.answers !== undefined && plain.status >= FIRST_ERROR
    const response = isFolderError ? { ...plain, folderError: true } : plain
    if (sticks.length > 0) this.#parts.upstreams.cookies.grant(this.#flow, sticks, response.headers)
    if (answer.kind === 'switched') return { response, pipe: answer.pipe, duration }
    const { body, head, reusedConnection } = answer
    response.body = body.whole ?? body
    const { framing } = body
    if (framing.kind === 'open' || (framing.kind === 'length' && framing.trailers === true)) {
      body.trailerRules = new HeadRules(this.#parts.kinds, head.headers, response.headers)
      response.trailers = () => body.trailers ?? []
    }
    return { response, duration, reusedConnection }
  }

  /** Sends the span of the attempt to the upstream; each attempt has its own. */
  #write(trace: FlowTrace): void {
    trace.sends(this.#flow.request.headers, this.#begun + this.#duration)
    if (this.#options === undefined || !trace.sampled) return
    this.#options = { ...this.#options, head: { ...this.#options.head, headers: this.#fields() } }
  }

  #fields(): HeaderList {
    const { request, reads } = this.#flow
    return reads === undefined ? request.headers.list : fieldsForReading(request.headers, reads)
  }

  #made(): ForwardOptions {
    const { timeouts, kinds, clock } = this.#parts
    const { request } = this.#flow
    return {
      head: {
        method: request.method,
        target: request.target.sent,
        authority: request.authority,
        scheme: request.head.scheme,
        version: '1.1',
        headers: this.#fields()
      },
      body: request.body,
      connectTimeout: timeouts.connect,
      responseTimeout: timeouts.response,
      idleTimeout: timeouts.idle,
      onConnected:
        this.#order.tries === undefined
          ? undefined
          : () => {
              this.#connect = clock.monotonic() - this.#begun - this.#duration
            },
      onInform: (head) => {
        this.#exchange.inform({ status: head.status, headers: cleanResponse(kinds, head.headers, false) })
      }
    }
  }

  #response(head: ResponseHead, switched: boolean): FlowResponse {
    return {
      status: head.status,
      reason: head.reason ?? '',
      headers: new HeaderFields(cleanResponse(this.#parts.kinds, head.headers, switched)),
      body: undefined,
      local: false,
      transforms: [],
      trailers: undefined
    }
  }

  #failed(answer: Extract<Answer, { kind: 'failed' }>, server: Server): FlowResponse {
    const { failure, detail } = answer
    if (!failure.startsWith('client-'))
      this.#parts.log.warn({ failure, detail, upstream: server.name }, 'upstream failed')
    return failureResponse(FAILURES[failure])
  }
}
