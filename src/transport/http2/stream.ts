import { ByteQueue } from '../../lib/byte-queue.js'
import type { Wire } from '../http1/wire.js'
import { CODE } from './frames.js'
import type { HpackDecoder } from './hpack-decoder.js'
import type { HpackEncoder } from './hpack-encoder.js'
import { ReceiveWindow, type WindowGrowth } from './receive-window.js'
import { widened } from './settings.js'

/** Pending bytes from which the source should pause. */
const HIGH = 65_536
/** Pending bytes from which the source may resume. */
const LOW = 16_384

/** Cause of a premature end of a stream: a reset by the peer, a peer's mistake, this side, the connection. */
export type StreamEnd = 'peer' | 'malformed' | 'here' | 'lost'

/** User of a stream. */
export interface StreamUser {
  /** Receives content: `bytes` from `from` to `to`, valid only during the call (see `Wire.keep`). To be reported by `consumed` once read. */
  data(bytes: Buffer, from: number, to: number, wire: Wire): void
  /** Receives a further header block. Returns false if malformed. `ended`: with END_STREAM. */
  block(block: HpackDecoder, ended: boolean): boolean
  /** Called when the peer has ended its direction. */
  ended(): void
  /** Called after the last frame of our direction was written. */
  finished(): void
  /** Called after pending bytes have been sent, if `congested` was true. */
  drained(): void
  /** Called once if the stream closes before both directions have ended. */
  closed(end: StreamEnd, code: number): void
}

/** Time from a complete response to the reset of an unfinished request (ms). */
const RESET_DELAY = 200

/** Drops the rest of a request. Its bytes are not consumed, so that at most one window of them arrives. */
export const DROPS: StreamUser = {
  data: () => undefined,
  block: () => true,
  ended: () => undefined,
  finished: () => undefined,
  drained: () => undefined,
  closed: () => undefined
}

/** Services of the session for a stream. */
export interface StreamHost {
  readonly encoder: HpackEncoder
  readonly wire: Wire
  /**
   * Growth of receive windows.
   *
   * @default none
   */
  readonly growth?: WindowGrowth | undefined
  /** Sends the header block that the encoder has just completed. */
  sendBlock(id: number, block: Buffer, ended: boolean): void
  /** Called when the stream has bytes or its end to send. */
  ready(stream: Http2Stream): void
  sendReset(id: number, code: number): void
  sendWindow(id: number, increment: number): void
  /** Sends a PING whose response is ignored. */
  ping(): void
  /** Releases consumed bytes of the connection's window. */
  freed(bytes: number): void
  /** Called when the stream is closed. `end` is undefined if both directions ended. */
  gone(stream: Http2Stream, end: StreamEnd | undefined): void
}

/** One stream in either role: its state (RFC 9113 5.1), its windows, and its pending bytes. */
export class Http2Stream {
  readonly id: number
  readonly #host: StreamHost
  readonly #windowSize: number
  user: StreamUser
  /** Remaining send window; negative after a smaller SETTINGS_INITIAL_WINDOW_SIZE. */
  window: number
  /** True while the stream is in the send queue. */
  listed = false
  /** True after END_STREAM of the peer. */
  remoteEnded = false
  /** True after our END_STREAM was written. */
  localEnded = false
  closed = false
  #receive: ReceiveWindow | undefined = undefined
  /** Growth of the receive window (bytes). */
  #grown = 0
  /** Start of the current measurement for window growth (monotonic ms; -1 if none); `#pace`: bytes read since. */
  #paceSince = -1
  #pace = 0
  /** Received bytes that are not consumed. */
  #unconsumed = 0
  #came = 0
  #expected = -1
  /** Next bytes to send, as received. */
  #first: Buffer | undefined = undefined
  /** Bytes to send after `#first`, joined, because the peer chooses how small the pieces are and how long they wait. */
  #more: ByteQueue | undefined = undefined
  #waitingBytes = 0
  #ending = false
  /** Writes the trailers; undefined if there are none. */
  #trailers: ((encoder: HpackEncoder) => void) | undefined = undefined
  #congested = false

  /** `window`: initial send window; `receiveWindow`: initial receive window (bytes). */
  constructor(host: StreamHost, id: number, user: StreamUser, window: number, receiveWindow: number) {
    this.#host = host
    this.id = id
    this.user = user
    this.window = window
    this.#windowSize = receiveWindow
  }

  /** Number of pending bytes. */
  get waiting(): number {
    return this.#waitingBytes
  }

