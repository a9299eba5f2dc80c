import type { Exchange, Sent } from '../exchange/exchange.js'
import type { EntryFacts, Flow } from '../exchange/flow.js'
import type { Verdict } from '../exchange/verdict.js'
import type { Clock } from '../lib/clock.js'
import type { SnapshotHolder } from '../snapshot/holder.js'
import type { Route } from '../snapshot/routes.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { AccessLog } from './access-log.js'
import type { Admission, AdmittedFlow } from './admission.js'
import { FAILURES, type FailureAnswer, REFUSALS } from './failures.js'
import type { Forwarded, Forwarder } from './forwarder.js'
import type { Metrics } from './metrics.js'
import { discard, failureResponse, responseOf, send } from './response.js'

export interface PipelineParts {
  readonly holder: SnapshotHolder
  readonly admission: Admission
  readonly forwarder: Forwarder
  readonly clock: Clock
  readonly metrics: Metrics
  /** Undefined: no access log. */
  readonly accessLog: AccessLog | undefined
  readonly log: { error(fields: object, message: string): void }
}

/** One exchange on its way, with what the log will tell about it. */
interface Passage {
  readonly exchange: Exchange
  /** Pinned for the life of the exchange. */
  readonly snapshot: Snapshot
  readonly begun: number
  flow: AdmittedFlow | undefined
  route: Route | undefined
  /** Modules whose request step ran: their response steps run too. */
  ran: number
  status: number
  code: string | undefined
  upstreamDuration: number | undefined
}

/**
 * The path of a request: admission → route → modules → upstream → response steps of the modules that ran, in reverse →
 * answer → log. One snapshot serves it from the first line to the last. A step answers a verdict to end the
 * exchange, and stays synchronous unless it has to wait.
 */
export class Pipeline {
  readonly #parts: PipelineParts

  constructor(parts: PipelineParts) {
    this.#parts = parts
  }

  /** Serves one exchange. `results`: what `on_tcp_connect` published for its connection. Never rejects. */
  async serve(exchange: Exchange, entry: EntryFacts, results: Flow['results']): Promise<void> {
    const { holder, clock, metrics, log } = this.#parts
    const passage: Passage = {
      exchange,
      snapshot: holder.current(),
      begun: clock.monotonic(),
      flow: undefined,
      route: undefined,
      ran: 0,
      status: 0,
      code: undefined,
      upstreamDuration: undefined
    }
    metrics.inFlight.inc()
    try {
      this.#ended(passage, await this.#pass(passage, entry, results))
    } catch (error) {
      log.error({ err: error, connection: exchange.connection.id }, 'an exchange failed inside the proxy')
      this.#ended(passage, await this.#refuse(passage, REFUSALS.internal))
    } finally {
      metrics.inFlight.dec()
    }
  }

