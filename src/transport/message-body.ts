import type { OutgoingMessage } from 'node:http'
import { type Duplex, PassThrough, type Readable, type Writable } from 'node:stream'
import type { Body, BodyStart, Failure, Framing, TrailerRules } from '../flow/exchange.js'
import type { HeaderList } from '../flow/headers.js'
import { ByteQueue } from '../lib/byte-queue.js'
import { allowedTrailers, pairs } from './fields.js'
import { copy, ignore } from './pipes.js'

/** Chain of streams: its input, the effect of the source's end, and a function that destroys all of it. */
interface Chain {
  readonly into: Writable
  done(complete: boolean): void
  stop(): void
}

/**
 * Joins new transforms before `sink`, in order. `done(true)` after the end of the last one, `done(false)` after an error in any of them or
 * the source; the sink is never ended here. `carried` is called with each chunk that reaches the sink.
 */
function chain(
  makers: readonly (() => Duplex)[],
  sink: Writable,
  carried: ((bytes: number) => void) | undefined,
  done: (complete: boolean) => void
): Chain {
  const streams = makers.map((make) => make())
  const stops: (() => void)[] = []
  let over = false
  const giveUp = (): void => {
    over = true
    for (const stop of stops) stop()
    for (const stream of streams) stream.destroy()
  }
  const fail = (): void => {
    if (over) return
    giveUp()
    done(false)
  }
  for (const [i, stream] of streams.entries()) {
    const next = streams[i + 1]
    stream.on('error', ignore)
    stops.push(
      copy(stream, next ?? sink, next === undefined ? carried : undefined, (complete) => {
        if (!complete) fail()
        else if (next !== undefined) next.end()
        else {
          over = true
          done(true)
        }
      })
    )
  }
  const head = streams[0] as Duplex
  return {
    into: head,
    done: (complete) => {
      if (complete) head.end()
      else fail()
    },
    stop: giveUp
  }
}

/** Owner of a body on the receiving side. */
export interface BodyOwner {
  /** The bytes are requested for the first time. */
  wanted(): void
  /** The last byte was read (no failure), or will never arrive. Called once. */
  settled(complete: boolean): void
  /** The rest of the body will not be read. */
  abandoned(): void
}

/** End of a message. */
interface MessageEnd {
  /** True for a complete message. */
  readonly complete: boolean
  readonly rawTrailers: HeaderList
}

/** A body that ended prematurely. */
export class BodyBroken extends Error {
  readonly failure: Failure
  constructor(failure: Failure) {
    super(`the body ended early: ${failure}`)
    this.failure = failure
  }
}

const OPEN: Framing = { kind: 'open' }

/** Body of a message received by node:http, on either side. */
export class MessageBody implements Body {
  readonly #message: Readable
  readonly #end: MessageEnd
  readonly #framing: Framing
  readonly #owner: BodyOwner
  #transforms: (() => Duplex)[] | undefined = undefined
  /** Bytes read by `buffer`; they precede the rest of the message. */
  #front: ByteQueue | undefined = undefined
  #taken = false
  #settled = false
  #wanted = false
  #bytes = 0
  #arrived = 0
  #watcher: ((chunk: Uint8Array) => void) | undefined = undefined
  /** Reason of a failure; the owner sets it before it destroys the message. */
  failure: Failure
  /** The sender waits for 100 Continue (RFC 9110 10.1.1). */
  awaitsContinue = false
  trailerRules: TrailerRules | undefined = undefined

  constructor(message: Readable, end: MessageEnd, framing: Framing, owner: BodyOwner, failure: Failure) {
    this.#message = message
    this.#end = end
    this.#framing = framing
    this.#owner = owner
    this.failure = failure
  }

