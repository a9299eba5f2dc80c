import type { ActionOutcome, Explainer, ExpressionExplainer, Placed, RuleOutcome } from '../../flow/explainer.js'
import { Flow, type FlowResponse, type InternalRequests } from '../../flow/flow.js'
import { HeaderFields } from '../../flow/headers.js'
import type { Verdict } from '../../flow/verdict.js'
import { canonicalAddress } from '../../lib/ip.js'
import type { Place } from '../../lib/positions.js'
import { Admission, type AdmittedFlow } from '../../proxy/admission.js'
import type { ClientAddress } from '../../proxy/client-address.js'
import type { Forwarded, ForwardingOrder } from '../../proxy/forwarder.js'
import { HeaderKinds } from '../../proxy/header-sanitizing.js'
import { PipelineRequests } from '../../proxy/internal-requests.js'
import { Observers } from '../../proxy/observers.js'
import { Pipeline, type PipelineParts } from '../../proxy/pipeline.js'
import { failureResponse, fixedResponse } from '../../proxy/response.js'
import { absence } from '../../proxy/upstreams.js'
import { AddressFilter } from '../../runtime/address-filter.js'
import { asKind } from '../../runtime/plan-changes.js'
import type { ExchangeRecord } from '../../telemetry/access-log.js'
import { TrafficEventSource } from '../../telemetry/event-fields.js'
import { Metrics } from '../../telemetry/metrics.js'
import { finalAnswer, type Unknown } from './decision.js'
import { type Trial, TrialExchange, UnreadBody, unknown } from './trial.js'

/** Why exchanges that run these actions are not judged. */
const NOT_JUDGED: Readonly<Record<string, Unknown>> = {
  'http-request': 'http_request',
  oauth: 'login',
  'openid-connect': 'login',
  oidc: 'login',
  'circuit-breaker': 'circuit_breaker'
}

/** Ends a run from inside of its steps. */
const GIVEN_UP = new Error('the run is given up')

const nothing = () => undefined
const SILENT = { info: nothing, warn: nothing, error: nothing }
const NO_EVENTS = { wants: () => false, publish: nothing, put: nothing }

interface JudgeParts {
  readonly forwarding: ClientAddress
  /** See `PipelineParts`: these responses do not depend on the configuration. */
  readonly challenge: PipelineParts['challenge']
  /** Milliseconds of work for one exchange. */
  readonly budget: number
  /** Monotonic clock (ms). */
  readonly now: () => number
  /** Milliseconds that the process has had a processor. */
  readonly worked: () => number
}

/**
 * Runs candidates on client exchanges, through the steps of the product: admission, route, modules and policies. No request
 * leaves the process; an exchange that needs external data is not judged.
 */
export class Judge {
  /** Returns the time of the judged exchange. */
  readonly clock = { monotonic: () => this.#trial?.time ?? 0, wall: () => this.#trial?.wall ?? 0 }
  /** Internal requests of policy services. */
  readonly internal: InternalRequests
  readonly #parts: JudgeParts
  readonly #pipeline: Pipeline
  readonly #trials = new WeakMap<object, Trial>()
  #trial: Trial | undefined
  #worked = 0

  constructor(parts: JudgeParts) {
    this.#parts = parts
    const observers = new Observers()
    observers.add({
      begins: (exchange, flow) => this.#admitted((exchange as TrialExchange).trial, flow),
      ended: (record) => this.#ended(record)
    })
    this.#pipeline = new Pipeline({
      holder: { current: () => this.#running.snapshot },
      admission: new Admission({
        kinds: new HeaderKinds(),
        forwarding: parts.forwarding,
        clock: this.clock,
        endpoints: new AddressFilter('endpoints', { log: SILENT }),
        // The live exchange was checked for the certificate's name.
        tls: {
          misdirected: (connection, _host, edge) => connection.tls === undefined && edge?.tls?.authorities !== undefined
        }
      }),
      forwarder: {
        forward: (exchange, flow, order) => this.#forward(exchange as TrialExchange, flow, order)
      },
      observers,
      clock: this.clock,
      metrics: new Metrics(),
      challenge: parts.challenge,
      listenerPort: (key) => asKind(this.#running.snapshot.plan.units.get(key), 'listener')?.port,
      accessLog: undefined,
      events: new TrafficEventSource(NO_EVENTS),
      log: SILENT
    })
    this.internal = new PipelineRequests(this.#pipeline, this.clock)
  }

  /** The trial whose steps run now; calls without a flow belong to it. */
  get trial(): Trial | undefined {
    return this.#trial
  }

  /** Runs until the trial is done, waits for the upstream, or awaits other work. Never throws. */
  run(trial: Trial): void {
    trial.state = 'runs'
    this.#works(trial, () => {
      const exchange = new TrialExchange(trial)
      this.#trials.set(exchange.request, trial)
      const results = this.#connect(trial)
      if (trial.outcome !== undefined) return this.#done(trial)
      this.#pipeline.serve(exchange, trial.live.entry, results)
    })
  }

