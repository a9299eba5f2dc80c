import { Duplex } from 'node:stream'
import { ByteQueue } from '../lib/byte-queue.js'

/** Messages between the two ends of a pipe between threads; `pipe` is its number. */
export type PipeMessage =
  | { readonly kind: 'pipe-bytes'; readonly pipe: number; readonly bytes: Uint8Array<ArrayBuffer> }
  /** The reader has consumed this number of bytes. */
  | { readonly kind: 'pipe-read'; readonly pipe: number; readonly bytes: number }
  | { readonly kind: 'pipe-end'; readonly pipe: number }
  /** The pipe is broken in both directions. `unreached`: the destination has not read a byte. */
  | { readonly kind: 'pipe-broken'; readonly pipe: number; readonly unreached: boolean }

interface ThreadPipeParts {
  readonly number: number
  /** Sends a message to the other end. */
  readonly post: (message: PipeMessage, transfer?: readonly ArrayBuffer[]) => void
  /** Called when this end breaks: returns whether nothing was read behind it. */
  readonly unreached?: () => boolean
  /** Called once, when both ends have ended here. */
  readonly over: () => void
}

type Done = (error?: Error | null) => void

/** Maximum unconfirmed bytes per direction. */
const WINDOW = 262_144
/** Buffer size of the stream (bytes). */
const HIGH_WATER = 65_536

/**
 * One end of a byte pipe between two threads, as a Duplex: unread bytes of the other end are its back-pressure, `end` is a half-close, and
 * `destroy` before both directions have ended breaks both ends.
 */
export class ThreadPipe extends Duplex {
  /** The other end is broken, and nothing behind it has read a byte. */
  unreached = false
  readonly #parts: ThreadPipeParts
  /** Bytes received but not requested, joined, because the other side chooses how small the pieces are. */
  readonly #incoming = new ByteQueue()
  #wanted = false
  #remoteEnded = false
  #localEnded = false
  #broken = false
  #underWay = 0
  #done: Done | undefined

  constructor(parts: ThreadPipeParts) {
    super({ allowHalfOpen: true, readableHighWaterMark: 0, writableHighWaterMark: HIGH_WATER })
    this.#parts = parts
    // Errors are handled on 'close'; this listener only prevents a crash.
    this.on('error', () => undefined)
  }

  /** Handles a message of the other end. */
  receive(message: PipeMessage): void {
    switch (message.kind) {
      case 'pipe-bytes':
        if (this.destroyed) return
        this.#incoming.push(message.bytes)
        if (this.#wanted && this.#incoming.length > 0) this.#give()
        return
      case 'pipe-read':
        this.#underWay -= message.bytes
        this.#accept()
        return
      case 'pipe-end':
        this.#remoteEnded = true
        if (!this.destroyed && this.#incoming.length === 0) this.push(null)
        return
      case 'pipe-broken':
        this.breakOff(message.unreached)
    }
  }

  /** Breaks this end, because the other end has closed. */
  breakOff(unreached = false): void {
    this.#broken = true
    this.unreached = unreached
    this.destroy(new Error('the pipe between threads broke'))
  }

  override _read(): void {
    this.#wanted = true
    if (this.#incoming.length > 0) this.#give()
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: Done): void {
    this.#send([chunk], chunk.length, done)
  }

  override _writev(chunks: { chunk: Uint8Array }[], done: Done): void {
    let length = 0
    for (const { chunk } of chunks) length += chunk.length
    this.#send(
      chunks.map(({ chunk }) => chunk),
      length,
      done
    )
  }

  override _final(done: Done): void {
    this.#localEnded = true
    if (!this.#broken) this.#parts.post({ kind: 'pipe-end', pipe: this.#parts.number })
    done()
  }

  override _destroy(error: Error | null, done: Done): void {
    const { number: pipe, post, unreached, over } = this.#parts
    if (!this.#broken && !(this.#localEnded && this.#remoteEnded))
      post({ kind: 'pipe-broken', pipe, unreached: unreached?.() ?? false })
    this.#broken = true
    this.#incoming.clear()
    const waiting = this.#done
    this.#done = undefined
    waiting?.(error)
    over()
    done(error)
  }

  #give(): void {
    const bytes = this.#incoming.shift() as Buffer
    this.#wanted = false
    this.#parts.post({ kind: 'pipe-read', pipe: this.#parts.number, bytes: bytes.length })
    this.push(bytes)
    if (this.#remoteEnded && this.#incoming.length === 0 && !this.destroyed) this.push(null)
  }

  /** Sent bytes are transferred with memory of their own: a piece of a larger block would transfer all of it. */
  #send(chunks: readonly Uint8Array[], length: number, done: Done): void {
    if (this.#broken) {
      done()
      return
    }
    const bytes = new Uint8Array(length)
    let at = 0
    for (const chunk of chunks) {
      bytes.set(chunk, at)
      at += chunk.length
    }
    this.#underWay += length
    this.#done = done
    this.#parts.post({ kind: 'pipe-bytes', pipe: this.#parts.number, bytes }, [bytes.buffer])
    this.#accept()
  }

  #accept(): void {
    if (this.#done === undefined || this.#underWay >= WINDOW) return
    const done = this.#done
    this.#done = undefined
    done()
  }
}
