import { FAILURES } from '../../flow/error-codes.js'
import type { ConnectionFacts, Exchange, RequestHead } from '../../flow/exchange.js'
import { type EntryFacts, Flow, type InternalRequests } from '../../flow/flow.js'
import { closeConnection } from '../../flow/verdict.js'
import type { Clock } from '../../lib/clock.js'
import { canonicalAddress } from '../../lib/ip.js'
import { Admission, type AdmittedFlow } from '../../proxy/admission.js'
import type { ClientAddress } from '../../proxy/client-address.js'
import type { FileServers } from '../../proxy/files/file-servers.js'
import { type Forwarded, refusedWith } from '../../proxy/forwarder.js'
import { HeaderKinds } from '../../proxy/header-sanitizing.js'
import { InternalExchange } from '../../proxy/internal-exchange.js'
import { PipelineRequests } from '../../proxy/internal-requests.js'
import { Observers } from '../../proxy/observers.js'
import { Pipeline } from '../../proxy/pipeline.js'
import { failureResponse, fixedResponse, localResponse } from '../../proxy/response.js'
import { absence, type UpstreamLookup } from '../../proxy/upstreams.js'
import { AddressFilter } from '../../runtime/address-filter.js'
import { asKind } from '../../runtime/plan-changes.js'
import { Snapshot } from '../../runtime/snapshot.js'
import type { ExchangeRecord } from '../../telemetry/access-log.js'
import { TrafficEventSource } from '../../telemetry/event-fields.js'
import type { Metrics } from '../../telemetry/metrics.js'
import type { Dialer } from '../../transport/contract.js'
import type { Explanation } from './answers.js'
import { ExplanationRecorder } from './explanation.js'
import { explanationOf, type SentUpstream } from './explanation-of.js'
import { type ImaginedRequest, imaginedConnection, imaginedEntry, imaginedHead } from './imagined-exchange.js'

/** Simulated upstream response, created anew for each request. */
export interface UpstreamStub {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: Uint8Array | undefined
}

export interface LabParts {
  readonly clock: Clock
  readonly forwarding: ClientAddress
  readonly region: string
  readonly stub: UpstreamStub
  /** Serves responses from folders of files. @default the stub responds */
  readonly files?: Pick<FileServers, 'dialer'>
  readonly metrics: Metrics
  /** Shows values whose names look secret, too. */
  readonly reveal: boolean
}

/** A request as its transport gave it. */
export interface RepeatedRequest {
  readonly connection: ConnectionFacts
  readonly entry: EntryFacts
  readonly head: RequestHead
  readonly body: Uint8Array | undefined
  /** Address of the simulated client. */
  readonly clientAddress: string
  /** Absolute. */
  readonly url: string
}

/** Result of a repeated exchange. */
export interface Repeated {
  readonly explanation: Explanation
  /** Something that decides it reads its body. */
  readonly readsBody: boolean
}

/** Maximum bytes of a recorded response. */
const MOST_ANSWER = 1024 * 1024
const nothing = () => undefined
const SILENT = { info: nothing, warn: nothing, error: nothing }
const NO_EVENTS = { wants: () => false, publish: nothing, put: nothing }

/**
 * Runs simulated requests through the steps of client requests: admission, route, modules and policies. No byte leaves the
 * process: a stub replaces upstreams, and the given services handle outbound calls of policies.
 */
export class Lab {
  /** Internal requests of policy services. */
  readonly internal: InternalRequests
  readonly #parts: LabParts
  readonly #pipeline: Pipeline
  #snapshot = Snapshot.empty()
  #recorder: ExplanationRecorder | undefined
  #record: ExchangeRecord | undefined
  #sent: SentUpstream | undefined
  #stub: UpstreamStub

