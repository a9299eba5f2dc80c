import { pipeline, Readable } from 'node:stream'
import { ByteQueue } from '../lib/byte-queue.js'
import { ClientShares, clientKey } from '../lib/client-limits.js'
import type { Clock } from '../lib/clock.js'
import { type DeadlineOwner, DeadlineTimer } from '../lib/deadline-timer.js'
import { flowErrors } from './error-codes.js'
import type { Body, Failure, Outgoing } from './exchange.js'
import type { Flow, FlowResponse } from './flow.js'
import { refuse, type Verdict } from './verdict.js'

/** What buffered bodies hold: all of them together, and those of each client. */
export interface Holdings {
  /** Bytes of all of this thread. */
  readonly bytes: number
  /** Takes `bytes` for a client (a `clientKey`), or answers which limit they would exceed; then nothing is taken. */
  take(
    client: string,
    bytes: number,
    most: { readonly total: number; readonly perClient: number }
  ): 'total' | 'client' | undefined
  /** Gives back what was taken. */
  give(client: string, bytes: number): void
}

/** What the bodies of one thread hold. */
class OwnHoldings implements Holdings {
  bytes = 0
  #most = 0
  readonly #shares = new ClientShares(() => this.#most)

  take(client: string, bytes: number, { total, perClient }: { total: number; perClient: number }) {
    if (this.bytes + bytes > total) return 'total'
    this.#most = perClient
    if (this.#shares.exceeds(client, bytes)) return 'client'
    this.bytes += bytes
    this.#shares.count(client, bytes)
    return undefined
  }

  give(client: string, bytes: number): void {
    this.bytes -= bytes
    this.#shares.count(client, -bytes)
  }
}

interface BodyLimits {
  /** Bytes that all buffered bodies of the process may hold together. */
  readonly total: number
  /** Bytes that one body may have. */
  readonly each: number
  /** Bytes that one client may hold; absent: all. */
  readonly perClient?: number
}

/** How long the body of a request may take that is wanted whole. An upstream is given the time that it needs. */
export interface BodyPace {
  readonly clock: Clock
  /** For the whole of it, in milliseconds; 0: no limit. */
  readonly deadline: number
  /** Least bytes per second, on average since it was wanted; the first seconds are given. 0: no limit. */
  readonly rate: number
}

/** What buffered bodies need; the amounts are read anew each time. */
export interface BodyBuffersParts extends BodyLimits {
  /** What the data plane answers to a message that broke off. */
  readonly broken: (failure: Failure) => Verdict
  /** Absent: as long as the engine lets it. */
  readonly pace?: BodyPace
  /** What the bodies of the process hold; absent: those of this thread are all. */
  readonly holdings?: Holdings
}

/** How often slow bodies are looked for, and what each gets before its rate counts. Milliseconds. */
const PERIOD = 250
const GRACE = 5_000
const NO_ROOM = refuse(flowErrors.BODY_BUDGET)
const NO_SHARE = refuse(flowErrors.BODY_SHARE)

const EMPTY = new Uint8Array(0)

/**
 * Whole bodies in memory, within a budget of the process.
 *
 * A body that was buffered stands in its flow as bytes, so a second reader gets the same bytes at once. Memory is counted
 * as it fills, not as it is announced, and is given back when the exchange is over. A body that cannot be had whole is
 * never given at all: what comes instead is the verdict that ends the exchange. One client holds at most its share, and a body that
 * trickles in ends, so that slow ones do not keep others from being served.
 */
export class BodyBuffers {
  readonly #parts: BodyBuffersParts
  readonly #holdings = new WeakMap<Flow, Holding>()
  readonly #held: Holdings
  readonly #slow: DeadlineTimer | undefined

  constructor(parts: BodyBuffersParts) {
    this.#parts = parts
    this.#held = parts.holdings ?? new OwnHoldings()
    this.#slow = parts.pace === undefined ? undefined : new DeadlineTimer(parts.pace.clock, PERIOD)
  }

  /** Bytes held now. */
  get held(): number {
    return this.#held.bytes
  }

  get each(): number {
    return this.#parts.each
  }

