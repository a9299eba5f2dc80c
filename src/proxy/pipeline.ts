import { FAILURES, type FailureAnswer, flowErrors, requestErrors } from '../flow/error-codes.js'
import type { Exchange, Sent } from '../flow/exchange.js'
import type { EntryFacts, Flow, FlowResponse } from '../flow/flow.js'
import { dropLoginCookies, isSecure } from '../flow/reserved-paths.js'
import type { Verdict } from '../flow/verdict.js'
import type { Clock } from '../lib/clock.js'
import type { UpstreamUnit } from '../runtime/plan.js'
import type { SnapshotHolder } from '../runtime/snapshot.js'
import type { AccessLog } from '../telemetry/access-log.js'
import type { TrafficEventSource } from '../telemetry/event-fields.js'
import type { Metrics } from '../telemetry/metrics.js'
import { UpstreamTries } from '../telemetry/upstream-tries.js'
import type { Admission, AdmittedFlow } from './admission.js'
import { ownAnswer } from './error-body.js'
import { countExchange } from './exchange-rates.js'
import { type Forwarded, type Forwards, refusedWith, release } from './forwarder.js'
import type { Observers, RequestTracer } from './observers.js'
import { httpsLocation, type PlainAnswer, plainAnswer } from './plain-http.js'
import { addFields, discard, failureResponse, localResponse, nameTo, responseOf, send, splice } from './response.js'
import {
  enterRoute,
  type InternalPlace,
  lead,
  NO_HOPS,
  namedRoute,
  type RoutePlace,
  requestSteps,
  responseSteps
} from './route-steps.js'

/** Dependencies of the pipeline and its reports. */
export interface PipelineParts {
  readonly holder: Pick<SnapshotHolder, 'current'>
  readonly admission: Admission
  readonly forwarder: Forwards
  /** Observers of client exchanges. */
  readonly observers: Observers
  /** @default no tracing */
  readonly tracer?: RequestTracer | undefined
  /** True if errors of this process get a body. @default false */
  readonly errorBodies?: boolean
  readonly clock: Clock
  readonly metrics: Metrics
  /** Returns the validation response for a certificate authority; undefined for every other request. */
  readonly challenge: (host: string, path: string) => Uint8Array | undefined
  /** Returns false for an upstream whose agents have gone. @default every upstream serves */
  readonly upstreamServes?: ((unit: UpstreamUnit) => boolean) | undefined
  /** Returns the port of an HTTP listener by its unit's key; undefined if it is not open. */
  readonly listenerPort: (key: string) => number | undefined
  readonly accessLog: AccessLog | undefined
  readonly events: TrafficEventSource
  readonly log: { error(fields: object, message: string): void }
}

/** Exchange in progress with the data for its log line. */
interface RequestContext extends RoutePlace {
  readonly exchange: Exchange
  readonly begun: number
  /** Set for a request of a policy; undefined for a client. */
  readonly inside: InternalPlace | undefined
  flow: AdmittedFlow | undefined
  /** Edge id; undefined if no edge has the host. */
  edge: string | undefined
  /** Routes of internal endpoints that the exchange was forwarded through. */
  inner: string[] | undefined
  status: number
  own: boolean
  code: string | undefined
  upstreamDuration: number | undefined
  reusedConnection: boolean | undefined
  /** Created when the request is forwarded and a log or event shows it. */
  tries: UpstreamTries | undefined
  observed: boolean
  hsts: string | undefined
  readonly onEnd: (() => void) | undefined
}

/** Sent response; undefined while waiting for the upstream. */
type Passed = Sent | undefined

/**
 * Path of a request: admission → route → modules → upstream → response steps of the modules that ran, in reverse → response → log. One
 * snapshot serves the whole exchange. A step returns a verdict to stop, and is synchronous unless it has to wait.
 */
export class Pipeline {
  readonly #parts: PipelineParts

  constructor(parts: PipelineParts) {
    this.#parts = parts
  }

  /** Serves one exchange. `results`: what `on_tcp_connect` published for its connection. Never throws. */
  serve(exchange: Exchange, entry: EntryFacts, results: Flow['results']): void {
    this.#serve(exchange, entry, results, undefined, undefined)
  }

