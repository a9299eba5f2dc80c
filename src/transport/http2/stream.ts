import { ByteQueue } from '../../lib/byte-queue.js'
import type { Wire } from '../http1/wire.js'
import { CODE } from './frames.js'
import type { HpackDecoder } from './hpack-decoder.js'
import type { HpackEncoder } from './hpack-encoder.js'
import { ReceiveWindow, type WindowGrowth } from './receive-window.js'
import { widened } from './settings.js'

/** Bytes that may wait in a stream before its giver should pause. */
const HIGH = 65_536
/** It may go on when so many wait. */
const LOW = 16_384

/** Cause of a premature end of a stream: a reset by the peer, a peer's mistake, this side, the connection. */
export type StreamEnd = 'peer' | 'malformed' | 'here' | 'lost'

/** User of a stream. */
export interface StreamUser {
  /** Bytes came: `bytes` from `from` to `to`, valid only during the call (see `Wire.keep`). `consumed` says when they wait no longer. */
  data(bytes: Buffer, from: number, to: number, wire: Wire): void
  /** A header block behind the first; false: it is malformed. `ended`: the last frame of its direction. */
  block(block: HpackDecoder, ended: boolean): boolean
  /** The peer has ended its direction; everything came. */
  ended(): void
  /** The last frame of our direction was handed over. */
  finished(): void
  /** Pending bytes have been sent; called if `congested` was true. */
  drained(): void
  /** Neither direction goes on, and not both have ended well. Called once. */
  closed(end: StreamEnd, code: number): void
}

/** Milliseconds from a whole answer to the reset of a request that is still being sent. */
const RESET_DELAY = 200

/** Drops the rest of a request. Its bytes are not consumed, so that one window of them comes at most. */
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
  /** Left out: windows stay as they are. */
  readonly growth?: WindowGrowth | undefined
  /** Sends a header block that the encoder has just ended. */
  sendBlock(id: number, block: Buffer, ended: boolean): void
  /** Something waits in the stream, or its direction ends. */
  ready(stream: Http2Stream): void
  sendReset(id: number, code: number): void
  sendWindow(id: number, increment: number): void
  /** Sends a PING whose answer means nothing. */
  ping(): void
  /** Releases consumed bytes of the connection's window. */
  freed(bytes: number): void
  /** The stream is closed. `code` undefined: both directions ended. */
  gone(stream: Http2Stream, end: StreamEnd | undefined): void
}

/** One stream of either role: its states (RFC 9113 5.1), its windows, and what waits to be sent. */
export class Http2Stream {
  readonly id: number
  readonly #host: StreamHost
  readonly #windowSize: number
  user: StreamUser
  /** Remaining send window; negative after a smaller SETTINGS_INITIAL_WINDOW_SIZE. */
  window: number
  /** The session has it among those that can send. */
  listed = false
  /** The peer has ended its direction. */
  remoteEnded = false
  /** We have ended ours: END_STREAM was handed over. */
  localEnded = false
  closed = false
  #receive: ReceiveWindow | undefined = undefined
  /** Bytes by which it has grown. */
  #grown = 0
  /** Bytes of those received since then that were read. */
  #paceSince = -1
  #pace = 0
  /** Bytes that came and have not been consumed. */
  #unconsumed = 0
  #came = 0
  #expected = -1
  /** Next bytes to send, as received. */
  #first: Buffer | undefined = undefined
  /** Bytes to send after `#first`, joined, because the peer chooses how small the pieces are and how long they wait. */
  #more: ByteQueue | undefined = undefined
  #waitingBytes = 0
  #ending = false
  /** Writes the fields of the trailers; undefined: there are none. */
  #trailers: ((encoder: HpackEncoder) => void) | undefined = undefined
  #congested = false

  /** `window`: the peer's initial one; `receiveWindow`: ours. */
  constructor(host: StreamHost, id: number, user: StreamUser, window: number, receiveWindow: number) {
    this.#host = host
    this.id = id
    this.user = user
    this.window = window
    this.#windowSize = receiveWindow
  }

  /** Bytes that wait to be sent. */
  get waiting(): number {
    return this.#waitingBytes
  }

