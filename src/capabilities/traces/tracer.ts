import type { Flow, FlowRequest } from '../../flow/flow.js'
import type { HeaderFields, HeaderList } from '../../flow/headers.js'
import { isSecure } from '../../flow/reserved-paths.js'
import { type RequestTarget, withoutQuery } from '../../flow/target.js'
import type { FlowTrace, TriedUpstream } from '../../flow/trace.js'
import type { Clock } from '../../lib/clock.js'
import { parseAuthority } from '../../lib/host.js'
import type { ExchangeRecord } from '../../telemetry/access-log.js'
import { BothExplainers, PolicyEvents } from './policy-events.js'
import type { Sampler } from './sampler.js'
import {
  FLAGS,
  formatTraceparent,
  parseTraceparent,
  readFlags,
  readTracestate,
  TRACEPARENT,
  TRACESTATE,
  type TraceContext,
  traceIdOf
} from './trace-context.js'
import { type FirstHalf, ownCopy, TraceIds } from './trace-ids.js'
import type { TracedExchange, TracedTry } from './traced-exchange.js'

type Admitted = Flow & { readonly request: FlowRequest }

/** Dependencies of the tracer. */
export interface TracerParts {
  readonly clock: Clock
  readonly sampler: Sampler
  /** Are W3C Trace Context fields read and written? Otherwise every exchange starts a trace that is not propagated. */
  readonly propagates: boolean
  /** Are keys of limits shown? */
  readonly buckets: boolean
  /** Receives the data of a sampled exchange at its end. Must be quick, and must not throw. */
  readonly take: (traced: TracedExchange) => void
}

/** Time for which wall and monotonic clock are assumed to advance equally (ms). */
const ANCHORED = 1_000

/**
 * Traces exchanges: decides at the start whether to sample, propagates the trace context upstream, and passes the data of sampled exchanges on.
 * Never blocks or sends.
 */
export class Tracer {
  readonly #parts: TracerParts
  readonly #ids = new TraceIds()
  /** Ids of sampled spans, separate because spans keep them in memory. */
  readonly #spanIds = new TraceIds()
  /** Wall clock at the monotonic zero, and the time of reading it. */
  #zero = 0
  #anchored = Number.NEGATIVE_INFINITY
  readonly #now = () => this.#zero + this.#parts.clock.monotonic()

  constructor(parts: TracerParts) {
    this.#parts = parts
  }

