import { Readable } from 'node:stream'
import type {
  AbortSignalLike,
  Body,
  BodyStart,
  ConnectionFacts,
  Exchange,
  Outgoing,
  RequestHead,
  Sent
} from '../../flow/exchange.js'
import type { EntryFacts, Flow, FlowResponse } from '../../flow/flow.js'
import { HeaderFields, type HeaderList } from '../../flow/headers.js'
import type { Clock } from '../../lib/clock.js'
import type { AdmittedFlow } from '../../proxy/admission.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import type { ExchangeRecord } from '../../telemetry/access-log.js'
import type { ExplanationRecorder } from '../explain/explanation.js'
import { type FinalAnswer, type ForwardedRequest, finalAnswer, type Outcome, type Unknown } from './decision.js'
import type { ShadowSnapshot } from './shadow-snapshot.js'

/** A client exchange, as far as its candidate may see it. */
export class LiveExchange {
  readonly head: RequestHead
  readonly framing: Body['framing']
  readonly upgrade: Exchange['upgrade']
  readonly connection: ConnectionFacts
  readonly entry: EntryFacts
  readonly flow: AdmittedFlow
  readonly snapshot: Snapshot
  /** Results of `on_tcp_connect`. */
  readonly connected: Flow['results']
  /** Monotonic milliseconds. */
  readonly begun: number
  /** The forwarded request; undefined if it was not forwarded. */
  sent: ForwardedRequest | undefined
  /** Response of the upstream, before any step changed it. */
  response: FlowResponse | undefined
  /** Wall clock, milliseconds: when that came. */
  respondedAt = 0
  /** The same object, which steps have changed since. */
  #forwardedResponse: FlowResponse | undefined
  /** Set once it is decided. `gone`: the client disconnected first. */
  outcome: Outcome | 'gone' | undefined

  readonly #wall: () => number

  constructor({ request, connection, upgrade }: Exchange, flow: AdmittedFlow, clock: Clock) {
    const { method, target, authority, scheme, version, headers, body } = request
    this.head = { method, target, authority, scheme, version, headers }
    this.framing = body.framing
    this.upgrade = upgrade
    this.connection = connection
    this.entry = flow.entry
    this.flow = flow
    this.snapshot = flow.units as Snapshot
    this.connected = flow.results === undefined ? undefined : new Map(flow.results)
    this.begun = clock.monotonic()
    this.#wall = () => clock.wall()
    flow.onForwarded(() => this.#forwarded())
  }

  /** About as many bytes as its head holds. */
  get bytes(): number {
    const { target, headers } = this.head
    let bytes = 256 + target.length
    for (let i = 0; i < headers.length; i++) bytes += (headers[i] as string).length + 16
    return bytes
  }

  forwards(upstream: string | undefined): void {
    const { method, target, headers } = this.flow.request
    this.sent = { upstream, method, uri: target.uri, headers: headers.list }
  }

  answers(status: number, code: string | undefined): void {
    this.#decided(finalAnswer(this.flow, this.#forwardedResponse, status, code))
  }

  /** Ends the exchange, without a response or with one that was not announced. */
  ended(status: number, code: string | undefined, failed: boolean): void {
    if (this.outcome !== undefined) return
    if (status === 0 && failed) this.outcome = 'gone'
    else this.#decided(status === 0 ? 'closed' : finalAnswer(this.flow, this.#forwardedResponse, status, code))
  }

  #decided(answer: FinalAnswer | 'closed'): void {
    this.outcome = { forwarded: this.sent, answer, by: this.flow.decidedBy }
  }

  #forwarded(): void {
    const { response } = this.flow
    if (response === undefined) return
    this.#forwardedResponse = response
    this.response = copyOf(response)
    this.respondedAt = this.#wall()
  }
}

/** Copies a response so that its head can be changed independently. */
function copyOf({ status, reason, headers, body, local, close }: FlowResponse): FlowResponse {
  const head = {
    status,
    reason,
    headers: new HeaderFields([...headers.list]),
    local,
    ...(close === true ? { close } : {})
  }
  return { ...head, body, transforms: [], trailers: undefined }
}