  /** Resumes a trial that waits for the upstream, once the response to the client is decided. */
  resume(trial: Trial): void {
    const { goOn, live } = trial
    if (trial.state !== 'waits' || goOn === undefined) return
    trial.state = 'runs'
    trial.wall = live.respondedAt
    this.#works(trial, goOn)
  }

  /** Work on several runs begins. */
  begins(): void {
    this.#worked = this.#parts.worked()
  }

  /** Resumes the steps of this run. Returns false if its time is over. */
  enters(trial: Trial): boolean {
    this.#trial = trial
    const { now, worked, budget } = this.#parts
    const moment = now()
    trial.since ??= moment
    if (trial.recorder !== undefined || trial.used + moment - trial.since <= budget) return true
    // Waiting for a processor is not work of the run.
    if (worked() - this.#worked <= budget) return true
    trial.late = true
    return false
  }

  /** Records the end of a piece of work. */
  rests(trial: Trial): void {
    if (trial.since === undefined) return
    trial.used += this.#parts.now() - trial.since
    trial.since = undefined
  }

  #works(trial: Trial, work: () => void): void {
    this.#trial = trial
    trial.since = this.#parts.now()
    work()
  }

  get #running(): Trial {
    if (this.#trial === undefined) throw new TypeError('no run has begun')
    return this.#trial
  }

  /** Runs `on_tcp_connect` only if the candidate's is different: the live results are known. */
  #connect(trial: Trial): Flow['results'] {
    const { live, snapshot } = trial
    if (!snapshot.decidesConnections) return live.connected
    const phase = snapshot.connectPolicy()?.phases.on_tcp_connect
    if (!phase) return undefined
    const { connection, entry } = live
    const flow = new Flow(connection, entry, canonicalAddress(connection.peer.address), connection.peer.port)
    flow.units = snapshot
    const explainer = new TrialExplainer(this, trial)
    flow.explainer = explainer
    try {
      explainer.step('traffic_policy', phase.owner, 'connect')
      const verdict = phase.run(flow)
      if (verdict !== undefined) trial.outcome = { forwarded: undefined, answer: 'closed', by: flow.decidedBy }
    } catch (error) {
      if (error !== GIVEN_UP) unknown(trial, 'defect')
      trial.outcome = { forwarded: undefined, answer: 'unknown', by: undefined }
    }
    return flow.results
  }

  #admitted(trial: Trial, flow: AdmittedFlow): Explainer<Flow> {
    trial.flow = flow
    return new TrialExplainer(this, trial)
  }

  #forward({ trial }: TrialExchange, flow: AdmittedFlow, order: ForwardingOrder): void {
    const { live } = trial
    const { method, target, headers } = flow.request
    trial.sent = { upstream: order.key, method, uri: target.uri, headers: headers.list }
    const goOn = (answer: FlowResponse | undefined) => {
      if (answer === undefined) order.crashed(this.#ends(trial))
      else order.forwarded(this.#forwarded(trial, answer))
    }
    const answer = this.#answer(trial)
    if (answer !== undefined || live.outcome !== undefined) {
      goOn(answer)
      return
    }
    this.rests(trial)
    trial.state = 'waits'
    trial.goOn = () => goOn(this.#answer(trial))
  }

  /** Returns the upstream response for a candidate if it is known: the same request went to the same upstream, or the response is fixed. */
  #answer({ live, sent, snapshot }: Trial): FlowResponse | undefined {
    if (sent?.upstream === undefined) return failureResponse(absence(snapshot, undefined))
    const unit = snapshot.upstream(sent.upstream)
    if (unit === undefined) return failureResponse(absence(snapshot, sent.upstream))
    if (unit.form === 'response') return fixedResponse(unit)
    const { sent: asked, response } = live
    const same = asked?.upstream === sent.upstream && asked.method === sent.method && asked.uri === sent.uri
    return same ? response : undefined
  }

  /** Ends a run that would forward with an unknown result. */
  #ends(trial: Trial): Error {
    trial.outcome = { forwarded: trial.sent, answer: 'unknown', by: undefined }
    return GIVEN_UP
  }

  #forwarded(trial: Trial, response: FlowResponse): Forwarded {
    this.enters(trial)
    const { status, reason, headers, body, local, close } = response
    const unread =
      body === undefined || body instanceof Uint8Array
        ? body
        : new UnreadBody('framing' in body ? body.framing : OPEN, () => unknown(trial, 'response_body'))
    const own = { status, reason, headers: new HeaderFields([...headers.list]), local, body: unread }
    trial.answered = { ...own, ...(close === true ? { close } : {}), transforms: [], trailers: undefined }
    return { response: trial.answered, duration: 0 }
  }

  #ended(record: ExchangeRecord): void {
    const trial = this.#trials.get(record.request)
    if (trial === undefined || trial.state === 'done') return
    const { flow, status, code } = record
    trial.record = record
    const answer = () => (status === 0 ? 'closed' : finalAnswer(flow, trial.answered, status, code))
    trial.outcome ??= { forwarded: trial.sent, answer: answer(), by: flow?.decidedBy }
    this.#done(trial)
  }

  #done(trial: Trial): void {
    this.rests(trial)
    trial.state = 'done'
    trial.onDone?.()
  }
}