  /** An exchange is admitted; `begun`: its first moment, monotonic milliseconds. Fields of a trusted context alone are still there. */
  begins(flow: Admitted, begun: number): FlowTrace {
    const { sampler, propagates } = this.#parts
    const { headers } = flow.request
    const { list } = headers
    if (propagates) findFields(list)
    const text = propagates && found.parents === 1 ? (list[found.parentAt + 1] as string) : ''
    const flags = readFlags(text)
    if (flags === undefined) {
      const without = propagates && found.parents === 0 && found.states === 0 ? list : undefined
      const id = this.#ids.next()
      const { half } = this.#ids
      if (!sampler.samples(id, flow, this.#ids.leading)) return new UnsampledTrace(half, id, propagates, without)
      return this.#sampled(flow, begun, { traceId: ownCopy(half.digits + id), spanId: '', flags: FLAGS.sampled }, '')
    }
    const state = found.states === 0 ? '' : stateOf(headers)
    const sampled = sampler.inherits(flags) ?? sampler.samples(traceIdOf(text), flow)
    if (sampled) {
      const parent = parseTraceparent(text) as TraceContext
      return this.#sampled(flow, begun, { ...parent, flags: flags | FLAGS.sampled }, state)
    }
    // A changed flag requires an own span (W3C Trace Context 3.4); otherwise the fields are unchanged.
    if ((flags & FLAGS.sampled) === 0) return new PassedTrace(text)
    const context = { traceId: traceIdOf(text), spanId: this.#ids.next(), flags: flags & ~FLAGS.sampled }
    return new PassedTrace(formatTraceparent(context), headers)
  }

  /** An exchange has ended, also one that was not admitted. */
  ended(record: ExchangeRecord, begun: number): void {
    const { flow } = record
    const trace = flow?.trace
    if (trace instanceof SampledTrace) {
      this.#parts.take(trace.ended(record, this.#anchor(begun)))
      return
    }
    if (flow !== undefined) return
    const id = this.#ids.next()
    if (!this.#parts.sampler.samples(id, undefined)) return
    const context = { traceId: ownCopy(this.#ids.half.digits + id), spanId: '', flags: FLAGS.sampled }
    const refused = new SampledTrace({ context, state: '', begun, ids: this.#spanIds, propagates: false })
    this.#parts.take(refused.ended(record, this.#anchor(begun)))
  }

  #sampled(flow: Admitted, begun: number, context: TraceContext, state: string): SampledTrace {
    const { propagates, buckets } = this.#parts
    this.#anchor(begun)
    const policy = new PolicyEvents(this.#now, buckets)
    flow.explainer = flow.explainer === undefined ? policy : new BothExplainers(flow.explainer, policy)
    const { target } = flow.request
    return new SampledTrace({ context, state, begun, ids: this.#spanIds, propagates, policy, target })
  }

  /** Reads the wall clock rarely: two clock reads per exchange would be slow, and a single clock orders related events. */
  #anchor(monotonic: number): number {
    if (monotonic >= this.#anchored + ANCHORED) {
      const { clock } = this.#parts
      this.#zero = clock.wall() - clock.monotonic()
      this.#anchored = monotonic
    }
    return this.#zero
  }
}

const LETTER_T = 0x74
const CASE = 0x20

/** Result of `findFields`: one shared object, because it is read immediately, and an allocation would cost more than the search. */
const found = { parents: 0, parentAt: 0, states: 0 }

/** Looks for the fields of a trace in one pass. Most requests have none. */
function findFields(list: HeaderList): void {
  found.parents = 0
  found.states = 0
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (name.length !== TRACEPARENT.length && name.length !== TRACESTATE.length) continue
    if ((name.charCodeAt(0) | CASE) !== LETTER_T) continue
    if (isNamed(name, TRACEPARENT)) {
      found.parents++
      found.parentAt = i
    } else if (isNamed(name, TRACESTATE)) found.states++
  }
}

function isNamed(name: string, wanted: typeof TRACEPARENT | typeof TRACESTATE): boolean {
  return name === wanted || (name.length === wanted.length && name.toLowerCase() === wanted)
}

/** Reads the fields for a span in one pass: individual lookups would cost more than the span. */
function shownFields(list: HeaderList): { userAgent: string | undefined; contentType: string | undefined } {
  const shown: { userAgent: string | undefined; contentType: string | undefined } = {
    userAgent: undefined,
    contentType: undefined
  }
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (name.length === USER_AGENT.length) {
      if (name.toLowerCase() === USER_AGENT) shown.userAgent ??= list[i + 1] as string
    } else if (name.length === CONTENT_TYPE.length && name.toLowerCase() === CONTENT_TYPE)
      shown.contentType ??= list[i + 1] as string
  }
  return shown
}

const USER_AGENT = 'user-agent'
const CONTENT_TYPE = 'content-type'

/** Returns the `tracestate` to propagate, and corrects the field if it is different. */
function stateOf(headers: HeaderFields): string {
  const values = headers.values(TRACESTATE)
  const state = readTracestate(values)
  if (state === '') headers.delete(TRACESTATE)
  else if (values.length > 1 || values[0] !== state) headers.set(TRACESTATE, state)
  return state
}

/** An incoming trace that is not sampled here: its fields are forwarded unchanged. */
class PassedTrace implements FlowTrace {
  readonly sampled = false
  readonly #parent: string

  /** `parent`: value of `traceparent`; `headers`: fields to correct to that value. */
  constructor(parent: string, headers?: HeaderFields) {
    this.#parent = parent
    headers?.set(TRACEPARENT, parent)
  }

  get traceId(): string {
    return traceIdOf(this.#parent)
  }

  sends(): void {
    // The request has the fields.
  }

  answered(): void {
    // No span is made of the try.
  }
}

/** A new trace that is not sampled. Upstreams receive its id, unsampled. */
class UnsampledTrace implements FlowTrace {
  readonly sampled = false
  readonly #half: FirstHalf
  readonly #id: string
  readonly #without: HeaderList | undefined
  #written: boolean

  /** `half` and `id`: the halves of the trace id. `without`: a list of fields without those of a trace. */
  constructor(half: FirstHalf, id: string, propagates: boolean, without: HeaderList | undefined) {
    this.#half = half
    this.#id = id
    this.#written = !propagates
    this.#without = without
  }

  get traceId(): string {
    return this.#half.digits + this.#id
  }

  sends(headers: HeaderFields): void {
    if (this.#written) return
    this.#written = true
    writeTrace(headers, this.#half.before + this.#id + this.#half.after, '', this.#without)
  }

  answered(): void {
    // No span is made of the try.
  }
}

/** Writes the fields of a trace. `without`: a list that is known to have none of them. */
function writeTrace(headers: HeaderFields, parent: string, state: string, without: HeaderList | undefined): void {
  if (headers.list === without) {
    headers.append(TRACEPARENT, parent)
    return
  }
  findFields(headers.list)
  // Members of a context that is not believed belong to no trace of ours.
  if (state === '' && found.states > 0) headers.delete(TRACESTATE)
  if (found.parents > 0) headers.set(TRACEPARENT, parent)
  else headers.append(TRACEPARENT, parent)
}

interface SampledParts {
  /** `spanId`: that of the parent; '' when the trace begins here. */
  readonly context: TraceContext
  readonly state: string
  readonly begun: number
  readonly ids: TraceIds
  readonly propagates: boolean
  readonly policy?: PolicyEvents
  readonly target?: RequestTarget
}

/** Tries that are kept; the last one always is. */
const MOST_TRIES = 32

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** The trace of an exchange that spans are made of. */
class SampledTrace implements FlowTrace {
  readonly sampled = true
  readonly #parts: SampledParts
  readonly #spanId: string
  readonly #tries: Writable<TracedTry>[] = []

  constructor(parts: SampledParts) {
    this.#parts = parts
    this.#spanId = parts.ids.next()
  }

  get traceId(): string {
    return this.#parts.context.traceId
  }

  sends(headers: HeaderFields, at: number): void {
    const { context, ids, propagates, state } = this.#parts
    const { traceId, flags } = context
    const spanId = ids.next()
    if (this.#tries.length === MOST_TRIES) this.#tries.pop()
    this.#tries.push({
      spanId,
      begun: at,
      ended: 0,
      backend: '',
      name: '',
      server: '',
      method: '',
      target: '',
      status: undefined,
      failure: undefined
    })
    if (!propagates) return
    writeTrace(headers, formatTraceparent({ traceId, spanId, flags }), state, undefined)
  }

  answered({ at, backend, name, server, status, failure }: TriedUpstream): void {
    const last = this.#tries.at(-1)
    if (last === undefined) return
    last.ended = at
    last.backend = backend
    last.name = name
    last.server = server
    last.status = status
    last.failure = failure
  }

  /** `zero`: wall clock at the monotonic zero. */
  ended(record: ExchangeRecord, zero: number): TracedExchange {
    const { context, state, begun, policy, target: came } = this.#parts
    const { connection, request, flow, route, sent, status } = record
    const admitted = flow?.request
    const target = came ?? admitted?.target
    const authority = target ?? parseAuthority(request.authority)
    const ended = begun + record.duration
    const { userAgent, contentType } = shownFields(request.headers)
    const isGrpc = contentType?.startsWith('application/grpc') === true
    return {
      traceId: context.traceId,
      spanId: this.#spanId,
      parentSpanId: context.spanId,
      traceState: state,
      begun: zero + begun,
      ended: zero + ended,
      method: request.method,
      scheme: admitted === undefined ? request.scheme : isSecure(admitted) ? 'https' : 'http',
      host: authority?.host ?? '',
      port: authority?.port,
      path: target?.path ?? withoutQuery(request.target),
      query: target?.query,
      ownPath: flow?.reservedPath !== undefined,
      version: request.version,
      userAgent,
      clientAddress: flow?.clientAddress ?? connection.peer.address,
      peerAddress: connection.peer.address,
      peerPort: connection.peer.port,
      route: route?.path === undefined ? undefined : templateOf(route.path, route.match),
      routeId: route?.id,
      routeName: record.routeName,
      edge: route?.edge,
      site: record.site,
      listener: connection.listener,
      revision: record.revision,
      requestId: flow?.requestId,
      status,
      code: record.code,
      failure: sent.failure,
      rule: flow?.decidedBy?.rule,
      action: flow?.decidedBy?.action,
      bytesIn: sent.bytesIn,
      bytesOut: sent.bytesOut,
      isGrpc,
      grpcStatus: isGrpc ? grpcStatusOf(flow) : undefined,
      tries: this.#tried(admitted, zero, ended),
      events: policy?.events ?? NONE,
      eventsDropped: policy?.dropped ?? 0
    }
  }

  /** Ends the tries: the last one carries the response until its last byte; one without an end was abandoned with the exchange. */
  #tried(request: FlowRequest | undefined, zero: number, ended: number): readonly TracedTry[] {
    const last = this.#tries.length - 1
    for (let i = 0; i <= last; i++) {
      const one = this.#tries[i] as Writable<TracedTry>
      if (one.ended === 0 || (i === last && one.failure === undefined)) one.ended = ended
      one.begun += zero
      one.ended += zero
      one.method = request?.method ?? ''
      one.target = request?.target.uri ?? ''
    }
    return this.#tries
  }
}

const NONE: TracedExchange['events'] = []

function templateOf(path: string, match: 'exact' | 'prefix' | undefined): string {
  if (match !== 'prefix') return path
  return path.endsWith('/') ? `${path}*` : `${path}/*`
}

const GRPC_STATUS = 'grpc-status'

/** Returns the gRPC status of the trailers, or of a response with headers only. */
function grpcStatusOf(flow: Flow | undefined): number | undefined {
  const { headers, trailers } = flow?.response ?? {}
  let text = headers?.get(GRPC_STATUS)
  const list = text === undefined ? (trailers?.() ?? []) : []
  for (let i = 0; i < list.length; i += 2) {
    if ((list[i] as string).toLowerCase() === GRPC_STATUS) text = list[i + 1]
  }
  return text !== undefined && /^\d{1,2}$/.test(text) ? Number(text) : undefined
}