/** One run of a candidate on a client's request. */
export class Trial {
  readonly live: LiveExchange
  readonly snapshot: ShadowSnapshot
  /** Milliseconds of work. */
  used = 0
  /** Start of the current work; undefined while paused. */
  since: number | undefined
  /** `waits`: for the response of the upstream. */
  state: 'ready' | 'runs' | 'waits' | 'done' = 'ready'
  /** Why it cannot be judged. */
  unknown: Unknown | undefined
  late = false
  /** Is it counted? */
  counted = false
  /** Decisions of its limits, in order. */
  readonly decisions: unknown[]
  /** Number of replayed decisions in a second run. */
  repeated: number | undefined
  /** Takes the run down. */
  readonly recorder: ExplanationRecorder | undefined
  /** Wall clock, milliseconds, of the phase that runs. */
  wall: number
  /** Monotonic milliseconds. */
  time: number
  flow: AdmittedFlow | undefined
  sent: ForwardedRequest | undefined
  /** Response that is used as that of the upstream. */
  answered: FlowResponse | undefined
  outcome: Outcome | undefined
  record: ExchangeRecord | undefined
  /** Resumes a waiting run. */
  goOn: (() => void) | undefined
  /** Called at the end of the run. */
  onDone: (() => void) | undefined

  constructor(live: LiveExchange, snapshot: ShadowSnapshot, again?: { of: Trial; recorder: ExplanationRecorder }) {
    this.live = live
    this.snapshot = snapshot
    this.wall = live.flow.request.receivedAt
    this.time = again?.of.time ?? live.begun
    this.decisions = again?.of.decisions ?? []
    this.repeated = again === undefined ? undefined : 0
    this.recorder = again?.recorder
  }

  /** Resets the results and the time budget. */
  again(): void {
    this.state = 'ready'
    this.used = 0
    this.since = undefined
    this.late = false
    this.flow = undefined
    this.sent = undefined
    this.answered = undefined
    this.outcome = undefined
    this.record = undefined
    this.goOn = undefined
  }

  /** Why there is no outcome. */
  get failed(): boolean {
    return this.unknown !== undefined || this.late
  }
}

const NEVER: AbortSignalLike = { aborted: undefined, onAbort: () => () => undefined }
const NOTHING_SENT: Sent = { bytesIn: 0, bytesOut: 0, firstByteAt: 0, endedAt: 0 }

/** An exchange whose response is discarded. */
export class TrialExchange implements Exchange {
  readonly trial: Trial
  readonly connection: ConnectionFacts
  readonly request: Exchange['request']
  readonly upgrade: Exchange['upgrade']
  readonly signal = NEVER

  constructor(trial: Trial) {
    const { live } = trial
    this.trial = trial
    this.connection = live.connection
    this.upgrade = live.upgrade
    this.request = { ...live.head, body: new UnreadBody(live.framing, () => unknown(trial, 'body')) }
  }

  inform(): void {
    // Interim responses have no decision.
  }

  respond(_head: unknown, body?: Outgoing): Sent {
    if (body instanceof Readable) body.destroy()
    return NOTHING_SENT
  }

  splice(): Sent {
    return NOTHING_SENT
  }

  close(): void {
    // The record of the exchange says it: there is no status.
  }
}

/** It cannot be judged: the first reason counts. */
export function unknown(trial: Trial, reason: Unknown): void {
  trial.unknown ??= reason
}

/** The content of a message that passed and was not kept. */
export class UnreadBody implements Body {
  readonly framing: Body['framing']
  readonly bytes = 0
  readonly taken = false
  readonly trailers: HeaderList | undefined = undefined
  readonly #read: () => void

  /** `read`: called when its content is wanted. */
  constructor(framing: Body['framing'], read: () => void) {
    this.framing = framing
    this.#read = read
  }

  watch(): void {
    // No body arrives here.
  }

  claim(): Readable {
    this.#read()
    return Readable.from([], { objectMode: false })
  }

  buffer(): Promise<Uint8Array> {
    this.#read()
    return Promise.resolve(new Uint8Array(0))
  }

  peek(): Promise<BodyStart> {
    this.#read()
    return Promise.resolve({ bytes: new Uint8Array(0), complete: true })
  }

  through(): void {
    // There is no content to transform.
  }

  discard(): void {
    // There is no content to discard.
  }
}
