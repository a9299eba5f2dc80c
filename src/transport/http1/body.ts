import { type Duplex, Readable } from 'node:stream'
import type { Body, BodyStart, Failure, Framing, PieceLender, TrailerRules } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { ByteQueue } from '../../lib/byte-queue.js'
import { allowedTrailers } from '../fields.js'
import { BodyBroken } from '../message-body.js'
import { copy, ignore } from '../pipes.js'
import { type BodySink, Held, holdPiece, NOTHING, SMALL } from './held-bytes.js'
import { type Borrower, READ_BYTES, type Wire } from './wire.js'

/** The connection that receives a body. */
export interface BodySource {
  /** The bytes are requested for the first time. */
  bodyWanted(): void
  pauseBody(): void
  resumeBody(): void
  /** The rest of the body will not be read. */
  bodyAbandoned(): void
}

/** Maximum bytes pending for a reader before the connection pauses reading. */
const HELD_LIMIT = READ_BYTES
const NONE: Framing = { kind: 'none' }
const OPEN: Framing = { kind: 'open' }
const NO_FIELDS: HeaderList = []

/** Body of a message received by the codec, on either side. Becomes a stream only if claimed. */
export class CodecBody implements Body, Borrower {
  #framing: Framing
  #source: BodySource | undefined
  #sink: BodySink | undefined = undefined
  #held: Held | undefined = undefined
  #transforms: (() => Duplex)[] | undefined = undefined
  #fields: HeaderList | undefined = undefined
  #state: 'free' | 'wanted' | 'taken' | 'discarded' = 'free'
  #broken = false
  #bytes = 0
  #watcher: ((chunk: Uint8Array) => void) | undefined = undefined
  /** Reason of a failure; the owner may set it before the failure. */
  failure: Failure
  /** The sender waits for 100 Continue (RFC 9110 10.1.1). */
  awaitsContinue = false
  trailerRules: TrailerRules | undefined = undefined

  /** `source` is undefined for a complete body without bytes. */
  constructor(framing: Framing, source: BodySource | undefined, failure: Failure) {
    this.#framing = framing
    this.#source = source
    this.failure = failure
    if (source === undefined) this.#fields = NO_FIELDS
  }

  get framing(): Framing {
    return this.#transforms === undefined || this.#framing.kind === 'none' ? this.#framing : OPEN
  }

  /** Treats a complete empty body as no body. */
  becomeNone(): void {
    this.#framing = NONE
    this.#source = undefined
    this.#fields = NO_FIELDS
  }

  get bytes(): number {
    return this.#bytes
  }

  get wanted(): boolean {
    return this.#state !== 'free'
  }

  get taken(): boolean {
    return this.#state === 'taken' || this.#state === 'discarded'
  }

  /** All bytes have arrived. */
  get complete(): boolean {
    return this.#fields !== undefined
  }

  /** All bytes have arrived and none were requested. */
  get untaken(): boolean {
    return this.complete && this.#source !== undefined
  }

  get transformed(): boolean {
    return this.#transforms !== undefined && this.#framing.kind !== 'none'
  }

  get trailers(): HeaderList | undefined {
    const fields = this.#fields
    return fields === undefined || fields.length === 0 ? fields : allowedTrailers(fields, this.trailerRules)
  }