  /** Runs `serve` and resolves when the exchange has finished. Never rejects. */
  serveToEnd(exchange: Exchange, entry: EntryFacts, results: Flow['results']): Promise<void> {
    return new Promise((resolve) => this.#serve(exchange, entry, results, undefined, resolve))
  }

  /** Serves a request of a policy to an internal endpoint until it has finished. `entry`: listener of the client. Never rejects. */
  serveInside(exchange: Exchange, entry: EntryFacts, place: InternalPlace): Promise<void> {
    return new Promise((resolve) => this.#serve(exchange, entry, undefined, place, resolve))
  }

  #serve(
    exchange: Exchange,
    entry: EntryFacts,
    results: Flow['results'],
    inside: InternalPlace | undefined,
    onEnd: (() => void) | undefined
  ): void {
    const { holder, clock, metrics } = this.#parts
    const context: RequestContext = {
      exchange,
      snapshot: inside?.snapshot ?? holder.current(),
      begun: clock.monotonic(),
      inside,
      flow: undefined,
      route: undefined,
      ran: 0,
      before: NO_HOPS,
      edge: undefined,
      site: undefined,
      inner: undefined,
      status: 0,
      own: false,
      code: undefined,
      upstreamDuration: undefined,
      reusedConnection: undefined,
      tries: undefined,
      observed: false,
      hsts: undefined,
      onEnd
    }
    metrics.inFlight.inc()
    try {
      this.#settle(context, this.#pass(context, entry, results))
    } catch (error) {
      void this.#crashed(context, error)
    }
  }

  /** Finishes an exchange after its response was sent. Never throws. */
  #settle(context: RequestContext, passed: Passed | Promise<Passed>): void {
    if (passed instanceof Promise) {
      passed.then(
        (sent) => this.#settle(context, sent),
        (error: unknown) => this.#crashed(context, error)
      )
      return
    }
    if (passed === undefined) return
    try {
      this.#ended(context, passed)
    } catch (error) {
      void this.#crashed(context, error)
      return
    }
    this.#over(context)
  }

