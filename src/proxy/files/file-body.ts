import { type Duplex, Readable } from 'node:stream'
import type { Body, BodyStart, Framing } from '../../flow/exchange.js'
import { BodyBroken } from '../../transport/message-body.js'
import type { OpenFile } from './open-files.js'

const OPEN: Framing = { kind: 'open' }
const NOTHING = new Uint8Array(0)
/** Bytes between checks that a long file is unchanged. */
const CHECKED_EVERY = 8 * 1024 * 1024

/** Range of an open file. */
export interface FilePart {
  readonly file: OpenFile
  readonly from: number
  readonly to: number
  /** Returns the size of a read (bytes). */
  slab(): number
}

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

  #source(): Readable {
    const carried = (chunk: Uint8Array) => {
      this.#bytes += chunk.length
      this.#watcher?.(chunk)
    }
    if (this.#whole !== undefined) {
      carried(this.#whole)
      return Readable.from(this.#whole.length === 0 ? [] : [this.#whole])
    }
    return this.#part === undefined ? Readable.from([]) : new FileStream(this.#part, carried)
  }
}

/**
 * Reads a range of a file, one slab ahead of the client. The last bytes are sent only if the file is unchanged; otherwise the message is
 * aborted, so that no client receives mixed content.
 */
class FileStream extends Readable {
  readonly #part: FilePart
  readonly #carried: (chunk: Uint8Array) => void
  #at: number
  #unchecked = 0
  #busy = false

  constructor(part: FilePart, carried: (chunk: Uint8Array) => void) {
    super({ highWaterMark: 1 })
    this.#part = part
    this.#carried = carried
    this.#at = part.from
  }

  override _read(): void {
    const { file, to, slab } = this.#part
    const size = Math.min(slab(), to - this.#at)
    if (size === 0) {
      this.push(null)
      return
    }
    this.#busy = true
    const bytes = Buffer.allocUnsafeSlow(size)
    file.read(bytes, this.#at, (error, read) => {
      if (error !== null || read === 0) this.#gives(undefined)
      else this.#check(read === size ? bytes : bytes.subarray(0, read))
    })
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // A descriptor closed during a read may be reused for another file.
    if (!this.#busy) this.#part.file.release()
    done(error)
  }

  #check(bytes: Buffer): void {
    this.#at += bytes.length
    this.#unchecked += bytes.length
    if (this.#at < this.#part.to && this.#unchecked < CHECKED_EVERY) this.#gives(bytes)
    else {
      this.#unchecked = 0
      this.#part.file.check((same) => this.#gives(same ? bytes : undefined))
    }
  }

  #gives(bytes: Buffer | undefined): void {
    this.#busy = false
    if (this.destroyed) this.#part.file.release()
    else if (bytes === undefined) this.destroy(new BodyBroken('upstream-gone'))
    else {
      this.#carried(bytes)
      this.push(bytes)
      if (this.#at === this.#part.to) this.push(null)
    }
  }
}
