import { type Duplex, Readable } from 'node:stream'
import type { Body, BodyStart, Framing, PieceSink, PieceSource } from '../../flow/exchange.js'
import { BodyBroken } from '../../transport/message-body.js'
import { type FilePart, FileReads, FileStream } from './file-reads.js'

const OPEN: Framing = { kind: 'open' }
const NOTHING = new Uint8Array(0)

/** Response content from a file: bytes in memory, a range of an open file, or only a length for HEAD and 304. */
export class FileBody implements Body {
  readonly #framing: Framing
  readonly #part: FilePart | undefined
  readonly #transforms: (() => Duplex)[] = []
  readonly failure = 'upstream-gone'
  readonly trailers = undefined
  #whole: Uint8Array | undefined
  #bytes = 0
  #taken = false
  #watcher: ((chunk: Uint8Array) => void) | undefined = undefined

  constructor(framing: Framing, content: { readonly whole?: Uint8Array; readonly part?: FilePart } = {}) {
    this.#framing = framing
    this.#whole = content.whole
    this.#part = content.part
  }

  get framing(): Framing {
    return this.#transforms.length === 0 || this.#framing.kind === 'none' ? this.#framing : OPEN
  }

  get whole(): Uint8Array | undefined {
    return this.#transforms.length === 0 ? this.#whole : undefined
  }

  get bytes(): number {
    return this.#bytes
  }

  get taken(): boolean {
    return this.#taken
  }

  claim(): Readable {
    this.#taken = true
    let stream: Readable = this.#source()
    for (const transform of this.#transforms) {
      const source = stream
      const next = transform()
      source.once('error', (error) => next.destroy(error))
      next.once('close', () => source.destroy())
      stream = source.pipe(next)
    }
    return stream
  }

  feed(sink: PieceSink): PieceSource | undefined {
    const part = this.#part
    if (part === undefined || this.#whole !== undefined || this.#transforms.length > 0) return undefined
    this.#taken = true
    const reads = new FileReads(part, this.#carried, sink)
    reads.resume()
    return reads
  }

  async buffer(limit: number): Promise<Uint8Array | 'too-large'> {
    if (this.#whole === undefined) {
      const { kind } = this.#framing
      if (kind === 'length' && this.#framing.bytes > limit) return 'too-large'
      const chunks: Uint8Array[] = []
      for await (const chunk of this.#source()) chunks.push(chunk as Uint8Array)
      this.#whole = Buffer.concat(chunks)
    }
    return this.#whole.length > limit ? 'too-large' : this.#whole
  }

  peek(limit: number): Promise<BodyStart> {
    const part = this.#part
    const whole = this.#whole ?? (part === undefined ? NOTHING : undefined)
    if (whole !== undefined)
      return Promise.resolve({ bytes: whole.subarray(0, limit), complete: whole.length <= limit })
    const { file, from, to } = part as FilePart
    const bytes = Buffer.alloc(Math.min(limit, to - from))
    return new Promise((resolve, reject) => {
      file.read(bytes, from, (error, read) => {
        if (error !== null || read < bytes.length) reject(new BodyBroken('upstream-gone'))
        else resolve({ bytes, complete: to - from <= limit })
      })
    })
  }

  through(transform: () => Duplex): void {
    this.#transforms.push(transform)
  }

  watch(listener: (chunk: Uint8Array) => void): void {
    this.#watcher = listener
  }

  discard(): void {
    if (this.#taken) return
    this.#taken = true
    if (this.#whole === undefined) this.#part?.file.release()
  }

  readonly #carried = (chunk: Uint8Array): void => {
    this.#bytes += chunk.length
    this.#watcher?.(chunk)
  }

  #source(): Readable {
    if (this.#whole !== undefined) {
      this.#carried(this.#whole)
      return Readable.from(this.#whole.length === 0 ? [] : [this.#whole])
    }
    return this.#part === undefined ? Readable.from([]) : new FileStream(this.#part, this.#carried)
  }
}