  async #crashed(context: RequestContext, error: unknown): Promise<void> {
    const { connection } = context.exchange
    try {
      this.#parts.log.error({ err: error, connection: connection.id }, 'an exchange failed inside the proxy')
      this.#ended(context, await this.#refuse(context, requestErrors.internal))
    } catch {
      context.exchange.close('reset')
    } finally {
      this.#over(context)
    }
  }

  #over({ exchange, flow, onEnd }: RequestContext): void {
    this.#parts.metrics.inFlight.dec()
    try {
      flow?.end()
    } catch (error) {
      this.#parts.log.error({ err: error, connection: exchange.connection.id }, 'the end of an exchange failed')
    }
    onEnd?.()
  }

  /** Runs the steps synchronously up to the first that waits. */
  #pass(context: RequestContext, entry: EntryFacts, results: Flow['results']): Passed | Promise<Passed> {
    const { exchange, snapshot, inside } = context
    const { admission, observers, tracer } = this.#parts
    const asked = admission.target(exchange)
    if ('status' in asked) return this.#refuse(context, asked)
    if (inside === undefined && admission.returned(exchange)) return this.#refuse(context, requestErrors.loop)
    const found =
      inside === undefined
        ? snapshot.clientEdge(asked.host, entry, this.#parts.upstreamServes)
        : snapshot.internalEdge(inside.host, inside.port)
    const flow = admission.admit(exchange, asked, { entry, snapshot, found }, results)
    if ('status' in flow) return this.#refuse(context, flow)
    flow.units = snapshot
    flow.signal = exchange.signal
    context.flow = flow
    if (inside !== undefined) flow.depth = inside.depth
    else {
      if (observers.list.length > 0) context.observed = observers.begins(exchange, flow)
      if (tracer !== undefined) flow.trace = tracer.begins(flow, context.begun)
    }
    const { host, path } = flow.request.target
    // Before any route and policy: they cannot prevent it, and nothing else can use it to bypass them.
    const proof = this.#parts.challenge(host, path)
    if (proof !== undefined) {
      const response = localResponse(200, ['content-type', 'application/octet-stream'], proof)
      return this.#answer(context, flow, { response, duration: undefined })
    }
    if (found !== undefined && inside === undefined) {
      const hsts = snapshot.tables.https.hsts(found.edge)
      // Only responses over TLS may have it (RFC 6797 7.2).
      if (hsts !== undefined && isSecure(flow.request)) context.hsts = hsts
    }
    if (found !== undefined) {
      const { edge, endpoint } = enterRoute(context, found, flow)
      context.edge = edge.id
      if (endpoint !== undefined) flow.endpoint = endpoint
      if (inside === undefined && edge.hosts !== 'every') flow.hosts = edge.hosts
    }
    const plain = plainAnswer(flow, found, snapshot)
    if (plain !== undefined) return this.#answerPlain(context, flow, plain)
    if (context.route === undefined) return this.#refuse(context, requestErrors.route)
    return this.#decided(context, flow, requestSteps(context, flow))
  }

  #decided(
    context: RequestContext,
    flow: AdmittedFlow,
    step: Verdict | undefined | Promise<Verdict | undefined>
  ): Passed | Promise<Passed> {
    let verdict = step
    while (!(verdict instanceof Promise) && verdict?.kind === 'forward') {
      const refusal = lead(context, flow, verdict)
      if (refusal !== undefined) return this.#answer(context, flow, refusedWith(refusal))
      if (context.route !== undefined) context.inner = [...(context.inner ?? []), context.route.id]
      verdict = requestSteps(context, flow)
    }
    if (verdict instanceof Promise) return verdict.then((late) => this.#decided(context, flow, late))
    if (verdict?.kind === 'close') return this.#close(context, verdict.how)
    if (verdict !== undefined)
      return this.#answer(context, flow, { response: responseOf(verdict), duration: undefined })
    // Only its handler may serve it.
    if (flow.reservedPath !== undefined) return this.#answer(context, flow, refusedWith(requestErrors.route))
    // A route without login receives the cookies of logins on other routes: they must not reach an upstream.
    dropLoginCookies(flow.request.headers)
    this.#forward(context, flow)
    return undefined
  }

  #forward(context: RequestContext, flow: AdmittedFlow): void {
    const { exchange, snapshot, route } = context
    const { accessLog, admission, events, forwarder, observers } = this.#parts
    if (accessLog !== undefined || events.wantsExchanges || context.observed) context.tries = new UpstreamTries()
    if (context.observed) observers.forwards(flow, route?.upstream)
    admission.sends(flow.request)
    forwarder.forward(exchange, flow, {
      units: snapshot,
      key: route?.upstream,
      tries: context.tries,
      forwarded: (forwarded) => this.#forwarded(context, flow, forwarded),
      crashed: (error) => void this.#crashed(context, error)
    })
  }

  #forwarded(context: RequestContext, flow: AdmittedFlow, forwarded: Forwarded): void {
    try {
      flow.response = forwarded.response
      flow.forwarded()
      this.#settle(context, this.#answer(context, flow, forwarded))
    } catch (error) {
      void this.#crashed(context, error)
    }
  }

  /** Responds to a request without TLS for an HTTPS host. */
  #answerPlain(context: RequestContext, flow: AdmittedFlow, plain: PlainAnswer): Sent | Promise<Sent> {
    if (plain.kind === 'refuse') return this.#answer(context, flow, refusedWith(plain.answer))
    const { place } = plain
    const port = 'port' in place ? place.port : this.#parts.listenerPort(place.listener)
    // The listener is about to open; until then its names are not served.
    if (port === undefined) return this.#answer(context, flow, refusedWith(requestErrors.httpsRequired))
    const response = localResponse(308, ['Location', httpsLocation(flow, port)])
    return this.#answer(context, flow, { response, duration: undefined })
  }

  #answer(context: RequestContext, flow: AdmittedFlow, forwarded: Forwarded): Sent | Promise<Sent> {
    flow.response = forwarded.response
    context.upstreamDuration = forwarded.duration
    context.reusedConnection = forwarded.reusedConnection
    if (context.exchange.signal.aborted !== undefined) return this.#abandon(context, forwarded)
    addFields(forwarded.response, flow.responseFields, context.hsts)
    const replaced = responseSteps(context, flow)
    return replaced === undefined
      ? this.#leave(context, flow, forwarded)
      : this.#replaced(context, flow, forwarded, replaced)
  }

  /** Handles a response replaced by a module, or a module that waits. */
  async #replaced(
    context: RequestContext,
    flow: AdmittedFlow,
    forwarded: Forwarded,
    step: Verdict | Promise<Verdict | undefined>
  ): Promise<Sent> {
    let replaced: Verdict | undefined = step instanceof Promise ? await step : step
    if (context.exchange.signal.aborted !== undefined) return this.#abandon(context, forwarded)
    while (replaced !== undefined) {
      if (flow.response === forwarded.response) release(forwarded)
      if (replaced.kind === 'forward') throw new TypeError('a response cannot be forwarded')
      if (replaced.kind === 'close') return this.#close(context, replaced.how)
      flow.response = responseOf(replaced)
      addFields(flow.response, flow.responseFields, context.hsts)
      // Earlier modules see the replacement response.
      const next = responseSteps(context, flow)
      replaced = next instanceof Promise ? await next : next
    }
    return this.#leave(context, flow, forwarded)
  }

  #leave(context: RequestContext, flow: AdmittedFlow, forwarded: Forwarded): Sent | Promise<Sent> {
    const { exchange } = context
    const response = flow.response as FlowResponse
    context.status = response.status
    context.own = response.local
    context.code = response.local ? response.headers.get('sluice-error-code') : undefined
    if (context.observed) this.#parts.observers.answers(flow, context.status, context.code)
    // After observers that compare decisions, because two attempts of one request have different ids.
    if (context.code !== undefined) nameTo(response, flow)
    if (response === forwarded.response && forwarded.pipe !== undefined)
      return splice(exchange, response, forwarded.pipe, () => this.#refuse(context, flowErrors.OVERLOADED))
    const answer = response.local ? ownAnswer(response, context, this.#parts) : response
    if (answer !== response) discard(response)
    return send(exchange, answer, response.close)
  }

  #refuse(context: RequestContext, answer: FailureAnswer): Sent | Promise<Sent> {
    context.status = answer.status
    context.own = true
    context.code = answer.code
    const response = failureResponse(answer)
    if (context.flow !== undefined) nameTo(response, context.flow)
    addFields(response, context.flow?.responseFields, context.hsts)
    return send(context.exchange, ownAnswer(response, context, this.#parts), answer.close)
  }

  #close(context: RequestContext, how: 'fin' | 'reset'): Sent {
    const { exchange } = context
    context.own = true
    exchange.close(how)
    return { bytesIn: exchange.request.body.bytes, bytesOut: 0, firstByteAt: 0, endedAt: this.#parts.clock.monotonic() }
  }

  /** Handles a disconnected client; no response is sent. */
  #abandon({ exchange }: RequestContext, forwarded: Forwarded): Sent {
    release(forwarded)
    const nothing = { bytesIn: exchange.request.body.bytes, bytesOut: 0, firstByteAt: 0 }
    return { ...nothing, endedAt: this.#parts.clock.monotonic(), failure: exchange.signal.aborted ?? 'client-gone' }
  }

  #ended(context: RequestContext, sent: Sent): void {
    const { metrics, accessLog, events, clock } = this.#parts
    const { exchange, flow, route, status, code, upstreamDuration } = context
    const at = sent.endedAt === 0 ? clock.monotonic() : sent.endedAt
    const duration = at - context.begun
    metrics.ended(route?.edge ?? '', status, duration, upstreamDuration)
    metrics.transferred(sent.bytesIn, sent.bytesOut)
    if (route !== undefined) metrics.routeEnded(route.id, duration)
    const failed = code ?? (sent.failure === undefined ? undefined : FAILURES[sent.failure].code)
    if (failed !== undefined) metrics.failed(failed)
    countExchange(metrics, context, sent, { at, duration })
    const record = {
      connection: exchange.connection,
      request: exchange.request,
      flow,
      route,
      site: context.site,
      routeName: namedRoute(context),
      revision: context.snapshot.revision,
      status,
      code,
      sent,
      duration,
      upstreamDuration,
      reusedConnection: context.reusedConnection,
      tries: context.tries
    }
    accessLog?.write(record)
    events.exchange(record)
    if (context.inside !== undefined) return
    this.#parts.tracer?.ended(record, context.begun)
    if (this.#parts.observers.list.length > 0) this.#parts.observers.ended(record)
  }
}