  /** True if the source should pause until `drained`. */
  get congested(): boolean {
    if (this.#waitingBytes < HIGH) return false
    this.#congested = true
    return true
  }

  /** True if the connection is congested. */
  get blocked(): boolean {
    return this.#host.wire.congested
  }

  /** True if our direction ends after the pending bytes. */
  get ending(): boolean {
    return this.#ending
  }

  /** Sets the announced content length. Content of another length makes the message malformed (RFC 9113 8.1.1). */
  expect(bytes: number): void {
    this.#expected = bytes
  }

  /** Sends a header block with the fields that `write` adds. No bytes may be pending. */
  sendHead(write: (encoder: HpackEncoder) => void, ended: boolean): void {
    if (this.closed || this.localEnded) return
    const { encoder } = this.#host
    encoder.begin()
    write(encoder)
    this.#host.sendBlock(this.id, encoder.end(), ended)
    if (ended) this.#localEnd()
  }

  /** Sends bytes, which the caller must not change afterwards. */
  send(bytes: Buffer): void {
    if (this.closed || this.#ending || bytes.length === 0) return
    if (this.#first === undefined) this.#first = bytes
    else {
      this.#more ??= new ByteQueue()
      this.#more.push(bytes)
    }
    this.#waitingBytes += bytes.length
    this.#host.ready(this)
  }

  /** Ends our direction after the pending bytes, with optional trailers. */
  end(trailers?: (encoder: HpackEncoder) => void): void {
    if (this.closed || this.#ending || this.localEnded) return
    this.#ending = true
    this.#trailers = trailers
    this.#host.ready(this)
  }

  /** Resets the stream and drops pending bytes. */
  reset(code: number, end: StreamEnd = 'here'): void {
    if (this.closed) return
    this.#host.sendReset(this.id, code)
    this.close(end, code)
  }

  /**
   * Drops the rest of the request after the complete response. The reset (RFC 9113 8.1) is delayed, because curl 7.88 and others that read it
   * together with the response report an error. If the request ends meanwhile, a PING is sent instead, because curl 7.88 notices the end of its
   * stream only when it receives something.
   */
  dropRequest(): void {
    if (this.closed || this.remoteEnded) return
    this.user = DROPS
    this.#expected = -1
    const end = (): void => {
      if (this.closed) this.#host.ping()
      else this.reset(CODE.none)
    }
    setTimeout(end, RESET_DELAY).unref()
  }

  /** Releases bytes received by `data`, so that the peer may send as many more. */
  consumed(bytes: number): void {
    if (this.closed || bytes === 0) return
    this.#unconsumed -= bytes
    this.#host.freed(bytes)
    if (this.remoteEnded) {
      if (this.#unconsumed === 0) this.#giveGrowthBack()
      return
    }
    const window = this.#receive as ReceiveWindow
    const growth = this.#growth(window, bytes)
    const freed = window.free(bytes)
    const increment = growth > 0 ? freed + window.grow(growth) : freed
    if (increment > 0) this.#host.sendWindow(this.id, increment)
  }

  /** Returns the growth of a window that limits its sender (bytes), after `read` more bytes were consumed. */
  #growth({ size }: ReceiveWindow, read: number): number {
    const { growth } = this.#host
    if (growth === undefined || this.#paceSince < 0) return 0
    this.#pace += read
    if (this.#pace < size / 2) return 0
    const bytes = growth.take(size, this.#paceSince)
    this.#grown += bytes
    this.#pace = 0
    this.#paceSince = -1
    return bytes
  }

  #giveGrowthBack(): void {
    if (this.#grown > 0) this.#host.growth?.giveBack(this.#grown)
    this.#grown = 0
  }

  // For the session only.

  /** Counts a DATA payload. Returns false if it exceeds the window. */
  receive(bytes: number): boolean {
    this.#receive ??= new ReceiveWindow(this.#windowSize)
    if (this.#paceSince < 0 && bytes > 0) this.#paceSince = this.#host.growth?.now() ?? -1
    return this.#receive.receive(bytes)
  }

  /** Passes on a part of the content of DATA. */
  take(bytes: Buffer, from: number, to: number): void {
    this.#unconsumed += to - from
    this.#came += to - from
    if (this.#expected >= 0 && this.#came > this.#expected) this.reset(CODE.protocol, 'malformed')
    else this.user.data(bytes, from, to, this.#host.wire)
  }

  /** Consumes padding. */
  skip(bytes: number): void {
    this.#unconsumed += bytes
    this.consumed(bytes)
  }

  /** Handles END_STREAM of the peer. */
  remoteEnd(): void {
    if (this.#expected >= 0 && this.#came !== this.#expected) {
      this.reset(CODE.protocol, 'malformed')
      return
    }
    this.remoteEnded = true
    if (this.#unconsumed === 0) this.#giveGrowthBack()
    this.user.ended()
    this.#closeIfDone()
  }

  /** Handles a further header block. */
  takeBlock(block: HpackDecoder, ended: boolean): void {
    if (!this.user.block(block, ended)) this.reset(CODE.protocol, 'malformed')
    else if (ended) this.remoteEnd()
  }

  /** Widens the send window. Returns false if it exceeds the maximum. */
  widen(increment: number): boolean {
    const window = widened(this.window, increment)
    if (window === undefined) return false
    const blocked = this.window <= 0
    this.window = window
    if (blocked && window > 0 && this.#waitingBytes > 0) this.#host.ready(this)
    return true
  }

  /** True if the stream could send, given a window of the connection. */
  get sendable(): boolean {
    return !this.closed && !this.localEnded && (this.#waitingBytes > 0 ? this.window > 0 : this.#ending)
  }

  /** Removes and returns the next pending bytes, at most `most`. */
  next(most: number): Buffer {
    const first = this.#first as Buffer
    let piece = first
    if (first.length > most) {
      piece = first.subarray(0, most)
      this.#first = first.subarray(most)
    } else this.#first = this.#more?.shift()
    this.#waitingBytes -= piece.length
    this.window -= piece.length
    return piece
  }

  /** True if the last piece ends the message, so that its DATA frame can carry END_STREAM. */
  get endsWithData(): boolean {
    return this.#ending && this.#waitingBytes === 0 && this.#trailers === undefined
  }

  /** Sends the trailers. Returns false if there are none. */
  sendTrailers(): boolean {
    const trailers = this.#trailers
    if (trailers === undefined) return false
    this.#trailers = undefined
    this.sendHead(trailers, true)
    return true
  }

  /** Records that END_STREAM was sent with DATA. */
  sentEnd(): void {
    this.#localEnd()
  }

  /** Calls `drained` once few enough bytes are pending. */
  relieve(): void {
    if (!this.#congested || this.#waitingBytes > LOW || this.closed) return
    this.#congested = false
    this.user.drained()
  }

  /** Closes the stream without sending a frame. */
  close(end: StreamEnd, code: number): void {
    if (this.closed) return
    this.closed = true
    this.#drop()
    this.#host.gone(this, end)
    this.user.closed(end, code)
  }

  #localEnd(): void {
    this.localEnded = true
    this.user.finished()
    this.#closeIfDone()
  }

  #closeIfDone(): void {
    if (this.closed || !this.localEnded || !this.remoteEnded) return
    this.closed = true
    this.#drop()
    this.#host.gone(this, undefined)
  }

  #drop(): void {
    this.#first = undefined
    this.#more = undefined
    this.#waitingBytes = 0
    // Unconsumed bytes must not reduce the connection's window for other streams.
    if (this.#unconsumed > 0) this.#host.freed(this.#unconsumed)
    this.#unconsumed = 0
    this.#giveGrowthBack()
  }
}

/** End of a stream, as far as it affects later frames (RFC 9113 5.1). */
export type Ending = 'reset-here' | 'reset-there' | 'ended'

/** Maximum number of remembered streams of each kind. */
const REMEMBERED = 256
/** Initial capacity of a ring, which grows fourfold when full. */
const FEW = 16
const KINDS: readonly Ending[] = ['reset-here', 'reset-there', 'ended']

/**
 * Recently closed streams of a connection. Frames on a stream that we reset may have been sent before the peer received the reset; on a stream
 * that the peer ended they are an error.
 */
export class ClosedStreams {
  /** One ring for each kind, so that kinds do not evict each other. */
  readonly #rings = new Map<Ending, { ids: Uint32Array; next: number }>()

  add(id: number, ending: Ending): void {
    let ring = this.#rings.get(ending)
    if (ring === undefined) {
      ring = { ids: new Uint32Array(FEW), next: 0 }
      this.#rings.set(ending, ring)
    } else if (ring.next === 0 && ring.ids.length < REMEMBERED) {
      // The ring is full for the first time at this capacity.
      const { ids } = ring
      ring.ids = new Uint32Array(4 * ids.length)
      ring.ids.set(ids)
      ring.next = ids.length
    }
    ring.ids[ring.next] = id
    ring.next = (ring.next + 1) % ring.ids.length
  }

  /** Returns the end of a stream; undefined if it was never open or is no longer remembered. */
  ending(id: number): Ending | undefined {
    return KINDS.find((kind) => this.#rings.get(kind)?.ids.includes(id))
  }
}
