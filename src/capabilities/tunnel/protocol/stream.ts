import { Duplex } from 'node:stream'
import { ByteQueue, compact } from '../../../lib/byte-queue.js'
import { ignore } from '../../../transport/pipes.js'
import {
  dataFrame,
  dataHeader,
  Flag,
  HEADER_BYTES,
  MuxCode,
  resetFrame,
  WINDOW,
  windowIncrementFrame
} from './frame.js'
import { refusalCodes, StreamError } from './stream-errors.js'

/** A stream's view of its session. */
export interface Carrier {
  /** More data is queued than the connection accepts; writers of DATA register with `wait`. */
  readonly congested: boolean
  /** An abort begins with an end: the other side needs it. */
  readonly endsBeforeReset: boolean
  send(frame: Uint8Array, sent?: (error?: Error | null) => void): void
  wait(stream: MuxStream): void
  /** Both directions are over on the wire. */
  forget(stream: MuxStream): void
}

/** Called when the peer reports that it never read this stream. Returns true if another carrier has taken it over. */
export type Refused = (stream: MuxStream, why: 'reset' | 'ended') => boolean

type Done = (error?: Error | null) => void

/** Longest body of a DATA frame that we send: long enough for speed, short enough to take turns. */
const MOST_DATA = 65_536
/** Shorter pieces are copied behind their header, which is cheaper than two writes. */
const COPIED = 4096
/** Credit is given back in steps of this size. */
const CREDIT_STEP = 32_768
/** Bytes of written data above which the writer must wait. */
const HIGH_WATER = 65_536
/** More than this is not sent a second time. */
const MOST_KEPT = 16_384

/**
 * One stream of a session as a Duplex: windows are its back-pressure, `end` is a half-close, `destroy` before both
 * directions have ended is an abort that the peer can distinguish from an end.
 */
export class MuxStream extends Duplex {
  id: number
  /** Called when the peer rejects the stream before it has sent any byte. */
  refused: Refused | undefined = undefined
  #carrier: Carrier
  #sendWindow = WINDOW
  #received = 0
  #credited = 0
  /** Total credit that the peer has given. */
  #granted = 0
  /** Received data that was not read yet. */
  readonly #incoming = new ByteQueue()
  /** True if the reader waits for data. */
  #wanted = false
  #pending: Buffer[] = []
  #pendingBytes = 0
  #done: Done | undefined = undefined
  #localEnded = false
  #remoteEnded = false
  #wireOver = false
  /** Bytes of the write in progress, and of those before it. */
  #writing = 0
  #left = 0
  /** A part of the write in progress was not copied. */
  #lent = false
  /** Sent data, while `refused` may still need it again. */
  readonly #kept = new ByteQueue()

  constructor(id: number, carrier: Carrier) {
    // Unread data waits in an own queue, not in the Readable, which counts only the bytes of one piece.
    super({ allowHalfOpen: true, readableHighWaterMark: 0, writableHighWaterMark: HIGH_WATER })
    this.id = id
    this.#carrier = carrier
    // A break is heard as 'close'; without a listener an 'error' would end the process.
    this.on('error', ignore)
  }