  constructor(parts: LabParts) {
    this.#parts = parts
    this.#stub = parts.stub
    const { clock, forwarding } = parts
    const observers = new Observers()
    observers.add({ begins: () => this.#recorder, ended: (record) => this.#ended(record) })
    this.#pipeline = new Pipeline({
      holder: { current: () => this.#snapshot },
      admission: new Admission({
        kinds: new HeaderKinds(),
        forwarding,
        clock,
        endpoints: new AddressFilter('endpoints', { log: SILENT }),
        // The certificate selected by name matches the requested host.
        tls: {
          misdirected: (connection, _host, edge) => connection.tls === undefined && edge?.tls?.authorities !== undefined
        }
      }),
      forwarder: {
        forward: (exchange, flow, order) => {
          const answer = this.#answer(exchange, flow, order.units, order.key)
          if (answer instanceof Promise)
            answer.then(
              (forwarded) => order.forwarded(forwarded),
              (error: unknown) => order.crashed(error)
            )
          else order.forwarded(answer)
        }
      },
      observers,
      clock,
      metrics: parts.metrics,
      challenge: nothing,
      listenerPort: (key) => asKind(this.#snapshot.plan.units.get(key), 'listener')?.port,
      accessLog: undefined,
      events: new TrafficEventSource(NO_EVENTS),
      log: SILENT
    })
    this.internal = new PipelineRequests(this.#pipeline, clock)
  }

  /** The configuration that requests meet from now on. */
  serves(snapshot: Snapshot): void {
    this.#snapshot = snapshot
  }

  /** Runs one request, after the previous ones. `stub`: overrides the lab's stub. Never rejects because of the request. */
  async ask(request: ImaginedRequest, stub = this.#parts.stub): Promise<Explanation> {
    return (await this.imagine(request, stub)).explanation
  }

  /** Runs a request like `ask` and also reports whether its body was read. */
  async imagine(request: ImaginedRequest, stub: UpstreamStub): Promise<Repeated> {
    const { clock, region } = this.#parts
    this.#stub = stub
    const entry = imaginedEntry(request.url, entriesOf(this.#snapshot, region))
    const connection = imaginedConnection(request, entry, clock.wall())
    const head = imaginedHead(request)
    const { url, clientAddress, body } = request
    return await this.#run({ connection, entry, head, body, clientAddress, url: url.href }, request.headers)
  }

  /** Runs a recorded exchange, as its transport delivered it. */
  async repeat(request: RepeatedRequest, stub: UpstreamStub): Promise<Repeated> {
    this.#stub = stub
    return await this.#run(request, request.head.headers)
  }

  /** `shown`: the fields as the explanation has them. */
  async #run(
    { connection, entry, head, body, clientAddress, url }: RepeatedRequest,
    shown: readonly string[]
  ): Promise<Repeated> {
    const { clock, reveal } = this.#parts
    const snapshot = this.#snapshot
    const recorder = new ExplanationRecorder({ reveal, imagined: true })
    this.#recorder = recorder
    this.#record = undefined
    this.#sent = undefined
    const exchange = new InternalExchange(connection, head, body, MOST_ANSWER, clock)
    const admitted = this.#connect(exchange, entry, recorder)
    if (admitted.refused === undefined) await this.#pipeline.serveToEnd(exchange, entry, admitted.results)
    const gathered = admitted.refused === undefined ? await exchange.answer : undefined
    const explanation = explanationOf({
      at: clock.wall(),
      snapshot,
      request: { method: head.method, url, headers: shown, clientAddress },
      entry,
      recorder,
      reveal,
      record: this.#record,
      sent: this.#sent,
      answer: typeof gathered === 'string' ? undefined : gathered,
      connectDecision: admitted.refused
    })
    return { explanation, readsBody: exchange.isBodyWanted }
  }

  /** `on_tcp_connect`, as for the connection of the request. */
  #connect(
    { connection }: Exchange,
    entry: EntryFacts,
    recorder: ExplanationRecorder
  ): { readonly results?: Flow['results']; readonly refused?: NonNullable<Flow['decidedBy']> | null } {
    const phase = this.#snapshot.connectPolicy()?.phases.on_tcp_connect
    if (!phase) return {}
    const flow = new Flow(connection, entry, canonicalAddress(connection.peer.address), connection.peer.port)
    flow.units = this.#snapshot
    flow.explainer = recorder
    recorder.step('traffic_policy', phase.owner, 'connect')
    const verdict = phase.run(flow)
    // An HTTP listener does not wait in this phase.
    const refused = verdict !== undefined
    recorder.stepped(refused ? closeConnection : undefined)
    return refused ? { refused: flow.decidedBy ?? null } : { results: flow.results }
  }

  #answer(
    exchange: Exchange,
    flow: Flow,
    units: UpstreamLookup,
    key: string | undefined
  ): Forwarded | Promise<Forwarded> {
    const { request } = flow as AdmittedFlow
    const unit = key === undefined ? undefined : units.upstream(key)
    if (key === undefined || unit === undefined) {
      return refusedWith(absence(units, key))
    }
    if (flow.depth === 0)
      this.#sent = {
        backend: key.slice(key.indexOf(':') + 1),
        name: unit.name ?? key.slice(key.indexOf(':') + 1),
        form: unit.form,
        method: request.method,
        uri: request.target.uri,
        headers: [...request.headers.list]
      }
    if (unit.form === 'response') return { response: fixedResponse(unit), duration: undefined }
    const dialer = unit.form === 'files' ? this.#parts.files?.dialer(unit) : undefined
    if (dialer !== undefined) return fileAnswer(exchange, request, dialer)
    const { status, headers, body } = this.#stub
    return { response: { ...localResponse(status, [...headers], body), local: false }, duration: 0 }
  }

  #ended(record: ExchangeRecord): void {
    this.#record = record
  }
}

/** Longest time that a disk may take. Milliseconds. */
const DISK_TIMEOUT = 10_000

/** Returns the response of a folder of files. Content that is too long to record is left out. */
function fileAnswer(exchange: Exchange, request: AdmittedFlow['request'], dialer: Dialer): Promise<Forwarded> {
  const { method, target, authority, headers, head, body } = request
  const asked = {
    method,
    target: target.sent,
    authority,
    scheme: head.scheme,
    version: '1.1',
    headers: headers.list
  } as const
  const options = { head: asked, body, connectTimeout: 0, responseTimeout: DISK_TIMEOUT, idleTimeout: 0 }
  return new Promise((resolve) =>
    dialer.answers?.(exchange, dialer, options, (answer) => {
      if (answer.kind !== 'response') {
        const failure = answer.kind === 'failed' ? answer.failure : 'internal'
        resolve({ response: failureResponse(FAILURES[failure]), duration: 0 })
        return
      }
      const { status, headers: fields } = answer.head
      const { framing, whole } = answer.body
      const isLong = whole === undefined && framing.kind === 'length' && framing.bytes > MOST_ANSWER
      if (isLong) answer.body.discard()
      const response = {
        ...localResponse(status, [...fields]),
        local: false,
        body: isLong ? undefined : (whole ?? answer.body)
      }
      resolve({ response, duration: 0 })
    })
  )
}

function entriesOf({ plan }: Snapshot, region: string): EntryFacts[] {
  const entries: EntryFacts[] = []
  for (const [, unit] of plan.units) {
    const listener = asKind(unit, 'listener')
    if (listener === undefined) continue
    const { name, tls, host, port, publicPort, pathForm } = listener
    entries.push({
      id: name,
      protocol: tls ? 'https' : 'http',
      host,
      port,
      region,
      ...(publicPort === undefined ? {} : { publicPort }),
      ...(pathForm === undefined ? {} : { pathForm })
    })
  }
  return entries
}
