import { setImmediate as turnOfLoop } from 'node:timers/promises'
import type { BodyBuffers } from '../../flow/body-buffers.js'
import { codingsOf, isTextMedia } from '../../flow/content-coding.js'
import type { BodyStart } from '../../flow/exchange.js'
import type { Flow, FlowRequest, FlowResponse } from '../../flow/flow.js'
import type { HeaderList } from '../../flow/headers.js'
import type { Verdict } from '../../flow/verdict.js'
import type { Clock } from '../../lib/clock.js'
import { Slices, type Steps } from '../../lib/slices.js'
import { decodeStart } from './decoded-start.js'
import { setRequestBody, setResponseBody, setResponseHead } from './engine/body-values.js'
import { type RequestFacts, setRequestHead } from './engine/request-values.js'
import type { RulePlan } from './engine/rule-set.js'
import type { Transaction } from './engine/transaction.js'
import { WorkExceeded } from './engine/transformation-chains.js'

/** Longest text whose time is not limited (bytes): its steps are, and they are few. */
const SHORT = 8_192
/** Time that examining a longer text may take, without the pauses in which other traffic is served (ms). */
const MAX_TIME = 50

/** Failure of an inspection. */
type InspectionError = 'body-invalid' | 'work-exceeded'

/** End of an inspection: done, failed, or a verdict about a message that broke. */
export type Inspected = InspectionError | Verdict | undefined

/** Inputs of an inspection. */
export interface InspectionParts {
  readonly flow: Flow
  readonly plan: RulePlan
  readonly transaction: Transaction
  readonly bodies: BodyBuffers
  readonly clock: Pick<Clock, 'monotonic' | 'cpu'>
  /** Maximum number of examined bytes of the body; 0 for none. */
  readonly bodyLimit: number
}

/** Sets the head of the request and evaluates both phases of requests. Waits only for a body, and for long work. */
export function inspectRequest(parts: InspectionParts): Inspected | Promise<Inspected> {
  const { flow, transaction, bodies, bodyLimit } = parts
  const { request } = flow
  if (request === undefined) return undefined
  const facts = requestFacts(flow, request)
  const examine = (body: BodyStart | undefined) => {
    const size = facts.target.length + (body?.bytes.length ?? 0)
    return runSteps(requestSteps(parts, facts, body), size, parts.clock)
  }
  transaction.spend(0)
  if (bodyLimit === 0 || isWithoutBody(request.body)) return examine(undefined)
  return bodies
    .start(flow, 'request', bodyLimit)
    .then((start) => ('bytes' in start ? examine(start) : (start as Verdict)))
}

function* requestSteps(
  { plan, transaction }: InspectionParts,
  facts: RequestFacts,
  body: BodyStart | undefined
): Steps<Inspected> {
  setRequestHead(transaction, facts)
  yield* plan.run(1, transaction)
  const problem =
    body === undefined
      ? undefined
      : setRequestBody(transaction, { bytes: asBuffer(body.bytes), truncated: !body.complete }, facts.headers)
  yield* plan.run(2, transaction)
  return problem === undefined || transaction.denied !== undefined ? undefined : 'body-invalid'
}

/** Sets the head of request and response and evaluates both phases of responses. */
export function inspectResponse(parts: InspectionParts): Inspected | Promise<Inspected> {
  const { flow, bodies, bodyLimit } = parts
  const { request, response } = flow
  if (request === undefined || response === undefined) return undefined
  const examine = (body: Uint8Array | undefined) =>
    runSteps(responseSteps(parts, { request, response, body }), body?.length ?? 0, parts.clock)
  const examined = isTextMedia(response.headers.get('content-type')) && request.method !== 'HEAD'
  if (bodyLimit === 0 || !examined || response.body === undefined || isWithoutBody(response.body))
    return examine(undefined)
  return bodies.start(flow, 'response', bodyLimit).then(async (start) => {
    if (!('bytes' in start)) return start
    const codings = codingsOf(response.headers)
    const content = codings.length === 0 ? start.bytes : await decodeStart(start.bytes, codings, bodyLimit)
    return content === undefined ? 'body-invalid' : await examine(content)
  })
}

function* responseSteps(
  { flow, plan, transaction }: InspectionParts,
  message: { readonly request: FlowRequest; readonly response: FlowResponse; readonly body: Uint8Array | undefined }
): Steps<Inspected> {
  const { request, response, body } = message
  const facts = requestFacts(flow, request)
  setRequestHead(transaction, facts)
  plan.setUp(transaction)
  const { list } = response.headers
  // Rules skip coded bodies; this one is decoded.
  const headers = body === undefined ? list : without(list, 'content-encoding')
  setResponseHead(transaction, { status: response.status, protocol: facts.protocol, headers })
  yield* plan.run(3, transaction)
  if (body !== undefined) setResponseBody(transaction, { bytes: asBuffer(body), truncated: false })
  yield* plan.run(4, transaction)
  return undefined
}

/** Runs short work at once, and the rest in slices beside other traffic. `size`: length of the examined text in bytes. */
function runSteps(
  steps: Steps<Inspected>,
  size: number,
  clock: InspectionParts['clock']
): Inspected | Promise<Inspected> {
  const timer = size > SHORT ? new WorkTimer(clock) : undefined
  try {
    const first = steps.next()
    if (first.done === true) return first.value
  } catch (error) {
    return toInspectionError(error)
  }
  const turn = async () => {
    timer?.stop()
    await turnOfLoop()
    timer?.start()
  }
  return new Slices({ turn, now: () => clock.monotonic() }).run(steps).catch(toInspectionError)
}

/**
 * Adds up the time of work. Time in which other processes have the CPU does not count: of a slice, the shorter one of its duration and of
 * the CPU time of the process counts.
 */
class WorkTimer {
  readonly #clock: InspectionParts['clock']
  #left = MAX_TIME
  #begun = 0
  #cpu = 0

  /** Starts the first slice. */
  constructor(clock: InspectionParts['clock']) {
    this.#clock = clock
    this.start()
  }

  start(): void {
    this.#begun = this.#clock.monotonic()
    this.#cpu = this.#readCpu()
  }

  /** Ends a slice. Throws `WorkExceeded`. */
  stop(): void {
    const cpu = this.#readCpu() - this.#cpu
    this.#left -= Math.min(this.#clock.monotonic() - this.#begun, cpu)
    if (this.#left < 0) throw new WorkExceeded()
  }

  #readCpu(): number {
    return this.#clock.cpu?.() ?? this.#clock.monotonic()
  }
}

function toInspectionError(error: unknown): InspectionError {
  if (error instanceof WorkExceeded) return 'work-exceeded'
  throw error
}

function requestFacts(flow: Flow, { head, version, authority, receivedAt }: FlowRequest): RequestFacts {
  const { headers } = head
  const hasHost = headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'host')
  return {
    id: `${flow.requestId}-${receivedAt}`,
    method: head.method,
    target: head.target,
    protocol: `HTTP/${version === '2' ? '2.0' : version}`,
    headers: hasHost ? headers : ['Host', authority, ...headers],
    clientAddress: flow.clientAddress,
    clientPort: flow.clientPort,
    serverName: flow.endpoint.host,
    serverPort: flow.endpoint.port
  }
}

function isWithoutBody(body: FlowRequest['body'] | FlowResponse['body']): boolean {
  return body === undefined || ('framing' in body && body.framing.kind === 'none')
}

function without(list: HeaderList, name: string): HeaderList {
  return list.filter((_, i) => list[i - (i % 2)]?.toLowerCase() !== name)
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
