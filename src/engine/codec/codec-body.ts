import { type Duplex, Readable } from 'node:stream'
import type { Body, Framing } from '../../exchange/body.js'
import type { Failure } from '../../exchange/connection.js'
import type { HeaderList } from '../../exchange/headers.js'
import { copy, ignore } from '../copy.js'
import { allowedTrailers } from '../fields.js'
import { BodyBroken } from '../message-body.js'
import type { Wire } from './wire.js'

/** The connection on which a body arrives. */
export interface BodySource {
  /** Somebody wants the bytes for the first time. */
  bodyWanted(): void
  pauseBody(): void
  resumeBody(): void
  /** Nobody will read what is left. */
  bodyAbandoned(): void
}

/** Where a body goes. Bytes come as latin1 text when they are few: text joins head and body to one write. */
export interface BodySink {
  text(data: string): void
  /** `bytes` are valid only during the call, unless `wire` is undefined; then they are the sink's. */
  chunk(bytes: Buffer, from: number, to: number, wire: Wire | undefined): void
  /** Nothing more comes in this turn. */
  flush(): void
  end(trailers: HeaderList): void
  broke(why: Failure): void
}

/** Up to this many bytes travel as text. */
export const SMALL = 4096
/** Bytes that may wait for a reader before the connection is no longer read. */
const HELD_LIMIT = 65_536
const OPEN: Framing = { kind: 'open' }
const NO_FIELDS: HeaderList = []

/** The body of a message that the codec receives, on either side. It is no stream until somebody claims it. */
export class CodecBody implements Body {
  readonly #framing: Framing
  #source: BodySource | undefined
  #sink: BodySink | undefined = undefined
  #held: (string | Buffer)[] | undefined = undefined
  #heldBytes = 0
  #transforms: (() => Duplex)[] | undefined = undefined
  #fields: HeaderList | undefined = undefined
  #state: 'free' | 'wanted' | 'taken' | 'discarded' = 'free'
  #broken = false
  #bytes = 0
  /** Why it broke; the owner may set it before it does. */
  failure: Failure
  /** The sender holds the body back until it is wanted (RFC 9110 10.1.1). */
  awaitsContinue = false

  /** `source` undefined: there are no bytes, and the body is complete. */
  constructor(framing: Framing, source: BodySource | undefined, failure: Failure) {
    this.#framing = framing
    this.#source = source
    this.failure = failure
    if (source === undefined) this.#fields = NO_FIELDS
  }

  get framing(): Framing {
    return this.#transforms === undefined || this.#framing.kind === 'none' ? this.#framing : OPEN
  }

  get bytes(): number {
    return this.#bytes
  }

  get wanted(): boolean {
    return this.#state !== 'free'
  }

  /** All bytes have arrived. */
  get complete(): boolean {
    return this.#fields !== undefined
  }

  /** All bytes have arrived and nobody has asked for them. */
  get untaken(): boolean {
    return this.complete && this.#source !== undefined
  }

  get transformed(): boolean {
    return this.#transforms !== undefined && this.#framing.kind !== 'none'
  }

  get trailers(): HeaderList | undefined {
    const fields = this.#fields
    return fields === undefined || fields.length === 0 ? fields : allowedTrailers(fields)
  }

  /** Bytes arrived on `wire`. */
  push(chunk: Buffer, from: number, to: number, wire: Wire): void {
    this.#bytes += to - from
    if (this.#sink !== undefined) this.#sink.chunk(chunk, from, to, wire)
    else if (this.#state !== 'discarded') this.#hold(chunk, from, to, wire)
  }

  /** The bytes that came in this turn have been pushed. */
  flush(): void {
    this.#sink?.flush()
  }

  /** The last byte has arrived. The source still hears when somebody takes the body, if nobody has. */
  finish(fields: HeaderList): void {
    this.#fields = fields
    if (this.wanted) this.#source = undefined
    const sink = this.#sink
    this.#sink = undefined
    sink?.end(this.trailers ?? NO_FIELDS)
  }

  /** The message ended early. */
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

  /** Hands over what is here and then what comes. `flush` is the caller's for what is here. */
  sendTo(sink: BodySink): void {
    this.#state = 'taken'
    this.#want()
    const held = this.#held
    this.#held = undefined
    this.#heldBytes = 0
    if (held !== undefined) {
      for (const piece of held) {
        if (typeof piece === 'string') sink.text(piece)
        else sink.chunk(piece, 0, piece.length, undefined)
      }
    }
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

  /** The taker stops; the rest is nobody's. */
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
    return new Promise((resolve, reject) => {
      if (this.#state === 'free') this.#state = 'wanted'
      this.#want()
      const whole = (): Buffer => {
        const pieces = (this.#held ?? []).map((piece) =>
          typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece
        )
        const all = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)
        this.#held = [all]
        return all
      }
      const full = (): boolean => {
        if (this.#heldBytes <= limit) return false
        this.#sink = undefined
        this.#source?.pauseBody()
        resolve('too-large')
        return true
      }
      if (this.#broken) reject(new BodyBroken(this.failure))
      else if (full()) return
      else if (this.complete) resolve(whole())
      else {
        this.#sink = {
          text: ignore,
          chunk: (chunk, from, to, wire) => {
            this.#hold(chunk, from, to, wire)
            full()
          },
          flush: ignore,
          end: () => resolve(whole()),
          broke: (why) => reject(new BodyBroken(why))
        }
        this.#source?.resumeBody()
      }
    })
  }

  discard(): void {
    if (this.#state === 'taken' || this.#state === 'discarded') return
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

  #hold(chunk: Buffer, from: number, to: number, wire: Wire | undefined): void {
    this.#held ??= []
    this.#heldBytes += to - from
    if (to - from <= SMALL) this.#held.push(chunk.toString('latin1', from, to))
    else this.#held.push(wire === undefined ? chunk.subarray(from, to) : wire.keep(chunk, from, to))
    if (this.#heldBytes > HELD_LIMIT && this.#sink === undefined) this.#source?.pauseBody()
  }
}

/** A body as a stream; reading it is the back-pressure. */
class ClaimedBody extends Readable implements BodySink {
  readonly #body: CodecBody
  #over = false

  constructor(body: CodecBody) {
    super()
    this.#body = body
    this.on('error', ignore)
    body.sendTo(this)
  }

  override _read(): void {
    this.#body.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.#over) {
      this.#over = true
      this.#body.stop()
    }
    done(error)
  }

  text(data: string): void {
    this.#push(Buffer.from(data, 'latin1'))
  }

  chunk(bytes: Buffer, from: number, to: number, wire: Wire | undefined): void {
    this.#push(wire === undefined ? bytes.subarray(from, to) : wire.keep(bytes, from, to))
  }

  flush(): void {
    // Each piece was pushed when it came.
  }

  end(): void {
    this.#over = true
    this.push(null)
  }

  broke(why: Failure): void {
    this.#over = true
    this.destroy(new BodyBroken(why))
  }

  #push(chunk: Buffer): void {
    if (!this.push(chunk)) this.#body.pause()
  }
}

/** `first` through new transforms; a break anywhere destroys all of them. */
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
