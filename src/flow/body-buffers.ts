import { pipeline, Readable } from 'node:stream'
import { ByteQueue } from '../lib/byte-queue.js'
import { ClientShares, clientKey } from '../lib/client-limits.js'
import type { Clock } from '../lib/clock.js'
import { type DeadlineOwner, DeadlineTimer } from '../lib/deadline-timer.js'
import { flowErrors } from './error-codes.js'
import type { Body, BodyStart, Failure, Outgoing } from './exchange.js'
import type { Flow, FlowResponse } from './flow.js'
import { refuse, type Verdict } from './verdict.js'

/** Memory of buffered bodies, in total and per client. */
export interface Holdings {
  /** Bytes held by this thread. */
  readonly bytes: number
  /** Reserves `bytes` for a client (a `clientKey`); otherwise returns the exceeded limit and reserves nothing. */
  take(
    client: string,
    bytes: number,
    most: { readonly total: number; readonly perClient: number }
  ): 'total' | 'client' | undefined
  /** Releases reserved bytes. */
  give(client: string, bytes: number): void
}

/** Memory of one thread's bodies. */
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
  /** Maximum total size of the process's buffered bodies (bytes). */
  readonly total: number
  /** Maximum size of one body (bytes). */
  readonly each: number
  /**
   * Maximum size per client (bytes).
   * @default `total`
   */
  readonly perClient?: number
}

/** Time limits for receiving a whole request body. Upstreams have none. */
export interface BodyPace {
  readonly clock: Clock
  /** Maximum total time in milliseconds; 0 for no limit. */
  readonly deadline: number
  /** Minimum average rate in bytes per second after a grace period; 0 for no limit. */
  readonly rate: number
}

/** Dependencies of body buffers; limits are read on each use. */
export interface BodyBuffersParts extends BodyLimits {
  /** Returns the data plane's verdict for a message that failed. */
  readonly broken: (failure: Failure) => Verdict
  /** @default the limits of the engine */
  readonly pace?: BodyPace
  /**
   * Memory shared by the process.
   * @default this thread alone
   */
  readonly holdings?: Holdings
}

/** Interval of the check for slow bodies (ms). */
const PERIOD = 250
/** Time limit for the start of a request body (ms). */
const START_DEADLINE = 15_000
/** Time before the minimum rate applies (ms). */
const GRACE = 5_000
/** Verdict for an exhausted budget. */
const NO_ROOM = refuse(flowErrors.BODY_BUDGET)
/** Verdict for an exhausted share of the client. */
const NO_SHARE = refuse(flowErrors.BODY_SHARE)

const EMPTY = new Uint8Array(0)