  /** Bytes that the peer may still send. */
  get receiveWindow(): number {
    return WINDOW - (this.#received - this.#credited)
  }

  /** Bytes that came. */
  get received(): number {
    return this.#received
  }

  /** Bytes that came and wait for the reader. */
  get unread(): number {
    return this.readableLength + this.#incoming.length
  }

  /** Bytes of ours that the peer says it has read. */
  get granted(): number {
    return this.#granted
  }

  /** Has the peer ended its direction? */
  get remoteEnded(): boolean {
    return this.#remoteEnded
  }

  /** Has the peer reported that it never read the stream? */
  get turnedAway(): boolean {
    const { errored } = this
    return errored instanceof StreamError && this.#received === 0 && refusalCodes.has(errored.reset)
  }

  /** Opens the stream on the wire with its first bytes, in one frame. */
  begin(first: Uint8Array): void {
    this.#sendWindow -= first.length
    this.#carrier.send(dataFrame(this.id, Flag.syn, first))
  }

  /**
   * Moves to stream `id` of another session, starting with `first`, as if no data had been sent before. Only allowed before any data was received.
   * Emits 'moved'.
   */
  moveTo(carrier: Carrier, id: number, first: Uint8Array): void {
    if (!this.#localEnded) this.#carrier.send(dataFrame(this.id, Flag.fin))
    this.#carrier.forget(this)
    this.emit('moved')
    const ended = this.#localEnded
    const kept = this.#kept.takeAll()
    this.#carrier = carrier
    this.id = id
    this.#sendWindow = WINDOW
    this.#granted = 0
    this.#localEnded = this.#wireOver = false
    this.begin(first)
    if (this.refused !== undefined) this.#kept.push(kept)
    this.#sendWindow -= kept.length
    if (kept.length > 0) carrier.send(dataFrame(id, 0, kept))
    if (ended) this.#sendEnd()
    else this.pump()
  }

  /** Notifies the peer that no data of the stream was used, so that its bytes may go elsewhere. */
  refuse(): void {
    if (this.#wireOver) return
    this.#carrier.send(resetFrame(this.id, MuxCode.refused))
    this.#breakOff(new StreamError('TUNNEL_STREAM_RESET', 'the stream was refused'))
  }

  // --- calls from the session ---

  receive(bytes: Buffer): void {
    this.#received += bytes.length
    if (this.refused !== undefined) this.#stopKeeping()
    if (this.destroyed) return
    if (this.#wanted && this.#incoming.length === 0) {
      this.#wanted = false
      this.push(this.readableFlowing === true ? bytes : compact(bytes))
    } else this.#incoming.push(bytes)
    this.#credit()
  }

  receiveEnd(): void {
    if (this.#remoteEnded) return
    if (this.#received === 0 && this.refused?.(this, 'ended') === true) return
    this.#remoteEnded = true
    if (!this.destroyed && this.#incoming.length === 0) this.push(null)
    this.#settle()
  }

  receiveReset(code: number): void {
    if (this.#received === 0 && refusalCodes.has(code) && this.refused?.(this, 'reset') === true) return
    this.#breakOff(new StreamError('TUNNEL_STREAM_RESET', `the peer reset the stream with code ${code}`, code))
  }

  receiveCredit(bytes: number): void {
    this.#granted += bytes
    this.#sendWindow = Math.min(WINDOW, this.#sendWindow + bytes)
    this.pump()
  }

  /** Aborts the stream after the end of the session, or a violation by the peer; no more data may be sent. */
  breakOff(error: StreamError): void {
    this.#breakOff(error)
  }

  /** Sends as much as the window and the session allow. */
  pump(): void {
    while (this.#pendingBytes > 0 && this.#sendWindow > 0 && !this.#wireOver) {
      if (this.#carrier.congested) {
        this.#carrier.wait(this)
        return
      }
      this.#sendPiece()
    }
  }

  /** Sends one piece on its turn; true when it wants another. */
  turn(): boolean {
    if (this.#pendingBytes > 0 && this.#sendWindow > 0 && !this.#wireOver) this.#sendPiece()
    return this.#pendingBytes > 0 && this.#sendWindow > 0 && !this.#wireOver
  }

  // --- Duplex ---

  override _read(): void {
    this.#credit()
    const piece = this.#incoming.shift()
    this.#wanted = piece === undefined
    if (piece !== undefined) this.push(piece)
    if (this.#remoteEnded && this.#incoming.length === 0 && !this.destroyed) this.push(null)
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#pending.push(chunk)
    this.#pendingBytes += chunk.length
    this.#writing = chunk.length
    this.#accept(done)
  }

  override _writev(chunks: { chunk: Buffer }[], done: Done): void {
    const joined = new ByteQueue()
    for (const { chunk } of chunks) joined.push(chunk)
    this.#pendingBytes += joined.length
    this.#pending.push(...joined.takePieces())
    this.#writing = this.#pendingBytes
    this.#accept(done)
  }

  override _final(done: Done): void {
    this.#sendEnd()
    done()
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#incoming.clear()
    this.#pending = []
    this.#pendingBytes = 0
    if (!this.#wireOver) {
      // A reset alone leaves a reader of some agents waiting for ever; after it an end would be ignored.
      if (!this.#localEnded && this.#carrier.endsBeforeReset) this.#carrier.send(dataFrame(this.id, Flag.fin))
      // An agent that has sent its end accepts no reset: it could overtake the reader, and the agent resets later data itself.
      const cut = !this.#localEnded || (!this.#remoteEnded && this.#carrier.endsBeforeReset)
      if (cut) this.#carrier.send(resetFrame(this.id, MuxCode.cancelled))
      this.#wireOver = true
      this.#carrier.forget(this)
    }
    const waiting = this.#done
    this.#done = undefined
    waiting?.(error ?? new StreamError('TUNNEL_STREAM_RESET', 'the stream was given up'))
    done(error)
  }

  // --- socket methods that HTTP calls; they have no effect on a stream ---

  get bytesRead(): number {
    return this.#received
  }

  /** Those that wait to leave among them. */
  get bytesWritten(): number {
    return this.#left + this.writableLength
  }

  destroySoon(): void {
    this.end()
    if (this.writableFinished) this.#leave()
    else this.once('finish', () => this.#leave())
  }

  setKeepAlive(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  setTimeout(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  /** Stops reading. */
  #leave(): void {
    if (this.#remoteEnded) this.destroy()
    else this.resume()
  }

  #accept(done: Done): void {
    this.#done = done
    if (this.#pendingBytes === 0) this.#finishWrite()
    else this.pump()
  }

  #finishWrite(error?: Error | null): void {
    const done = this.#done
    this.#done = undefined
    this.#left += this.#writing
    this.#writing = 0
    this.#lent = false
    done?.(error)
  }

  #sendPiece(): void {
    const chunk = this.#pending[0] as Buffer
    const length = Math.min(chunk.length, this.#sendWindow, MOST_DATA)
    const piece = length === chunk.length ? chunk : chunk.subarray(0, length)
    if (length === chunk.length) this.#pending.shift()
    else this.#pending[0] = chunk.subarray(length)
    this.#sendWindow -= length
    this.#pendingBytes -= length
    const last = this.#pendingBytes === 0
    if (length <= COPIED) {
      const frame = dataFrame(this.id, 0, piece)
      if (this.refused !== undefined) this.#keep(frame.subarray(HEADER_BYTES))
      if (last && !this.#lent) {
        this.#carrier.send(frame)
        this.#finishWrite()
      } else this.#carrier.send(frame, last ? (error) => this.#finishWrite(error) : undefined)
      return
    }
    this.#stopKeeping()
    this.#lent = true
    this.#carrier.send(dataHeader(this.id, 0, length))
    // The writer may reuse its buffer after the end is reported, so that has to wait until the bytes have left.
    this.#carrier.send(piece, last ? (error) => this.#finishWrite(error) : undefined)
  }

  #keep(piece: Buffer): void {
    if (this.#kept.length + piece.length > MOST_KEPT) this.#stopKeeping()
    else this.#kept.push(piece)
  }

  #stopKeeping(): void {
    this.refused = undefined
    this.#kept.clear()
  }

  #sendEnd(): void {
    if (this.#localEnded) return
    this.#localEnded = true
    if (!this.#wireOver) this.#carrier.send(dataFrame(this.id, Flag.fin))
    this.#settle()
  }

  /** Returns credit for data that the reader has consumed. */
  #credit(): void {
    if (this.#remoteEnded || this.#wireOver) return
    const taken = this.#received - this.#credited - this.unread
    if (taken < CREDIT_STEP) return
    this.#credited += taken
    this.#carrier.send(windowIncrementFrame(this.id, taken))
  }

  #settle(): void {
    if (!this.#localEnded || !this.#remoteEnded || this.#wireOver) return
    this.#wireOver = true
    this.#carrier.forget(this)
  }

  #breakOff(error: StreamError): void {
    if (!this.#wireOver) {
      this.#wireOver = true
      this.#carrier.forget(this)
    }
    // Both ends were received: the reader may still consume the data.
    if (this.#remoteEnded && this.#localEnded) return
    this.destroy(error)
  }
}
