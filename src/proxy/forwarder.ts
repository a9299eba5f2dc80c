import { fieldsForReading } from '../flow/content-coding.js'
import { FAILURES } from '../flow/error-codes.js'
import type { BytePipe, Exchange, ResponseHead } from '../flow/exchange.js'
import type { Flow, FlowRequest, FlowResponse } from '../flow/flow.js'
import { HeaderFields, type HeaderList } from '../flow/headers.js'
import type { Clock } from '../lib/clock.js'
import type { ResponseUpstream } from '../runtime/plan.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { UpstreamTries } from '../telemetry/upstream-tries.js'
import { type Answer, type ClientTransport, DialError, type ForwardOptions } from '../transport/contract.js'
import { WebSocketPipe } from '../transport/websocket/pipe.js'
import { cleanResponse, type HeaderKinds } from './header-sanitizing.js'
import { failureResponse, responseOf } from './response.js'
import { isEmpty, isRefusal, mayRetry, type RetryBudget, retriesOf, successorOf } from './retries.js'
import type { Server } from './server.js'
import { absence, type UpstreamLookup, type Upstreams, type UpstreamTarget } from './upstreams.js'

/** Milliseconds. */
export interface UpstreamTimeouts {
  readonly connect: number
  readonly response: number
  readonly idle: number
}

/** What came of forwarding: a response, and after a switch of protocols the pipe to splice. */
export interface Forwarded {
  readonly response: FlowResponse
  readonly pipe?: BytePipe
  /** Milliseconds from forwarding to the head of the answer; undefined when nothing was sent. */
  readonly duration: number | undefined
  /** Had the upstream's connection carried a request before? Left out without an ordinary answer of an upstream. */
  readonly reusedConnection?: boolean
}

export interface ForwarderParts {
  readonly clientTransport: ClientTransport
  readonly upstreams: Upstreams
  readonly kinds: HeaderKinds
  readonly clock: Clock
  readonly metrics: Metrics
  readonly timeouts: UpstreamTimeouts
  readonly log: { warn(fields: object, message: string): void }
}

type ServerTarget = Extract<UpstreamTarget, { kind: 'server' }>

const NO_BYTES = new Uint8Array(0)
const NONE_TRIED: ReadonlySet<Server> = new Set()

/** Sends a request to its upstream, again or elsewhere when that cannot do harm, and turns every way to fail into a response. */
export class Forwarder {
  readonly #parts: ForwarderParts

  constructor(parts: ForwarderParts) {
    this.#parts = parts
  }

