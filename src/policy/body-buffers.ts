import { pipeline, Readable } from 'node:stream'
import type { Body, Outgoing } from '../exchange/body.js'
import type { Failure } from '../exchange/connection.js'
import type { Flow, FlowResponse } from '../exchange/flow.js'
import { refuse, type Verdict } from '../exchange/verdict.js'

export interface BodyLimits {
  /** Bytes that all buffered bodies of the process may hold together. */
  readonly total: number
  /** Bytes that one body may have. */
  readonly each: number
}

export interface BodyBuffersParts extends BodyLimits {
  /** What the data plane answers to a message that broke off. */
  readonly broken: (failure: Failure) => Verdict
}

const EMPTY = new Uint8Array(0)

/**
 * Whole bodies in memory, within a budget of the process.
 *
 * A body that was buffered stands in its flow as bytes, so who asks again gets the same bytes at once. Memory is counted
 * as it fills, not as it is announced, and is given back when the exchange is over. A body that cannot be had whole is
 * never given at all: what comes instead is the verdict that ends the exchange.
 */
export class BodyBuffers {
  readonly #parts: BodyBuffersParts
  readonly #holdings = new WeakMap<Flow, { bytes: number }>()
  #held = 0

  constructor(parts: BodyBuffersParts) {
    this.#parts = parts
  }

  /** Bytes held now. */
  get held(): number {
    return this.#held
  }

  get each(): number {
    return this.#parts.each
  }

  /**
   * The whole body of the request. Verdicts: 413 `BODY_TOO_LARGE`, 503 `BODY_BUDGET`, or what the failure of the client
   * answers. A client that waits for a 100 is told to go on, unless its body is known to be too large.
   */
  async request(flow: Flow): Promise<Uint8Array | Verdict> {
    const { request } = flow
    if (request === undefined) return EMPTY
    const { body } = request
    if (body instanceof Uint8Array) return body
    if (body.framing.kind === 'none') return EMPTY
    if (announced(body) > this.#parts.each) return refuse(413, 'BODY_TOO_LARGE')
    const whole = await this.#gather(flow, body.claim(), () => body.failure ?? 'client-gone')
    if (whole === 'too-large') return refuse(413, 'BODY_TOO_LARGE')
    if (whole instanceof Uint8Array) request.body = whole
    return whole
  }

  /**
   * The whole body of the response as the client would get it, with the transforms that were asked for so far applied.
   * Verdicts: 502 `RESPONSE_TOO_LARGE`, 503 `BODY_BUDGET`, or what the failure of the upstream answers.
   */
  async response(flow: Flow): Promise<Uint8Array | Verdict> {
    const { response } = flow
    if (response === undefined) return EMPTY
    const { body, transforms } = response
    if (body === undefined || isAbsent(body)) return EMPTY
    if (body instanceof Uint8Array && transforms.length === 0) return body
    if (transforms.length === 0 && announced(body) > this.#parts.each) return refuse(502, 'RESPONSE_TOO_LARGE')
    const whole = await this.#gather(flow, transformed(response), () => failureOf(body))
    if (whole === 'too-large') return refuse(502, 'RESPONSE_TOO_LARGE')
    if (whole instanceof Uint8Array) {
      response.body = whole
      response.transforms = []
      response.trailers = keptTrailers(response)
    }
    return whole
  }

  /**
   * Counts `bytes` more for this flow until its exchange is over: for what is made from a buffered body. False: the
   * budget is full, and nothing was counted.
   */
  reserve(flow: Flow, bytes: number): boolean {
    if (this.#held + bytes > this.#parts.total) return false
    this.#count(flow, bytes)
    return true
  }

  /** Gives back before the end what the flow holds no longer; at most what was counted for it. */
  release(flow: Flow, bytes: number): void {
    this.#count(flow, -Math.min(bytes, this.#holdings.get(flow)?.bytes ?? 0))
  }

  #count(flow: Flow, bytes: number): void {
    let holding = this.#holdings.get(flow)
    if (holding === undefined) {
      const first = { bytes: 0 }
      this.#holdings.set(flow, first)
      flow.onEnd(() => {
        this.#holdings.delete(flow)
        this.#held -= first.bytes
        first.bytes = 0
      })
      holding = first
    }
    // After the end of the exchange nobody would give it back.
    if (this.#holdings.get(flow) !== holding) return
    holding.bytes += bytes
    this.#held += bytes
  }

  async #gather(flow: Flow, stream: Readable, failure: () => Failure): Promise<Uint8Array | 'too-large' | Verdict> {
    const { each, broken } = this.#parts
    const chunks: Uint8Array[] = []
    let size = 0
    try {
      // Leaving the loop destroys the stream, and with it the engine's hold on what is left of the body.
      for await (const chunk of stream as AsyncIterable<Uint8Array>) {
        size += chunk.length
        if (size > each) return this.#dropped(flow, size - chunk.length, 'too-large')
        if (!this.reserve(flow, chunk.length)) {
          return this.#dropped(flow, size - chunk.length, refuse(503, 'BODY_BUDGET'))
        }
        chunks.push(chunk)
      }
    } catch {
      // A stream of ours breaks for one reason only: its message did, and the body knows why.
      return this.#dropped(flow, size, broken(failure()))
    }
    return chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks, size)
  }

  /** Gives back at once what was counted for a body that nobody will get. */
  #dropped<T>(flow: Flow, bytes: number, outcome: T): T {
    this.release(flow, bytes)
    return outcome
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
  // The reader of the last stream hears of a break.
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
