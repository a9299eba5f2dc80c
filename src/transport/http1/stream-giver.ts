import type { Readable } from 'node:stream'
import type { Body, Failure } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { ignore } from '../copy.js'
import { BodyBroken } from '../message-body.js'
import type { BodySink } from './codec-body.js'

/** Feeds a sink from a stream: one that policies made, or a body of another engine. */
export class StreamGiver {
  readonly #stream: Readable
  readonly #body: Body | undefined
  readonly #sink: BodySink
  #why: Failure = 'upstream-gone'

  /** `body`: whose trailers end the message, when `stream` was claimed from it. */
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
    // An error without a listener would end the process; the report is made once.
    stream.on('error', ignore)
  }
}

const NO_FIELDS: HeaderList = []