  async #pass(passage: Passage, entry: EntryFacts, results: Flow['results']): Promise<Sent> {
    const { exchange, snapshot } = passage
    const flow = this.#parts.admission.admit(exchange, entry, results)
    if ('status' in flow) return this.#refuse(passage, flow)
    passage.flow = flow
    passage.route = snapshot.route(flow.request.target.host, flow.request.target.path)
    if (passage.route === undefined) return this.#refuse(passage, REFUSALS.route)
    let verdict = requestSteps(passage, flow)
    if (verdict instanceof Promise) verdict = await verdict
    if (verdict?.kind === 'close') return this.#close(passage, verdict.how)
    if (verdict !== undefined)
      return this.#answer(passage, flow, { response: responseOf(verdict), duration: undefined })
    return this.#answer(passage, flow, await this.#forward(passage, flow))
  }

  #forward({ exchange, snapshot, route }: Passage, flow: AdmittedFlow): Promise<Forwarded> {
    const upstream = route?.upstream === undefined ? undefined : snapshot.upstream(route.upstream)
    return this.#parts.forwarder.forward(exchange, flow.request, upstream)
  }

  async #answer(passage: Passage, flow: AdmittedFlow, forwarded: Forwarded): Promise<Sent> {
    const { exchange } = passage
    flow.response = forwarded.response
    passage.upstreamDuration = forwarded.duration
    if (exchange.signal.aborted !== undefined) return this.#abandon(passage, forwarded)
    addFields(flow)
    let replaced = responseSteps(passage, flow)
    if (replaced instanceof Promise) replaced = await replaced
    if (exchange.signal.aborted !== undefined) return this.#abandon(passage, forwarded)
    if (replaced === undefined && forwarded.pipe !== undefined) return this.#splice(passage, flow, forwarded)
    if (replaced !== undefined) {
      release(forwarded)
      if (replaced.kind === 'close') return this.#close(passage, replaced.how)
      flow.response = responseOf(replaced)
    }
    passage.status = flow.response.status
    passage.code = flow.response.local ? flow.response.headers.get('sluice-error-code') : undefined
    return send(exchange, flow.response)
  }

  #splice(passage: Passage, flow: AdmittedFlow, { pipe }: Forwarded): Promise<Sent> {
    const response = flow.response as Forwarded['response']
    passage.status = response.status
    return passage.exchange.splice(
      { status: response.status, reason: response.reason, headers: response.headers.list },
      pipe as NonNullable<typeof pipe>
    )
  }

  #refuse(passage: Passage, answer: FailureAnswer): Promise<Sent> {
    passage.status = answer.status
    passage.code = answer.code
    return send(passage.exchange, failureResponse(answer), answer.close)
  }

  #close({ exchange }: Passage, how: 'fin' | 'reset'): Sent {
    exchange.close(how)
    return { bytesIn: exchange.request.body.bytes, bytesOut: 0, firstByteAt: 0, endedAt: this.#parts.clock.monotonic() }
  }

  /** The client has left, so there is nobody to answer. */
  #abandon({ exchange }: Passage, forwarded: Forwarded): Sent {
    release(forwarded)
    const failure = exchange.signal.aborted ?? 'client-gone'
    const bytesIn = exchange.request.body.bytes
    return { bytesIn, bytesOut: 0, firstByteAt: 0, endedAt: this.#parts.clock.monotonic(), failure }
  }

  #ended(passage: Passage, sent: Sent): void {
    const { metrics, accessLog, clock } = this.#parts
    const { exchange, flow, route, status, code, upstreamDuration } = passage
    const duration = (sent.endedAt === 0 ? clock.monotonic() : sent.endedAt) - passage.begun
    metrics.ended(route?.edge ?? '', status, duration, upstreamDuration, sent.bytesIn, sent.bytesOut)
    const failed = code ?? (sent.failure === undefined ? undefined : FAILURES[sent.failure].code)
    if (failed !== undefined) metrics.failed(failed)
    accessLog?.write({
      connection: exchange.connection,
      request: exchange.request,
      flow,
      route,
      revision: passage.snapshot.revision,
      status,
      code,
      sent,
      duration,
      upstreamDuration
    })
  }
}

function requestSteps(passage: Passage, flow: AdmittedFlow): Verdict | undefined | Promise<Verdict | undefined> {
  const { route, snapshot } = passage
  const modules = route?.modules
  if (!modules) return undefined
  while (passage.ran < modules.length) {
    const verdict = modules[passage.ran++]?.request(flow, snapshot)
    if (verdict instanceof Promise) return verdict.then((late) => late ?? requestSteps(passage, flow))
    if (verdict !== undefined) return verdict
  }
  return undefined
}

function responseSteps(passage: Passage, flow: AdmittedFlow): Verdict | undefined | Promise<Verdict | undefined> {
  const { route, snapshot } = passage
  while (passage.ran > 0) {
    const verdict = route?.modules?.[--passage.ran]?.response(flow, snapshot)
    if (verdict instanceof Promise) return verdict.then((late) => late ?? responseSteps(passage, flow))
    if (verdict !== undefined) return verdict
  }
  return undefined
}

function addFields({ response, responseFields }: AdmittedFlow): void {
  if (response === undefined || responseFields === undefined) return
  for (let i = 0; i < responseFields.length; i += 2) {
    response.headers.append(responseFields[i] as string, responseFields[i + 1] as string)
  }
}

function release({ response, pipe }: Forwarded): void {
  discard(response)
  pipe?.destroy('client-gone')
}
