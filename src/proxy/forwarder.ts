import type { Answer, Back, ForwardOptions } from '../engine/contract.js'
import type { BytePipe } from '../exchange/body.js'
import type { Exchange, ResponseHead } from '../exchange/exchange.js'
import type { FlowRequest, FlowResponse } from '../exchange/flow.js'
import { HeaderFields } from '../exchange/headers.js'
import type { Clock } from '../lib/clock.js'
import type { UpstreamUnit } from '../plan/plan.js'
import { FAILURES, REFUSALS } from './failures.js'
import type { HeaderKinds } from './header-kinds.js'
import { cleanResponse } from './hygiene.js'
import type { Metrics } from './metrics.js'
import { failureResponse } from './response.js'
import type { Upstreams } from './upstreams.js'

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
}

export interface ForwarderParts {
  readonly back: Back
  readonly upstreams: Upstreams
  readonly kinds: HeaderKinds
  readonly clock: Clock
  readonly metrics: Metrics
  readonly timeouts: UpstreamTimeouts
  readonly log: { warn(fields: object, message: string): void }
}

/** RFC 9110 9.2.2: asking twice has the effect of asking once. */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])

/** Sends a request to its upstream, once more when that cannot do harm, and turns every way to fail into a response. */
export class Forwarder {
  readonly #parts: ForwarderParts

  constructor(parts: ForwarderParts) {
    this.#parts = parts
  }

  async forward(exchange: Exchange, request: FlowRequest, upstream: UpstreamUnit | undefined): Promise<Forwarded> {
    if (upstream === undefined) return { response: failureResponse(REFUSALS.upstream), duration: undefined }
    const { back, upstreams, clock, metrics } = this.#parts
    const dialer = upstreams.dialer(upstream)
    const options = this.#options(exchange, request)
    const begun = clock.monotonic()
    let answer = await back.forward(exchange, dialer, options)
    if (mayRetry(answer, request) && exchange.signal.aborted === undefined) {
      metrics.retried()
      answer = await back.forward(exchange, dialer, options)
    }
    const duration = clock.monotonic() - begun
    if (answer.kind === 'failed') return { response: this.#failed(answer, upstream), duration }
    const response = this.#response(answer.head, answer.kind === 'switched')
    if (answer.kind === 'switched') return { response, pipe: answer.pipe, duration }
    const { body } = answer
    response.body = body
    // A body of known length has no trailers (RFC 9112 6.3), and asking for them would cost it its length.
    if (body.framing.kind === 'open') response.trailers = () => body.trailers ?? []
    return { response, duration }
  }

  #options(exchange: Exchange, request: FlowRequest): ForwardOptions {
    const { timeouts, kinds } = this.#parts
    return {
      head: {
        method: request.method,
        target: request.target.uri,
        authority: request.head.authority,
        scheme: request.head.scheme,
        version: '1.1',
        headers: request.headers.list
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

  #failed(answer: Extract<Answer, { kind: 'failed' }>, upstream: UpstreamUnit): FlowResponse {
    if (!answer.failure.startsWith('client-')) {
      const { failure, detail } = answer
      this.#parts.log.warn(
        { failure, detail, upstream: `${upstream.protocol}://${upstream.host}:${upstream.port}` },
        'upstream failed'
      )
    }
    return failureResponse(FAILURES[answer.failure])
  }
}

/** Only a body that is absent or bytes can be sent again (a stream may have been read). */
function mayRetry(answer: Answer, request: FlowRequest): boolean {
  if (answer.kind !== 'failed' || answer.retry === 'never') return false
  if (answer.retry === 'idempotent-only' && !IDEMPOTENT.has(request.method)) return false
  return request.body instanceof Uint8Array || request.body.framing.kind === 'none'
}
