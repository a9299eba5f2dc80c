import { Readable } from 'node:stream'
import type { Failure, PieceLender, PieceSink, PieceSource } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { LentBuffer } from '../../transport/lent-buffer.js'
import { BodyBroken } from '../../transport/message-body.js'
import type { OpenFile } from './open-files.js'

const NO_FIELDS: HeaderList = []
/** Bytes between checks that a long file is unchanged. */
const CHECKED_EVERY = 8 * 1024 * 1024
/** Buffers of a reader: one is sent while the other one is filled. */
const BUFFERS = 2

/** Range of an open file. */
export interface FilePart {
  readonly file: OpenFile
  readonly from: number
  readonly to: number
  /** Returns the size of a read (bytes). */
  slab(): number
}

/**
 * Reads a range of a file into two buffers in turn, one slab ahead of the sink, and starts with `resume`. The last bytes are sent only if the
 * file is unchanged; otherwise the message is aborted, so that no client receives mixed content.
 */
export class FileReads implements PieceSource, PieceLender {
  readonly #part: FilePart
  readonly #carried: (chunk: Uint8Array) => void
  readonly #sink: PieceSink
  readonly #spare: LentBuffer[] = []
  /** Buffers that are being filled, hold a piece, or are lent. */
  #used = 0
  #at: number
  #unchecked = 0
  /** Buffer that is being filled, or holds `#ready`. */
  #buffer: LentBuffer | undefined
  #ready: Buffer | undefined
  /** Buffer of the piece at hand. */
  #given: LentBuffer | undefined
  #kept = false
  #busy = false
  #paused = true
  #over = false

  constructor(part: FilePart, carried: (chunk: Uint8Array) => void, sink: PieceSink) {
    this.#part = part
    this.#carried = carried
    this.#sink = sink
    this.#at = part.from
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#give()
    this.#read()
  }

  stop(): void {
    if (this.#over) return
    this.#over = true
    // A descriptor closed during a read may be reused for another file.
    if (!this.#busy) this.#part.file.release()
  }

  keep(piece: Buffer, from: number, to: number): Buffer {
    this.#kept = true
    return piece.subarray(from, to)
  }

  lend(): (() => void) | undefined {
    return this.#given?.lend()
  }

  #read(): void {
    const { file, to, slab } = this.#part
    if (this.#busy || this.#over || this.#ready !== undefined || this.#at === to || this.#used === BUFFERS) return
    const most = slab()
    const size = Math.min(most, to - this.#at)
    const spare = this.#spare.pop()
    // With more readers slabs get smaller.
    const fits = spare !== undefined && spare.bytes.length >= size && spare.bytes.length <= most
    const buffer = fits ? spare : new LentBuffer(Buffer.allocUnsafeSlow(size), this.#onFree)
    buffer.renew()
    const bytes = buffer.bytes.length === size ? buffer.bytes : buffer.bytes.subarray(0, size)
    this.#buffer = buffer
    this.#used++
    this.#busy = true
    file.read(bytes, this.#at, (error, read) => {
      if (error !== null || read === 0) this.#arrived(undefined)
      else this.#check(read === size ? bytes : bytes.subarray(0, read))
    })
  }

  #check(bytes: Buffer): void {
    this.#at += bytes.length
    this.#unchecked += bytes.length
    if (this.#at < this.#part.to && this.#unchecked < CHECKED_EVERY) this.#arrived(bytes)
    else {
      this.#unchecked = 0
      this.#part.file.check((same) => this.#arrived(same ? bytes : undefined))
    }
  }

  #arrived(bytes: Buffer | undefined): void {
    this.#busy = false
    if (this.#over) this.#part.file.release()
    else if (bytes === undefined) {
      this.stop()
      this.#sink.broke('upstream-gone')
    } else {
      this.#ready = bytes
      this.#give()
    }
  }

  #give(): void {
    const bytes = this.#ready
    if (bytes === undefined || this.#paused || this.#over) return
    const buffer = this.#buffer as LentBuffer
    this.#ready = undefined
    this.#buffer = undefined
    this.#given = buffer
    this.#kept = false
    this.#carried(bytes)
    this.#sink.chunk(bytes, 0, bytes.length, this)
    this.#given = undefined
    if (this.#kept) this.#used--
    else buffer.leave()
    if (this.#over) return
    if (this.#at === this.#part.to) {
      this.stop()
      this.#sink.end(NO_FIELDS)
      return
    }
    this.#sink.flush()
    this.#read()
  }

  readonly #onFree = (buffer: LentBuffer): void => {
    this.#used--
    this.#spare.push(buffer)
    this.#read()
  }
}

/** A range of a file as a stream. */
export class FileStream extends Readable implements PieceSink {
  readonly #reads: FileReads

  constructor(part: FilePart, carried: (chunk: Uint8Array) => void) {
    super({ highWaterMark: 1 })
    this.#reads = new FileReads(part, carried, this)
  }

  override _read(): void {
    this.#reads.resume()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#reads.stop()
    done(error)
  }

  chunk(bytes: Buffer, from: number, to: number, lender: PieceLender): void {
    // A piece follows for each request alone.
    this.#reads.pause()
    this.push(lender.keep(bytes, from, to))
  }

  flush(): void {
    // Each piece was passed on at once.
  }

  end(): void {
    this.push(null)
  }

  broke(why: Failure): void {
    this.destroy(new BodyBroken(why))
  }
}