/**
 * Buffers whole bodies in memory, within a budget of the process. A buffered body is stored in its flow as bytes, so a second reader gets
 * the same bytes immediately. Memory is counted as it fills, not as announced, and released when the exchange ends. A body that cannot be
 * read completely is never returned: the result is a verdict that ends the exchange. A client can use at most its share, and slow bodies
 * time out, so that they do not block other clients.
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

  /** Bytes currently held. */
  get held(): number {
    return this.#held.bytes
  }

  get each(): number {
    return this.#parts.each
  }

  /**
   * Returns the whole request body, or a verdict: 413 `BODY_TOO_LARGE`, 503 `BODY_BUDGET`, 429 `BODY_SHARE`, or the response to the
   * client's failure, such as its slowness. Sends 100 Continue if the client expects it, unless the body is known to be too large. `least`:
   * bytes allowed even if more than the limit of one body.
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
   * Returns the whole response body as the client would get it, with the current transforms applied, or a verdict: 502
   * `RESPONSE_TOO_LARGE`, 503 `BODY_BUDGET`, 429 `BODY_SHARE`, or the response to the upstream's failure.
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
   * Returns the first bytes of the request's or response's body, at most `limit`, or a verdict: 503 `BODY_BUDGET`, 429 `BODY_SHARE`, or the
   * response to the failure of the message, such as its slowness. The body stays whole. Transforms of a response are not applied.
   */
  async start(flow: Flow, of: 'request' | 'response', limit: number): Promise<BodyStart | Verdict> {
    const body = of === 'request' ? flow.request?.body : flow.response?.body
    if (body === undefined) return { bytes: EMPTY, complete: true }
    if (body instanceof Uint8Array) return { bytes: body.subarray(0, limit), complete: body.length <= limit }
    if (!isEngineBody(body)) {
      const whole = await this.response(flow)
      return whole instanceof Uint8Array ? { bytes: whole.subarray(0, limit), complete: whole.length <= limit } : whole
    }
    if (isAbsent(body)) return { bytes: EMPTY, complete: true }
    const full = this.reserve(flow, limit)
    if (full !== undefined) return full
    return await this.#peek(body, of, limit)
  }

  async #peek(body: Body, of: 'request' | 'response', limit: number): Promise<BodyStart | Verdict> {
    const { pace, broken } = this.#parts
    let watch: StartWatch | undefined
    try {
      const start = body.peek(limit)
      if (of === 'response' || pace === undefined) return await start
      const late = new Promise<'late'>((resolve) => {
        watch = new StartWatch(pace.clock.monotonic() + START_DEADLINE, () => resolve('late'))
        this.#slow?.add(watch)
      })
      const outcome = await Promise.race([start, late])
      return outcome === 'late' ? broken('client-timeout') : outcome
    } catch {
      return broken(body.failure ?? (of === 'request' ? 'client-gone' : 'upstream-gone'))
    } finally {
      if (watch !== undefined) this.#slow?.delete(watch)
    }
  }

  /**
   * Reserves `bytes` for data derived from a buffered body until the exchange ends. Otherwise reserves nothing and returns a verdict:
   * budget full (503 `BODY_BUDGET`) or share of the client exceeded (429 `BODY_SHARE`).
   */
  reserve(flow: Flow, bytes: number): Verdict | undefined {
    const { total, perClient = total } = this.#parts
    const known = this.#holdings.get(flow)
    const client = known?.client ?? clientKey(flow.clientAddress)
    const full = this.#held.take(client, bytes, { total, perClient })
    if (full !== undefined) return full === 'total' ? NO_ROOM : NO_SHARE
    const holding = known ?? this.#begin(flow, client)
    // After the end of the exchange, the bytes would never be released.
    if (this.#holdings.get(flow) === holding) holding.bytes += bytes
    else this.#held.give(client, bytes)
    return undefined
  }

  /** Releases bytes of the flow early; at most those reserved for it. */
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
      // Leaving the loop destroys the stream, and with it the engine's hold on the rest of the body.
      for await (const chunk of stream as AsyncIterable<Uint8Array>) {
        size += chunk.length
        if (size > each) return this.#dropped(flow, size - chunk.length, 'too-large')
        const full = this.reserve(flow, chunk.length)
        if (full !== undefined) return this.#dropped(flow, size - chunk.length, full)
        waiting.push(chunk)
        if (watch !== undefined) watch.came = size
      }
    } catch {
      // Our stream fails for two reasons only: it was too slow, or its message failed and the body knows why.
      return this.#dropped(flow, size, broken(watch?.late === true ? 'client-timeout' : failure()))
    } finally {
      if (watch !== undefined) this.#slow?.delete(watch)
    }
    return waiting.takeAll()
  }

  /** Releases the bytes of a body that will not be used. */
  #dropped<T>(flow: Flow, bytes: number, outcome: T): T {
    this.release(flow, bytes)
    return outcome
  }
}

interface Holding {
  bytes: number
  readonly client: string
}

/** Reports when the start of a body takes too long. */
class StartWatch implements DeadlineOwner {
  place = -1
  readonly #deadline: number
  readonly #late: () => void

  constructor(deadline: number, late: () => void) {
    this.#deadline = deadline
    this.#late = late
  }

  checkDeadlines(now: number): void {
    if (now > this.#deadline) this.#late()
  }
}

/** Cancels a body that takes too long. */
class Watch implements DeadlineOwner {
  place = -1
  /** Bytes received. */
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

/** Returns the body's minimum size according to its head. */
function announced(body: Exclude<Outgoing, undefined>): number {
  if (body instanceof Uint8Array) return body.length
  return isEngineBody(body) && body.framing.kind === 'length' ? body.framing.bytes : 0
}

function failureOf(body: Outgoing): Failure {
  return (body !== undefined && isEngineBody(body) ? body.failure : undefined) ?? 'upstream-gone'
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
  // The reader of the last stream gets the error.
  pipeline([source, ...streams], () => undefined)
  return streams.at(-1) as Readable
}

/** A whole body is sent with its length; trailers that actually arrived take precedence over the length. */
function keptTrailers({ trailers }: FlowResponse): FlowResponse['trailers'] {
  const list = trailers?.() ?? []
  return list.length === 0 ? undefined : () => list
}

function isEngineBody(body: Exclude<Outgoing, undefined>): body is Body {
  return !(body instanceof Uint8Array) && 'framing' in body
}