  get framing(): Framing {
    return this.#transforms === undefined || this.#framing.kind === 'none' ? this.#framing : OPEN
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Bytes read from the message, including those pending in `buffer`. */
  get arrived(): number {
    return Math.max(this.#arrived, this.#bytes)
  }

  /** True once the bytes were read or requested. */
  get wanted(): boolean {
    return this.#wanted
  }

  get taken(): boolean {
    return this.#taken
  }

  get trailers(): HeaderList | undefined {
    return this.#end.complete && this.#settled ? allowedTrailers(this.#end.rawTrailers, this.trailerRules) : undefined
  }

  through(transform: () => Duplex): void {
    this.#transforms ??= []
    this.#transforms.push(transform)
  }

  claim(): Readable {
    const last = new PassThrough()
    last.on('error', ignore)
    const stop = this.#feed(last, undefined, (complete) => {
      if (complete) last.end()
      else last.destroy(new BodyBroken(this.failure))
    })
    last.once('close', () => {
      if (this.#settled) return
      stop()
      this.#settle(false)
      this.#owner.abandoned()
    })
    return last
  }

  buffer(limit: number): Promise<Uint8Array | 'too-large'> {
    if (this.#framing.kind === 'none') return Promise.resolve(new Uint8Array(0))
    const announced = this.#framing.kind === 'length' ? this.#framing.bytes : (this.#front?.length ?? 0)
    if (announced > limit) return Promise.resolve('too-large')
    return this.#receive(limit + 1, (front) => (front.length > limit ? 'too-large' : peekAll(front)))
  }

  peek(limit: number): Promise<BodyStart> {
    if (this.#framing.kind === 'none') return Promise.resolve({ bytes: new Uint8Array(0), complete: true })
    return this.#receive(limit, (front, ended) => {
      return { bytes: peekAll(front).subarray(0, limit), complete: ended && front.length <= limit }
    })
  }

  /** Holds bytes until there are at least `least`, or all; `take` makes the result of them. They precede the rest. */
  #receive<T>(least: number, take: (front: ByteQueue, ended: boolean) => T): Promise<T> {
    this.#want()
    this.#front ??= new ByteQueue()
    const front = this.#front
    const message = this.#message
    return new Promise((resolve, reject) => {
      const detach = (): void => {
        message.removeListener('data', onData)
        message.removeListener('end', onEnd)
        message.removeListener('close', onClose)
      }
      const onData = (chunk: Buffer): void => {
        this.#watcher?.(chunk)
        front.push(chunk)
        this.#arrived = front.length
        if (front.length < least) return
        detach()
        message.pause()
        resolve(take(front, false))
      }
      const onEnd = (): void => {
        detach()
        this.#bytes = front.length
        this.#settle(true)
        resolve(take(front, true))
      }
      const onClose = (): void => {
        detach()
        this.#settle(false)
        reject(new BodyBroken(this.failure))
      }
      if (message.readableEnded) return onEnd()
      if (message.destroyed) return onClose()
      if (front.length >= least) return resolve(take(front, false))
      message.on('data', onData)
      message.on('end', onEnd)
      message.on('close', onClose)
      message.resume()
      return undefined
    })
  }

  /** Discards the rest, whatever consumed the body before. */
  drain(): void {
    this.#message.resume()
  }

  watch(listener: (chunk: Uint8Array) => void): void {
    const front = this.#front
    if (front !== undefined && front.length > 0) {
      const all = front.takeAll()
      front.push(all)
      listener(all)
    }
    this.#watcher = listener
  }

  discard(): void {
    if (this.#taken) return
    this.#taken = true
    this.#message.resume()
    this.#owner.abandoned()
  }

  /**
   * Sends the rest to `sink` and finishes it, with `trailers` or the received ones. `done(false)`: failed, the sink is unchanged. Returns a
   * function that stops.
   */
  sendTo(sink: MessageSink, trailers: (() => HeaderList) | undefined, done: (complete: boolean) => void): () => void {
    const message = this.#message
    if (this.#framing.kind === 'none') return this.#sendNothing(sink, trailers, done)
    if (this.#end.complete && this.#transforms === undefined && this.#front === undefined && !message.destroyed) {
      return this.#sendWhole(sink, trailers, done)
    }
    return this.#feed(sink.stream, sink.carried, (complete) => {
      if (complete) sink.finish(trailers === undefined ? this.trailers : trailers())
      done(complete)
    })
  }