const OPEN = { kind: 'open' } as const

/** Checks each step of a trial for cancellation and its time budget. */
class TrialExplainer implements Explainer<Flow> {
  readonly imagined = true
  readonly #judge: Judge
  readonly #trial: Trial

  constructor(judge: Judge, trial: Trial) {
    this.#judge = judge
    this.#trial = trial
  }

  unjudged(_module: string, _owner: string, reason: string): void {
    // The modules of a candidate say it in these words.
    unknown(this.#trial, reason as Unknown)
    this.#mayGoOn()
  }

  step(module: string, owner: string, on: 'connect' | 'request' | 'response'): void {
    if (this.#trial.flow?.reservedPath !== undefined) unknown(this.#trial, 'login')
    this.#mayGoOn()
    this.#trial.recorder?.step(module, owner, on)
  }

  stepped(verdict: Verdict | undefined): void {
    this.#mayGoOn()
    this.#trial.recorder?.stepped(verdict)
  }

  phase(...about: Parameters<Explainer<Flow>['phase']>): void {
    this.#trial.recorder?.phase(...about)
  }

  rule(): void {
    this.#mayGoOn()
    this.#trial.recorder?.rule()
  }

  ruled(outcome: RuleOutcome, reason?: string): void {
    this.#mayGoOn()
    this.#trial.recorder?.ruled(outcome, reason)
  }

  expression(source: string): ExpressionExplainer | undefined {
    this.#judge.enters(this.#trial)
    return this.#trial.recorder?.expression(source)
  }

  at(place: Place | undefined): void {
    this.#trial.recorder?.at(place)
  }

  action(type: string, at: Placed, flow: Flow): void {
    const reason = NOT_JUDGED[type]
    if (reason !== undefined) unknown(this.#trial, reason)
    this.#mayGoOn()
    this.#trial.recorder?.action(type, at, flow)
  }

  acted(outcome: ActionOutcome, flow: Flow, reason?: string): void {
    this.#mayGoOn()
    this.#trial.recorder?.acted(outcome, flow, reason)
  }

  unknown(what: string): void {
    unknown(this.#trial, what as Unknown)
  }

  /** Throws if the trial must stop. */
  #mayGoOn(): void {
    const { failed } = this.#trial
    if (failed || !this.#judge.enters(this.#trial)) throw GIVEN_UP
  }
}
