import { type Duplex, Readable } from 'node:stream'
import type { Body, BodyStart, Failure, Framing } from '../../src/flow/exchange.js'
import type { HeaderList } from '../../src/flow/headers.js'

export interface ScriptedBodyOptions {
  readonly framing?: Framing
  /** The message breaks behind the chunks. */
  readonly failure?: Failure
  readonly trailers?: HeaderList
}

/** A body as an engine gives it, from chunks that a test has. */
export class ScriptedBody implements Body {
  readonly framing: Framing
  readonly failure: Failure = 'upstream-gone'
  readonly #chunks: readonly (string | Uint8Array)[]
  readonly #options: ScriptedBodyOptions
  readonly #transforms: (() => Duplex)[] = []
  bytes = 0
  claimed = 0
  #reader: Readable | undefined
  #discarded = false
  #watcher: ((chunk: Uint8Array) => void) | undefined
  trailers: HeaderList | undefined

  constructor(chunks: readonly (string | Uint8Array)[], options: ScriptedBodyOptions = {}) {
    this.#chunks = chunks
    this.#options = options
    this.framing = options.framing ?? { kind: 'open' }
    if (options.failure !== undefined) this.failure = options.failure
  }

  /** The reader gave up before the end. */
  get abandoned(): boolean {
    return this.#discarded || (this.#reader?.destroyed === true && !this.#reader.readableEnded)
  }

  get taken(): boolean {
    return this.claimed > 0 || this.#discarded
  }

  watch(listener: (chunk: Uint8Array) => void): void {
    this.#watcher = listener
  }

  claim(): Readable {
    this.claimed++
    const source = Readable.from(this.#give())
    let last: Readable = source
    for (const make of this.#transforms) {
      const next = make()
      last.on('error', (error) => next.destroy(error))
      last = last.pipe(next)
    }
    this.#reader = last
    return last
  }

  async *#give(): AsyncGenerator<Uint8Array> {
    for (const chunk of this.#chunks) {
      const bytes = Buffer.from(chunk)
      this.bytes += bytes.length
      this.#watcher?.(bytes)
      yield bytes
    }
    if (this.#options.failure !== undefined) throw new Error('broken')
    this.trailers = this.#options.trailers ?? []
  }

  buffer(): Promise<Uint8Array | 'too-large'> {
    throw new TypeError('not part of the script')
  }

  peek(limit: number): Promise<BodyStart> {
    if (this.#options.failure !== undefined) return Promise.reject(new Error('broken'))
    const all = Buffer.concat(this.#chunks.map((chunk) => Buffer.from(chunk)))
    return Promise.resolve({ bytes: all.subarray(0, limit), complete: all.length <= limit })
  }

  through(transform: () => Duplex): void {
    this.#transforms.push(transform)
  }

  discard(): void {
    this.#discarded = true
  }
}
