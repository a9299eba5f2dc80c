import { Duplex } from 'node:stream'
import { lostBytesOf } from '../broken-writes.js'
import type { Wire, WireOwner } from './wire.js'

/** A wire that has left HTTP, as a stream: for upgrades and for joining pipes. */
export class WireDuplex extends Duplex implements WireOwner {
  readonly #wire: Wire
  readonly #onClosed: () => void
  #ended = false
  #waiting: ((error?: Error | null) => void) | undefined = undefined
  /** Bytes since it is a stream. */
  bytesRead = 0
  bytesWritten = 0

  /** See `lostBytesOf`. */
  get lostBytes(): number {
    return lostBytesOf(this.#wire.stream)
  }

  /** Takes over `wire`. `onClosed` runs when the wire has closed. */
  constructor(wire: Wire, onClosed: () => void) {
    super({ allowHalfOpen: true })
    this.#wire = wire
    this.#onClosed = onClosed
    wire.owner = this
    // Without a reader nothing is read from the socket.
    wire.pause()
    if (wire.stream.destroyed) process.nextTick(() => this.wireClosed())
    else if (wire.stream.readableEnded) this.wireEnded()
  }

  /** Its socket. */
  get carrier(): Duplex {
    return this.#wire.stream
  }

  override _read(): void {
    this.#wire.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.bytesWritten += chunk.length
    this.#wire.writeBytes(chunk)
    if (this.#wire.congested && !this.#wire.stream.destroyed) this.#waiting = done
    else done()
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#wire.end()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // After both ends the wire closes by itself; before, the other side must not take it for a clean end.
    if (!this.#ended || !this.writableFinished) this.#wire.cut()
    done(error)
  }

  received(chunk: Buffer, length: number): void {
    this.bytesRead += length
    if (!this.push(this.#wire.keep(chunk, 0, length))) this.#wire.pause()
  }

  drained(): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    waiting?.()
  }

  wireEnded(): void {
    if (this.#ended) return
    this.#ended = true
    this.push(null)
  }

  wireClosed(): void {
    // What was read before a clean end is still to be taken.
    if (this.#ended && !this.readableEnded) this.once('end', () => this.destroy())
    else this.destroy()
    this.#onClosed()
  }
}