  /** Bytes arrived on `wire`. */
  push(chunk: Buffer, from: number, to: number, wire: Wire): void {
    this.#bytes += to - from
    this.#watcher?.(chunk.subarray(from, to))
    if (this.#sink !== undefined) this.#sink.chunk(chunk, from, to, wire)
    else if (this.#state === 'discarded') return
    else if (this.#held === undefined && to - from > SMALL) {
      // Its reader mostly comes in the same call, and then it is not copied.
      this.#held = new Held({ chunk, from, to, lender: wire })
      wire.borrow(this)
    } else this.#hold(chunk, from, to, wire)
  }

  /** The memory of the chunk at hand ends with this call. */
  keepBorrowed(): void {
    const held = this.#held
    held?.keepBorrowed()
    if (held !== undefined) this.#pauseIfFull(held)
  }

  /** The bytes that came in this turn have been pushed. */
  flush(): void {
    this.#sink?.flush()
  }

  /** The last byte has arrived. The source is still notified when the body is first read. */
  finish(fields: HeaderList): void {
    this.#fields = fields
    if (this.wanted) this.#source = undefined
    const sink = this.#sink
    this.#sink = undefined
    sink?.end(this.trailers ?? NO_FIELDS)
  }

  /** The message ended prematurely. */
  fail(why: Failure): void {
    if (this.complete || this.#broken) return
    this.failure = why
    this.#broken = true
    this.#source = undefined
    const sink = this.#sink
    this.#sink = undefined
    sink?.broke(why)
  }

  through(transform: () => Duplex): void {
    this.#transforms ??= []
    this.#transforms.push(transform)
  }

  /** Sends available and further bytes to a sink. The caller flushes the available ones. */
  sendTo(sink: BodySink): void {
    this.#state = 'taken'
    this.#want()
    const held = this.#held
    this.#held = undefined
    held?.sendTo(sink)
    if (this.complete) sink.end(this.trailers ?? NO_FIELDS)
    else if (this.#broken) sink.broke(this.failure)
    else {
      this.#sink = sink
      this.#source?.resumeBody()
    }
  }

  pause(): void {
    if (!this.complete) this.#source?.pauseBody()
  }

  resume(): void {
    if (!this.complete) this.#source?.resumeBody()
  }

  /** The consumer stops; the rest is not needed. */
  stop(): void {
    this.#sink = undefined
    this.#abandon()
  }

  claim(): Readable {
    const raw = new ClaimedBody(this)
    return this.#transforms === undefined || this.#framing.kind === 'none'
      ? raw
      : chained(raw, this.#transforms, () => this.failure)
  }

  buffer(limit: number): Promise<Uint8Array | 'too-large'> {
    if (this.#framing.kind === 'length' && this.#framing.bytes > limit) return Promise.resolve('too-large')
    return this.#receive(limit + 1, (whole, length) => (length > limit ? 'too-large' : whole()))
  }

  peek(limit: number): Promise<BodyStart> {
    return this.#receive(limit, (whole, length) => {
      return { bytes: whole().subarray(0, limit), complete: this.complete && length <= limit }
    })
  }

  /** Holds bytes until there are at least `least`, or all; `take` makes the result of them. They stay in the body. */
  #receive<T>(least: number, take: (whole: () => Buffer, length: number) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#state === 'free') this.#state = 'wanted'
      this.#want()
      const taken = (): T => take(() => this.#held?.whole() ?? NOTHING, this.#held?.length ?? 0)
      const full = (): boolean => {
        if ((this.#held?.length ?? 0) < least) return false
        this.#sink = undefined
        this.#source?.pauseBody()
        resolve(taken())
        return true
      }
      if (this.#broken) reject(new BodyBroken(this.failure))
      else if (full()) return
      else if (this.complete) resolve(taken())
      else {
        this.#sink = {
          text: ignore,
          chunk: (chunk, from, to, lender) => {
            this.#hold(chunk, from, to, lender)
            full()
          },
          flush: ignore,
          end: () => resolve(taken()),
          broke: (why) => reject(new BodyBroken(why))
        }
        this.#source?.resumeBody()
      }
    })
  }

  watch(listener: (chunk: Uint8Array) => void): void {
    const held = this.#held
    if (held !== undefined) listener(held.whole())
    this.#watcher = listener
  }

  discard(): void {
    if (this.taken) return
    this.#held = undefined
    this.#abandon()
  }

  #abandon(): void {
    this.#state = 'discarded'
    if (this.complete) this.#want()
    else this.#source?.bodyAbandoned()
  }

  #want(): void {
    const source = this.#source
    if (this.complete) this.#source = undefined
    source?.bodyWanted()
  }

  #hold(chunk: Buffer, from: number, to: number, lender: PieceLender | undefined): void {
    this.#held ??= new Held(undefined)
    this.#held.push(chunk, from, to, lender)
    this.#pauseIfFull(this.#held)
  }

  #pauseIfFull({ length }: Held): void {
    if (length > HELD_LIMIT && this.#sink === undefined) this.#source?.pauseBody()
  }
}

/** A body as a stream; reading it applies back-pressure. */
class ClaimedBody extends Readable implements BodySink {
  readonly #body: CodecBody
  /** Bytes received before they were requested, joined because a Readable keeps a Buffer for each piece. */
  readonly #waiting = new ByteQueue()
  #wanted = false
  #over = false
  #ended = false

  constructor(body: CodecBody) {
    super({ highWaterMark: 0 })
    this.#body = body
    this.on('error', ignore)
    body.sendTo(this)
  }

  override _read(): void {
    this.#wanted = true
    this.#give()
    if (this.#wanted) this.#body.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.#over) {
      this.#over = true
      this.#body.stop()
    }
    done(error)
  }

  text(data: string): void {
    this.#waiting.push(Buffer.from(data, 'latin1'))
  }

  chunk(bytes: Buffer, from: number, to: number, lender: PieceLender | undefined): void {
    holdPiece(this.#waiting, bytes, from, to, lender)
    if (this.#waiting.length >= HELD_LIMIT) this.#body.pause()
  }

  flush(): void {
    this.#give()
  }

  end(): void {
    this.#over = true
    this.#give()
  }

  broke(why: Failure): void {
    this.#over = true
    this.#ended = true
    this.destroy(new BodyBroken(why))
  }

  /** Passes one piece per request; the end after the last one. */
  #give(): void {
    while (this.#wanted) {
      const piece = this.#waiting.shift()
      if (piece === undefined) break
      this.#wanted = false
      this.push(piece)
    }
    if (!this.#over || this.#ended || this.#waiting.length > 0) return
    this.#ended = true
    this.push(null)
  }
}

/** Pipes `first` through new transforms; an error anywhere destroys all of them. */
function chained(first: Readable, transforms: readonly (() => Duplex)[], why: () => Failure): Readable {
  const all: Readable[] = [first]
  let over = false
  const fail = (): void => {
    if (over) return
    over = true
    for (const stream of all) stream.destroy(new BodyBroken(why()))
  }
  let last = first
  for (const make of transforms) {
    const next = make()
    next.on('error', ignore)
    all.push(next)
    copy(last, next, undefined, (complete) => {
      if (complete) next.end()
      else fail()
    })
    last = next
  }
  last.once('close', () => {
    if (!last.readableEnded) fail()
  })
  return last
}
