import { Readable } from 'node:stream'
import type { Body, Failure, Outgoing, PieceLender, PieceSource } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { BodyBroken } from '../message-body.js'
import { ignore } from '../pipes.js'
import { CodecBody } from './body.js'
import { type BodySink, SMALL } from './held-bytes.js'
import type { Serialiser } from './serialise.js'
import { textOf, type Wire } from './wire.js'

/** Feeds a sink from a stream: of a policy, or a body of another engine. */
class StreamGiver implements PieceSource {
  readonly #stream: Readable
  readonly #body: Body | undefined
  readonly #sink: BodySink
  #why: Failure = 'upstream-gone'

  /** `body`: source of `stream`, if claimed, whose trailers end the message. */
  constructor(stream: Readable, body: Body | undefined, sink: BodySink) {
    this.#stream = stream
    this.#body = body
    this.#sink = sink
    stream.on('data', this.#onData)
    stream.on('end', this.#onEnd)
    stream.on('close', this.#onBreak)
    stream.on('error', this.#onError)
    if (stream.destroyed && !stream.readableEnded) process.nextTick(this.#onBreak)
  }

  pause(): void {
    this.#stream.pause()
  }

  resume(): void {
    this.#stream.resume()
  }

  stop(): void {
    this.#detach()
    this.#stream.destroy()
  }

  readonly #onData = (chunk: Uint8Array | string): void => {
    const bytes =
      typeof chunk === 'string' ? Buffer.from(chunk) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    this.#sink.chunk(bytes, 0, bytes.length, undefined)
    this.#sink.flush()
  }

  readonly #onEnd = (): void => {
    this.#detach()
    this.#sink.end(this.#body?.trailers ?? NO_FIELDS)
  }

  readonly #onError = (error: Error): void => {
    if (error instanceof BodyBroken) this.#why = error.failure
    this.#onBreak()
  }

  readonly #onBreak = (): void => {
    this.#detach()
    this.#sink.broke(this.#why)
  }

  #detach(): void {
    const stream = this.#stream
    stream.removeListener('data', this.#onData)
    stream.removeListener('end', this.#onEnd)
    stream.removeListener('close', this.#onBreak)
    stream.removeListener('error', this.#onError)
    // An error without a listener would crash the process; it is reported once.
    stream.on('error', ignore)
  }
}

/** Starts to feed `sink` from a stream or a body of another engine. */
export function feedSink(body: Readable | Body, sink: BodySink): PieceSource {
  if (body instanceof Readable) return new StreamGiver(body, undefined, sink)
  return body.feed?.(sink) ?? new StreamGiver(body.claim(), body, sink)
}

const NO_FIELDS: HeaderList = []

/** Framing that determines the end of the written body. */
export type WrittenEnd = 'none' | 'length' | 'chunked' | 'close'

interface WriterOwner {
  /** The message has been sent completely, or its body failed (`why`) and it was not ended. */
  written(why: Failure | undefined): void
}

/** Text collected before it is written (characters); node sends up to 16 KiB of text without an allocation. */
const TEXT_LIMIT = 8192

/** Writes messages to a wire, one after another: head, body and end in as few writes as possible, with back-pressure. */
export class MessageWriter implements BodySink {
  readonly #wire: Wire
  readonly #owner: WriterOwner
  readonly #serialiser: Serialiser
  #text = ''
  #end: WrittenEnd = 'none'
  #left = 0
  #giver: PieceSource | undefined = undefined
  #trailers: (() => HeaderList) | undefined = undefined
  #state: 'idle' | 'writing' | 'leaving' = 'idle'
  /** Bytes since the count was last set. */
  carried = 0

  constructor(wire: Wire, owner: WriterOwner, serialiser: Serialiser) {
    this.#wire = wire
    this.#owner = owner
    this.#serialiser = serialiser
  }

  /** True while the wire still holds a part of the complete message. */
  get leaving(): boolean {
    return this.#state === 'leaving'
  }

  /** Writes text outside a body: an interim response, or a head whose body follows later. */
  send(text: string): void {
    this.carried += text.length
    this.#wire.write(text)
  }

  /**
   * Writes a message. `head` is complete text, or '' if already sent; `length` applies to `'length'` only. `trailers` replace those that
   * arrive with the body.
   */
  start(head: string, body: Outgoing, end: WrittenEnd, length: number, trailers?: () => HeaderList): void {
    this.#state = 'writing'
    this.#text = head
    this.#end = end
    this.#left = length
    this.#trailers = trailers
    if (body === undefined || end === 'none') this.end(NO_FIELDS)
    else if (body instanceof CodecBody && !body.transformed) {
      this.#giver = body
      body.sendTo(this)
      this.flush()
    } else if (body instanceof Uint8Array) {
      this.chunk(Buffer.from(body.buffer, body.byteOffset, body.byteLength), 0, body.length, undefined)
      this.end(NO_FIELDS)
    } else {
      this.#giver = feedSink(body, this)
      this.flush()
    }
  }

  /** Stops within a message and releases its source. */
  abort(): void {
    const giver = this.#giver
    this.#giver = undefined
    this.#state = 'idle'
    this.#text = ''
    giver?.stop()
  }

  /** The wire accepts bytes again. */
  drained(): void {
    if (this.#state === 'writing') this.#giver?.resume()
  }

  text(data: string): void {
    if (!this.#takes(data.length)) return
    if (this.#end === 'chunked') this.#text += `${data.length.toString(16)}\r\n${data}\r\n`
    else this.#text += data
    if (this.#text.length > TEXT_LIMIT) this.#write()
  }

  chunk(bytes: Buffer, from: number, to: number, lender: PieceLender | undefined): void {
    const size = to - from
    if (size <= SMALL) {
      if (size > 0) this.text(textOf(bytes, from, to))
      return
    }
    if (!this.#takes(size)) return
    if (this.#end === 'chunked') this.#text += `${size.toString(16)}\r\n`
    const before = this.#text
    this.#text = ''
    this.carried += before.length + size
    this.#wire.forward(lender, bytes, from, to, before)
    if (this.#end === 'chunked') this.#text = '\r\n'
  }

  flush(): void {
    if (this.#text !== '') this.#write()
    if (this.#state === 'writing' && this.#wire.congested) this.#giver?.pause()
  }

  end(fields: HeaderList): void {
    if (this.#state !== 'writing') return
    this.#giver = undefined
    if (this.#end === 'length' && this.#left > 0) {
      this.broke('upstream-gone')
      return
    }
    if (this.#end === 'chunked') {
      const list = this.#trailers === undefined ? fields : this.#trailers()
      this.#text += this.#serialiser.lastChunk(list)
    }
    if (this.#text !== '') this.#write()
    this.#state = 'leaving'
    this.#wire.flushed(this.#onLeft)
  }

  broke(why: Failure): void {
    if (this.#state !== 'writing') return
    this.#giver = undefined
    if (this.#text !== '') this.#write()
    this.#state = 'idle'
    this.#owner.written(why)
  }

  readonly #onLeft = (): void => {
    if (this.#state !== 'leaving') return
    this.#state = 'idle'
    this.#owner.written(undefined)
  }

  /** Returns false if the bytes are not part of the message. More than announced would be read as the next one. */
  #takes(size: number): boolean {
    if (this.#state !== 'writing') return false
    if (this.#end !== 'length') return true
    if (size <= this.#left) {
      this.#left -= size
      return true
    }
    const giver = this.#giver
    this.broke('upstream-malformed')
    giver?.stop()
    return false
  }

  #write(): void {
    const text = this.#text
    this.#text = ''
    this.carried += text.length
    this.#wire.write(text)
  }
}