  /** `units`: the snapshot that the flow is pinned to; `key`: the upstream of its route; `tries` takes what is tried. */
  async forward(
    exchange: Exchange,
    flow: Flow & { readonly request: FlowRequest },
    units: UpstreamLookup,
    key: string | undefined,
    tries: UpstreamTries | undefined
  ): Promise<Forwarded> {
    const { upstreams, clock, metrics, clientTransport } = this.#parts
    let tried = NONE_TRIED
    upstreams.cookies.take(flow)
    let target = key === undefined ? undefined : upstreams.choose(units, key, tried, flow)
    if (key === undefined || target === undefined)
      return { response: failureResponse(absence(units, key)), duration: undefined }
    const begun = clock.monotonic()
    let options = this.#options(exchange, flow)
    let budget: RetryBudget | undefined
    let duration = 0
    for (let attempt = 1; ; attempt++) {
      if (target.kind === 'response') return { response: fixedResponse(target.unit), duration: undefined }
      const server: Server = target.server
      const backend: string = target.backend
      const retries = retriesOf(server)
      if (attempt === 1 && budget === undefined && server.settings.retries !== undefined) {
        budget = upstreams.retryBudget(units, key)
        budget.earn(retries)
      }
      const from = duration
      let connect: number | undefined
      const observed: ForwardOptions =
        tries === undefined ? options : { ...options, onConnected: () => (connect = clock.monotonic() - begun - from) }
      const { speaksBytes } = flow
      const end = server.begin()
      const answer: Answer =
        speaksBytes === undefined
          ? await clientTransport.forward(exchange, target.dialer, withTimeouts(observed, server))
          : await this.#open(exchange, target, speaksBytes.headers, observed, end)
      if (answer.kind === 'failed') {
        end()
        server.failed(answer.failure)
      } else {
        if (answer.kind === 'response' && server.failsWith(answer.head.status)) server.refused(answer.head.status)
        else server.succeeded()
        flow.onEnd(end)
      }
      duration = clock.monotonic() - begun
      if (answer.kind !== 'failed') metrics.answered(backend, duration - from)
      tries?.add({
        backend,
        server: server.name,
        connect,
        firstByte: answer.kind === 'failed' ? undefined : duration - from,
        status: answer.kind === 'failed' ? undefined : answer.head.status,
        failure: answer.kind === 'failed' ? answer.failure : undefined
      })
      if (answer.kind !== 'failed' && !isRefusal(answer, server, retries))
        return this.#forwarded(answer, duration, flow, target)
      const successor: Server | undefined =
        exchange.signal.aborted === undefined ? successorOf(answer, server) : undefined
      if (successor !== undefined && !tried.has(server)) {
        // Nothing was sent, and the connection stands: this is the same try.
        tried = new Set([...tried, server])
        target = { ...target, server: successor, dialer: successor.dialer }
        attempt--
        continue
      }
      let next: UpstreamTarget | undefined
      if (
        attempt < retries.attempts &&
        mayRetry(answer, flow.request, retries) &&
        exchange.signal.aborted === undefined
      ) {
        tried = new Set([...tried, server])
        // Without another server, one that broke is asked once more: its connection may have been closed while it was idle.
        const again: boolean = server.settings.retries !== undefined || (attempt === 1 && answer.kind === 'failed')
        next = upstreams.choose(units, key, tried, flow) ?? (again ? target : undefined)
        if (next?.kind === 'server' && budget?.take(retries) === false) {
          metrics.retryRefused()
          next = undefined
        }
      }
      if (next === undefined) {
        return answer.kind === 'failed'
          ? { response: this.#failed(answer, server), duration }
          : this.#forwarded(answer, duration, flow, target)
      }
      if (answer.kind === 'response') answer.body.discard()
      metrics.retried()
      // A body inside its engine is sent once, be it empty.
      if (isEmpty(flow.request.body)) options = { ...options, body: NO_BYTES }
      target = next
    }
  }

  /** A pipe to the upstream, which a WebSocket is to carry. */
  async #open(
    exchange: Exchange,
    { server, dialer }: ServerTarget,
    headers: HeaderList,
    options: ForwardOptions,
    end: () => void
  ): Promise<Answer> {
    const { timeouts } = this.#parts
    const { connection: client, signal } = exchange
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

  #forwarded(
    answer: Exclude<Answer, { kind: 'failed' }>,
    duration: number,
    flow: Flow,
    { sticks }: ServerTarget
  ): Forwarded {
    const response = this.#response(answer.head, answer.kind === 'switched')
    if (sticks.length > 0) this.#parts.upstreams.cookies.grant(flow, sticks, response.headers)
    if (answer.kind === 'switched') return { response, pipe: answer.pipe, duration }
    const { body, reusedConnection } = answer
    response.body = body
    // A body of known length has no trailers (RFC 9112 6.3), and asking for them would cost it its length.
    if (body.framing.kind === 'open') response.trailers = () => body.trailers ?? []
    return { response, duration, reusedConnection }
  }

  #options(exchange: Exchange, { request, reads }: Flow & { readonly request: FlowRequest }): ForwardOptions {
    const { timeouts, kinds } = this.#parts
    return {
      head: {
        method: request.method,
        target: request.target.uri,
        authority: request.head.authority,
        scheme: request.head.scheme,
        version: '1.1',
        headers: reads === undefined ? request.headers.list : fieldsForReading(request.headers, reads)
      },
      body: request.body,
      connectTimeout: timeouts.connect,
      responseTimeout: timeouts.response,
      idleTimeout: timeouts.idle,
      onInform: (head) => {
        exchange.inform({ status: head.status, headers: cleanResponse(kinds, head.headers, false) })
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
    if (!answer.failure.startsWith('client-')) {
      const { failure, detail } = answer
      this.#parts.log.warn({ failure, detail, upstream: server.name }, 'upstream failed')
    }
    return failureResponse(FAILURES[answer.failure])
  }
}

function fixedResponse({ status, headers, body }: ResponseUpstream): FlowResponse {
  const fields = Object.entries(headers).flat()
  return responseOf({ kind: 'respond', status, headers: fields, ...(body === '' ? {} : { body: Buffer.from(body) }) })
}

/** The time-outs of the backend take the place of those of the options. */
function withTimeouts(options: ForwardOptions, { settings: { timeouts } }: Server): ForwardOptions {
  if (timeouts === undefined) return options
  const { connect = options.connectTimeout, response = options.responseTimeout, idle = options.idleTimeout } = timeouts
  return { ...options, connectTimeout: connect, responseTimeout: response, idleTimeout: idle }
}