  /**
   * The whole body of the request. Verdicts: 413 `BODY_TOO_LARGE`, 503 `BODY_BUDGET`, 429 `BODY_SHARE`, or what the
   * failure of the client answers, which may be its slowness. A client that waits for a 100 is asked to go on, unless its body is known to be too large. `least`: bytes
   * that it may have where that is more than the limit of one body.
   */
  async request(flow: Flow, least = 0): Promise<Uint8Array | Verdict> {
    const { request } = flow
    if (request === undefined) return EMPTY
    const { body } = request
    if (body instanceof Uint8Array) return body
    if (body.framing.kind === 'none') return EMPTY
    const each = Math.max(this.#parts.each, least)
    if (announced(body) > each) return refuse(flowErrors.BODY_TOO_LARGE)
    const whole = await this.#gather(flow, body.claim(), each, this.#parts.pace, () => body.failure ?? 'client-gone')
    if (whole === 'too-large') return refuse(flowErrors.BODY_TOO_LARGE)
    if (whole instanceof Uint8Array) request.body = whole
    return whole
  }

  /**
   * The whole body of the response as the client would get it, with the transforms that were asked for so far applied.
   * Verdicts: 502 `RESPONSE_TOO_LARGE`, 503 `BODY_BUDGET`, 429 `BODY_SHARE`, or what the failure of the upstream answers.
   */
  async response(flow: Flow): Promise<Uint8Array | Verdict> {
    const { response } = flow
    if (response === undefined) return EMPTY
    const { body, transforms } = response
    if (body === undefined || isAbsent(body)) return EMPTY
    if (body instanceof Uint8Array && transforms.length === 0) return body
    if (transforms.length === 0 && announced(body) > this.#parts.each) return refuse(flowErrors.RESPONSE_TOO_LARGE)
    const whole = await this.#gather(flow, transformed(response), this.#parts.each, undefined, () => failureOf(body))
    if (whole === 'too-large') return refuse(flowErrors.RESPONSE_TOO_LARGE)
    if (whole instanceof Uint8Array) {
      response.body = whole
      response.transforms = []
      response.trailers = keptTrailers(response)
    }
    return whole
  }

  /**
   * Counts `bytes` more for this flow until its exchange is over: for what is made from a buffered body. Otherwise nothing was
   * counted, and the verdict says whether the budget is full (503 `BODY_BUDGET`) or the share of the client (429 `BODY_SHARE`).
   */
  reserve(flow: Flow, bytes: number): Verdict | undefined {
    const { total, perClient = total } = this.#parts
    const known = this.#holdings.get(flow)
    const client = known?.client ?? clientKey(flow.clientAddress)
    const full = this.#held.take(client, bytes, { total, perClient })
    if (full !== undefined) return full === 'total' ? NO_ROOM : NO_SHARE
    const holding = known ?? this.#begin(flow, client)
    // After the end of the exchange nothing would give it back.
    if (this.#holdings.get(flow) === holding) holding.bytes += bytes
    else this.#held.give(client, bytes)
    return undefined
  }

  /** Gives back before the end what the flow holds no longer; at most what was counted for it. */
  release(flow: Flow, bytes: number): void {
    const holding = this.#holdings.get(flow)
    if (holding === undefined) return
    const given = Math.min(bytes, holding.bytes)
    holding.bytes -= given
    this.#held.give(holding.client, given)
  }

  #begin(flow: Flow, client: string): Holding {
    const holding: Holding = { bytes: 0, client }
    this.#holdings.set(flow, holding)
    flow.onEnd(() => {
      this.#holdings.delete(flow)
      this.#held.give(client, holding.bytes)
      holding.bytes = 0
    })
    return holding
  }

  async #gather(
    flow: Flow,
    stream: Readable,
    each: number,
    pace: BodyPace | undefined,
    failure: () => Failure
  ): Promise<Uint8Array | 'too-large' | Verdict> {
    const { broken } = this.#parts
    const watch = pace === undefined ? undefined : new Watch(stream, pace)
    if (watch !== undefined) this.#slow?.add(watch)
    const waiting = new ByteQueue()
    let size = 0
    try {
      // Leaving the loop destroys the stream, and with it the engine's hold on what is left of the body.
      for await (const chunk of stream as AsyncIterable<Uint8Array>) {
        size += chunk.length
        if (size > each) return this.#dropped(flow, size - chunk.length, 'too-large')
        const full = this.reserve(flow, chunk.length)
        if (full !== undefined) return this.#dropped(flow, size - chunk.length, full)
        waiting.push(chunk)
        if (watch !== undefined) watch.came = size
      }
    } catch {
      // A stream of ours breaks for two reasons only: it was too slow, or its message broke and the body knows why.
      return this.#dropped(flow, size, broken(watch?.late === true ? 'client-timeout' : failure()))
    } finally {
      if (watch !== undefined) this.#slow?.delete(watch)
    }
    return waiting.takeAll()
  }

  /** Gives back at once what was counted for a body that will not be used. */
  #dropped<T>(flow: Flow, bytes: number, outcome: T): T {
    this.release(flow, bytes)
    return outcome
  }
}

interface Holding {
  bytes: number
  readonly client: string
}

/** Ends a body that takes too long. */
class Watch implements DeadlineOwner {
  place = -1
  /** Bytes that came. */
  came = 0
  late = false
  readonly #stream: Readable
  readonly #pace: BodyPace
  readonly #begun: number

  constructor(stream: Readable, pace: BodyPace) {
    this.#stream = stream
    this.#pace = pace
    this.#begun = pace.clock.monotonic()
  }

  checkDeadlines(now: number): void {
    const { deadline, rate } = this.#pace
    const taken = now - this.#begun
    const due = (rate * (taken - GRACE)) / 1000
    if (this.late || ((deadline === 0 || taken <= deadline) && this.came >= due)) return
    this.late = true
    this.#stream.destroy(new Error('the body came too slowly'))
  }
}

function isAbsent(body: Exclude<Outgoing, undefined>): boolean {
  return isEngineBody(body) && body.framing.kind === 'none'
}

/** Bytes that the body will have at least, as far as its head says. */
function announced(body: Exclude<Outgoing, undefined>): number {
  if (body instanceof Uint8Array) return body.length
  return isEngineBody(body) && body.framing.kind === 'length' ? body.framing.bytes : 0
}

function failureOf(body: Outgoing): Failure {
  const known = body !== undefined && isEngineBody(body) ? body.failure : undefined
  return known ?? 'upstream-gone'
}

function transformed({ body, transforms }: FlowResponse): Readable {
  if (body === undefined) return Readable.from([])
  if (isEngineBody(body)) {
    for (const transform of transforms) body.through(transform)
    return body.claim()
  }
  const source = body instanceof Uint8Array ? Readable.from([body]) : body
  if (transforms.length === 0) return source
  const streams = transforms.map((transform) => transform())
  // A break is reported to the reader of the last stream.
  pipeline([source, ...streams], () => undefined)
  return streams.at(-1) as Readable
}

/** A whole body is sent with its length, and only trailers that did come are worth the length. */
function keptTrailers({ trailers }: FlowResponse): FlowResponse['trailers'] {
  const list = trailers?.() ?? []
  return list.length === 0 ? undefined : () => list
}

function isEngineBody(body: Exclude<Outgoing, undefined>): body is Body {
  return !(body instanceof Uint8Array) && 'framing' in body
}