  /** Finishes immediately, since no bytes will arrive. */
  #sendNothing(
    sink: MessageSink,
    trailers: (() => HeaderList) | undefined,
    done: (complete: boolean) => void
  ): () => void {
    this.#taken = true
    this.#want()
    this.#settle(true)
    sink.finish(trailers?.())
    done(true)
    return ignore
  }

  /** All bytes have arrived: one write, no listeners. */
  #sendWhole(
    sink: MessageSink,
    trailers: (() => HeaderList) | undefined,
    done: (complete: boolean) => void
  ): () => void {
    this.#taken = true
    this.#want()
    const chunk = this.#message.read() as Buffer | null
    if (chunk !== null) {
      this.#bytes += chunk.length
      this.#watcher?.(chunk)
    }
    this.#settle(true)
    sink.finish(trailers === undefined ? this.trailers : trailers(), chunk ?? undefined)
    done(true)
    return ignore
  }

  /** Moves front, message and transforms to `sink` without ending it. */
  #feed(sink: Writable, carried: ((bytes: number) => void) | undefined, done: (complete: boolean) => void): () => void {
    this.#taken = true
    this.#want()
    const message = this.#message
    const plain = this.#transforms === undefined || this.#framing.kind === 'none'
    const first = plain ? { into: sink, done, stop: ignore } : chain(this.#transforms ?? [], sink, carried, done)
    const counted = (bytes: number): void => {
      this.#bytes += bytes
      if (plain) carried?.(bytes)
    }
    for (const chunk of this.#front?.takePieces() ?? []) {
      if (!this.#settled) counted(chunk.length)
      else if (plain) carried?.(chunk.length)
      first.into.write(chunk)
    }
    this.#front = undefined
    if (message.readableEnded) {
      this.#settle(true)
      process.nextTick(first.done, true)
      return first.stop
    }
    const arrived = (bytes: number, chunk: Uint8Array): void => {
      counted(bytes)
      this.#watcher?.(chunk)
    }
    const stop = copy(message, first.into, arrived, (complete) => {
      this.#settle(complete)
      first.done(complete)
    })
    return () => {
      stop()
      first.stop()
    }
  }

  #want(): void {
    if (this.#wanted) return
    this.#wanted = true
    this.#owner.wanted()
  }

  #settle(complete: boolean): void {
    if (this.#settled) return
    this.#settled = true
    this.#owner.settled(complete)
  }
}

/** Destination of a message's body after its head is complete. */
export interface MessageSink {
  readonly stream: Writable
  /** Ends the message after `last`; `trailers` follow if its framing allows them. */
  finish(trailers: HeaderList | undefined, last?: Uint8Array): void
  /** Called for body bytes that were written to `stream`. */
  readonly carried?: (bytes: number) => void
}

/** Adapts a message of node:http, which is a writable stream in all but its type. */
export function httpSink(message: OutgoingMessage): MessageSink {
  return {
    stream: message as unknown as Writable,
    finish(trailers, last) {
      if (trailers !== undefined && trailers.length > 0) {
        // The first byte determines the framing, and whether trailers are possible.
        if (last !== undefined && last.length > 0) message.write(last)
        if (message.chunkedEncoding) message.addTrailers(pairs(trailers))
        message.end()
      } else if (last !== undefined && last.length > 0) message.end(last)
      else message.end()
    }
  }
}

/** Returns all bytes of a queue, which stay in it. */
function peekAll(queue: ByteQueue): Uint8Array {
  const all = queue.takeAll()
  queue.push(all)
  return all
}