  /** More waits than is good; `drained` says when it has left. */
  get congested(): boolean {
    if (this.#waitingBytes < HIGH) return false
    this.#congested = true
    return true
  }

  /** The connection takes nothing more at the moment. */
  get blocked(): boolean {
    return this.#host.wire.congested
  }

  /** The end of our direction waits behind what waits. */
  get ending(): boolean {
    return this.#ending
  }

  /** Bytes of content that the peer announced; more or fewer make the message malformed (RFC 9113 8.1.1). */
  expect(bytes: number): void {
    this.#expected = bytes
  }

  /** Sends a block whose fields `write` gives. Nothing may wait. */
  sendHead(write: (encoder: HpackEncoder) => void, ended: boolean): void {
    if (this.closed || this.localEnded) return
    const { encoder } = this.#host
    encoder.begin()
    write(encoder)
    this.#host.sendBlock(this.id, encoder.end(), ended)
    if (ended) this.#localEnd()
  }

  /** Sends bytes, which must not change any more. */
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

  /** Ends our direction behind what waits. `trailers` writes the fields of a last block. */
  end(trailers?: (encoder: HpackEncoder) => void): void {
    if (this.closed || this.#ending || this.localEnded) return
    this.#ending = true
    this.#trailers = trailers
    this.#host.ready(this)
  }

  /** Ends both directions at once; nothing that waits is sent. */
  reset(code: number, end: StreamEnd = 'here'): void {
    if (this.closed) return
    this.#host.sendReset(this.id, code)
    this.close(end, code)
  }

  /**
   * The answer is out and the rest of the request is not wanted. The reset that says so (RFC 9113 8.1) waits: curl 7.88 and others that read
   * it together with the answer take the answer for broken. A request that ends by itself meanwhile needs none, but curl 7.88 notices the
   * end of its stream only when something comes.
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

  /** Bytes that `data` gave wait no longer: the peer may send as many more. */
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

  /** Bytes by which the window grows because its sender waits for it, now that so many more were read. */
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

  // What follows is for the session.

  /** DATA of so many bytes begins; false: more than the window allows. */
  receive(bytes: number): boolean {
    this.#receive ??= new ReceiveWindow(this.#windowSize)
    if (this.#paceSince < 0 && bytes > 0) this.#paceSince = this.#host.growth?.now() ?? -1
    return this.#receive.receive(bytes)
  }

  /** A part of the content of DATA. */
  take(bytes: Buffer, from: number, to: number): void {
    this.#unconsumed += to - from
    this.#came += to - from
    if (this.#expected >= 0 && this.#came > this.#expected) this.reset(CODE.protocol, 'malformed')
    else this.user.data(bytes, from, to, this.#host.wire)
  }

  /** Padding is consumed as it comes. */
  skip(bytes: number): void {
    this.#unconsumed += bytes
    this.consumed(bytes)
  }

  /** The peer ends its direction. */
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

  /** Another block came. */
  takeBlock(block: HpackDecoder, ended: boolean): void {
    if (!this.user.block(block, ended)) this.reset(CODE.protocol, 'malformed')
    else if (ended) this.remoteEnd()
  }

  /** The window grows; false: beyond what a window may be. */
  widen(increment: number): boolean {
    const window = widened(this.window, increment)
    if (window === undefined) return false
    const blocked = this.window <= 0
    this.window = window
    if (blocked && window > 0 && this.#waitingBytes > 0) this.#host.ready(this)
    return true
  }

  /** Could send something if the connection lets it. */
  get sendable(): boolean {
    return !this.closed && !this.localEnded && (this.#waitingBytes > 0 ? this.window > 0 : this.#ending)
  }

  /** The next piece of what waits, at most `most` bytes. */
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

  /** Nothing waits behind the piece that was taken last, and the message ends there: it can say so itself. */
  get endsWithData(): boolean {
    return this.#ending && this.#waitingBytes === 0 && this.#trailers === undefined
  }

  /** Sends the trailers; false: there are none. */
  sendTrailers(): boolean {
    const trailers = this.#trailers
    if (trailers === undefined) return false
    this.#trailers = undefined
    this.sendHead(trailers, true)
    return true
  }

  /** END_STREAM was sent with DATA. */
  sentEnd(): void {
    this.#localEnd()
  }

  /** Lets the writer of the body go on. */
  relieve(): void {
    if (!this.#congested || this.#waitingBytes > LOW || this.closed) return
    this.#congested = false
    this.user.drained()
  }

  /** Closes without a word to the peer. */
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
    // What is no longer consumed must not block the other streams.
    if (this.#unconsumed > 0) this.#host.freed(this.#unconsumed)
    this.#unconsumed = 0
    this.#giveGrowthBack()
  }
}

/** End of a stream, as far as it affects later frames (RFC 9113 5.1). */
export type Ending = 'reset-here' | 'reset-there' | 'ended'

/** Streams that are remembered of each kind. */
const REMEMBERED = 256
/** Those that there is room for at first: four times as many each time that it is used up. */
const FEW = 16
const KINDS: readonly Ending[] = ['reset-here', 'reset-there', 'ended']

/**
 * The streams of a connection that closed last. What comes on one that we reset may have been sent before the peer knew; on one that
 * the peer ended it is an error.
 */
export class ClosedStreams {
  /** One ring for each kind, so that many of one kind do not push out another. */
  readonly #rings = new Map<Ending, { ids: Uint32Array; next: number }>()

  add(id: number, ending: Ending): void {
    let ring = this.#rings.get(ending)
    if (ring === undefined) {
      ring = { ids: new Uint32Array(FEW), next: 0 }
      this.#rings.set(ending, ring)
    } else if (ring.next === 0 && ring.ids.length < REMEMBERED) {
      // It is full for the first time.
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
