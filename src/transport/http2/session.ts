import type { Wire } from '../http1/wire.js'
import { FrameReader, type FrameTaker, HeaderBlocks } from './frame-reader.js'
import { FrameWriter, SendQueue } from './frame-writer.js'
import {
  CODE,
  ConnectionError,
  expectOnConnection,
  expectSize,
  FLAG,
  FRAME,
  LARGEST,
  PREFACE,
  PRIORITY_BYTES,
  readUint31,
  readUint32
} from './frames.js'
import { HpackDecoder } from './hpack-decoder.js'
import { HpackEncoder } from './hpack-encoder.js'
import { ReceiveWindow, WindowGrowth } from './receive-window.js'
import type { SessionLimits, SessionOwner } from './session-owner.js'
import { FIRST_WINDOW, PeerSettings } from './settings.js'
import { ClosedStreams, DROPS, Http2Stream, type StreamEnd, type StreamHost, type StreamUser } from './stream.js'

/** Receive window of one stream (bytes). */
export const STREAM_WINDOW = 256 * 1024
const CONNECTION_WINDOW = 16 * 1024 * 1024
/** Buffered bytes of the socket from which the peer is not read, because it does not read responses. */
const SOCKET_FULL = 262_144

const NO_PREFACE = Buffer.alloc(0)

const NO_USER: StreamUser = { ...DROPS, block: () => false }

/** HTTP/2 protocol of one connection in either role: frames, windows, and the states of streams (RFC 9113). */
export class Http2Session implements FrameTaker, StreamHost {
  readonly wire: Wire
  readonly encoder = new HpackEncoder()
  readonly #owner: SessionOwner
  readonly #limits: SessionLimits
  readonly decoder: HpackDecoder
  readonly #reader: FrameReader
  readonly #writer: FrameWriter
  readonly #blocks: HeaderBlocks
  readonly #peer = new PeerSettings()
  readonly #streams = new Map<number, Http2Stream>()
  readonly #closed = new ClosedStreams()
  readonly #receive: ReceiveWindow
  readonly growth: WindowGrowth | undefined
  /** True in the client role, in which only we open streams, because server push is disabled. */
  readonly #client: boolean
  /** Id of the next stream that we open. */
  #nextId = 1
  readonly #sending = new SendQueue()
  #greeted = false
  /** Largest id used by the peer; `#lastServed`: largest id that is served. */
  #lastPeer = 0
  #lastServed = LARGEST
  /** Current DATA frame: its stream, flags, payload and content so far. */
  #dataStream: Http2Stream | undefined = undefined
  #dataFlags = 0
  #dataLength = 0
  /** True after the acknowledgment of our SETTINGS. */
  settled = false
  /** True if received frames are ignored because the session is closed. */
  over = false

  constructor(wire: Wire, owner: SessionOwner, limits: SessionLimits, role: 'server' | 'client' = 'server') {
    this.#client = role === 'client'
    const { window = CONNECTION_WINDOW, windows } = limits
    this.#receive = new ReceiveWindow(window)
    this.growth = windows === undefined ? undefined : new WindowGrowth(windows, window / 2)
    this.wire = wire
    this.#owner = owner
    this.#limits = limits
    this.decoder = new HpackDecoder(limits.listBytes, limits.listFields)
    this.#reader = new FrameReader(this, this.#client ? NO_PREFACE : PREFACE)
    this.#blocks = new HeaderBlocks(2 * limits.listBytes)
    this.#writer = new FrameWriter(wire.stream, () => this.#sending.pump(this.#writer))
  }

  /** Returns the stream with an incomplete head; 0 if none. */
  readonly openHead = (): number => this.#blocks.open || this.#reader.openHead

  /** Number of open streams. */
  get streams(): number {
    return this.#streams.size
  }

  /** Largest served stream id, as sent in GOAWAY. */
  get lastStream(): number {
    return Math.min(this.#lastPeer, this.#lastServed)
  }

  /** Settings announced by the peer. */
  get peer(): PeerSettings {
    return this.#peer
  }

  /** Sends our SETTINGS, in the client role after the preface. */
  start(settings: readonly (readonly [id: number, value: number])[]): void {
    if (this.#client) this.wire.writeBytes(PREFACE)
    this.#writer.settings(settings)
    this.#writer.windowUpdate(0, this.#receive.size - FIRST_WINDOW)
  }

  /** Opens a stream in the client role; the caller sends its head at once. Returns undefined if ids are exhausted, or after the end. */
  open(user: StreamUser): Http2Stream | undefined {
    if (this.over || this.#nextId > LARGEST) return undefined
    const stream = new Http2Stream(this, this.#nextId, user, this.#peer.initialWindow, STREAM_WINDOW)
    this.#nextId += 2
    this.#streams.set(stream.id, stream)
    return stream
  }

  /** Reads received bytes: `chunk` from 0 to `length`. */
  received(chunk: Buffer, length: number): void {
    if (this.over) return
    try {
      this.#reader.take(chunk, length)
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error
      this.#owner.failed(error.code)
    }
    if (this.#writer.waiting > SOCKET_FULL) this.wire.pause()
  }

  /** Continues sending after the socket has drained. */
  drained(): void {
    if (this.#sending.waits) this.#writer.schedule()
    this.wire.resume()
  }

  ping(): void {
    if (!this.over) this.#writer.ping(false, PREFACE, 0)
  }

  /** Sends GOAWAY (RFC 9113 6.8). Without `last`, no further streams are served. */
  goaway(code: number, last?: number): void {
    if (last === undefined) this.#lastServed = this.lastStream
    this.#writer.goaway(last ?? this.#lastServed, code)
  }

  /** Sends GOAWAY, without an error only if none was sent before, and closes all streams. The owner closes the wire. */
  end(code: number): void {
    if (this.over) return
    if (code !== CODE.none || this.#lastServed === LARGEST) this.goaway(code)
    this.stop()
  }

  /** Stops reading and sending, except for bytes already written to the wire. */
  stop(): void {
    if (this.over) return
    this.over = true
    this.#reader.stop()
    this.#writer.flush()
    this.#sending.clear()
    for (const stream of this.#streams.values()) stream.close('lost', CODE.none)
  }

  // Services for the streams.

  sendBlock(id: number, block: Buffer, ended: boolean): void {
    this.#writer.block(id, block, ended, this.#peer.frameSize)
  }

  ready(stream: Http2Stream): void {
    this.#sending.add(stream)
    this.#writer.schedule()
  }

  sendReset(id: number, code: number): void {
    if (!this.over) this.#writer.reset(id, code)
  }

  sendWindow(id: number, increment: number): void {
    this.#writer.windowUpdate(id, increment)
  }

  freed(bytes: number): void {
    const increment = this.#receive.free(bytes)
    if (increment > 0 && !this.over) this.#writer.windowUpdate(0, increment)
  }

  gone(stream: Http2Stream, end: StreamEnd | undefined): void {
    this.#streams.delete(stream.id)
    if (end === undefined) this.#closed.add(stream.id, 'ended')
    else this.#closed.add(stream.id, end === 'peer' ? 'reset-there' : 'reset-here')
    if (end === 'peer' || end === 'malformed') this.#owner.spoiled()
    if (this.#streams.size === 0) this.#owner.emptied()
  }

  // Events of the frame reader.

  dataBegins(id: number, flags: number, length: number): void {
    this.#check(FRAME.data, flags, id)
    if (id === 0) throw new ConnectionError(CODE.protocol, 'DATA on stream 0')
    if (!this.#receive.receive(length)) throw new ConnectionError(CODE.flowControl, 'the connection has no window left')
    this.#dataFlags = flags
    this.#dataLength = length
    const stream = this.#streams.get(id)
    this.#dataStream = stream
    if (length === 0 && (flags & FLAG.endStream) === 0) this.#owner.chatter()
    if (stream === undefined) this.#late(id, false)
    else if (stream.remoteEnded) stream.reset(CODE.streamClosed, 'malformed')
    else if (!stream.receive(length)) stream.reset(CODE.flowControl, 'malformed')
  }

  data(bytes: Buffer, from: number, to: number): void {
    const stream = this.#dataStream
    if (stream === undefined || stream.closed) return
    this.#dataLength -= to - from
    stream.take(bytes, from, to)
  }

  dataEnds(): void {
    const stream = this.#dataStream
    this.#dataStream = undefined
    // Padding, and content of closed streams, is released for the connection's window at once.
    if (stream === undefined || stream.closed) this.freed(this.#dataLength)
    else {
      stream.skip(this.#dataLength)
      if ((this.#dataFlags & FLAG.endStream) !== 0) stream.remoteEnd()
    }
  }

  /** Handles a frame; ignores unknown types (RFC 9113 4.1, 5.5). */
  frame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    this.#check(type, flags, id)
    switch (type) {
      case FRAME.headers:
        if (this.#blocks.begin(flags, id, bytes, from, to)) this.#block()
        return
      case FRAME.continuation:
        if (this.#blocks.add(flags, bytes, from, to)) this.#block()
        return
      case FRAME.priority:
        this.#priority(id, bytes, from, to)
        return
      case FRAME.reset:
        this.#reset(id, bytes, from, to)
        return
      case FRAME.settings:
        this.#settings(flags, id, bytes, from, to)
        return
      case FRAME.pushPromise:
        throw new ConnectionError(CODE.protocol, 'PUSH_PROMISE where nothing may be pushed')
      case FRAME.ping:
        expectOnConnection(id)
        expectSize(to - from, 8)
        if ((flags & FLAG.ack) !== 0) this.#owner.ponged()
        else {
          this.#writer.ping(true, bytes, from)
          this.#owner.chatter()
        }
        return
      case FRAME.goaway:
        expectOnConnection(id)
        if (to - from < 8) throw new ConnectionError(CODE.frameSize, 'GOAWAY is too short')
        if (this.#client) this.#left(readUint31(bytes, from))
        return
      case FRAME.windowUpdate:
        this.#windowUpdate(id, bytes, from, to)
        return
    }
  }

  /** Checks the order of frames (RFC 9113 3.4, 4.3, 6.10). Throws a `ConnectionError`. */
  #check(type: number, flags: number, id: number): void {
    if (!this.#greeted) {
      if (type !== FRAME.settings || (flags & FLAG.ack) !== 0)
        throw new ConnectionError(CODE.protocol, 'the first frame is not SETTINGS')
      this.#greeted = true
    }
    if (type === FRAME.continuation ? id === 0 || id !== this.#blocks.open : this.#blocks.open !== 0)
      throw new ConnectionError(CODE.protocol, 'CONTINUATION and a header block that is open do not belong together')
  }

  /** Handles a complete header block. */
  #block(): void {
    const { stream: id, ended, selfDependent } = this.#blocks
    const decoder = this.decoder
    const [bytes, from, to] = this.#blocks.take()
    if (!decoder.decode(bytes, from, to)) throw new ConnectionError(CODE.compression, 'a header block is not HPACK')
    const open = this.#streams.get(id)
    if (open !== undefined) {
      if (open.remoteEnded) open.reset(CODE.streamClosed, 'malformed')
      else if (selfDependent) open.reset(CODE.protocol, 'malformed')
      else open.takeBlock(decoder, ended)
      return
    }
    if (this.#client) {
      this.#late(id, true)
      return
    }
    if (id % 2 === 0) throw new ConnectionError(CODE.protocol, 'a client opens a stream with an even id')
    if (id <= this.#lastPeer) {
      this.#late(id, true)
      return
    }
    this.#lastPeer = id
    if (id > this.#lastServed) return
    if (this.#streams.size >= this.#limits.streams || selfDependent) {
      this.sendReset(id, selfDependent ? CODE.protocol : CODE.refusedStream)
      this.#closed.add(id, 'reset-here')
      this.#owner.chatter()
      return
    }
    const stream = new Http2Stream(this, id, NO_USER, this.#peer.initialWindow, STREAM_WINDOW)
    stream.remoteEnded = ended
    this.#streams.set(id, stream)
    this.#owner.begins(stream, decoder, ended)
  }

  /** Handles a frame on a stream that is not open (RFC 9113 5.1). Throws a `ConnectionError` unless it may be late. */
  #late(id: number, headers: boolean): void {
    if (this.#isIdle(id)) throw new ConnectionError(CODE.protocol, 'a frame on a stream that was never opened')
    if (!this.#client && id > this.#lastServed) return
    const ending = this.#closed.ending(id)
    // Frames of streams that we reset may still arrive.
    if (ending === 'reset-here' || (this.#client && ending === undefined)) return
    if (ending === 'reset-there') {
      this.sendReset(id, CODE.streamClosed)
      this.#owner.spoiled()
      return
    }
    // A new stream closes all idle ones with smaller ids (RFC 9113 5.1.1).
    const code = headers && ending === undefined ? CODE.protocol : CODE.streamClosed
    throw new ConnectionError(code, 'a frame on a stream that has ended')
  }

  #isIdle(id: number): boolean {
    return id % 2 === 0 || (this.#client ? id >= this.#nextId : id > this.#lastPeer)
  }

  #priority(id: number, bytes: Buffer, from: number, to: number): void {
    if (id === 0) throw new ConnectionError(CODE.protocol, 'PRIORITY on stream 0')
    this.#owner.chatter()
    const wrongSize = to - from !== PRIORITY_BYTES
    if (!wrongSize && readUint31(bytes, from) !== id) return
    const code = wrongSize ? CODE.frameSize : CODE.protocol
    const stream = this.#streams.get(id)
    if (stream !== undefined) stream.reset(code, 'malformed')
    // RST_STREAM must not be sent on an idle stream, so this is a connection error.
    else if (this.#isIdle(id)) throw new ConnectionError(code, 'PRIORITY of a wrong size or of a stream on itself')
  }

  /** Handles GOAWAY: streams above `last` were not processed and can be retried elsewhere (RFC 9113 6.8). */
  #left(last: number): void {
    this.#owner.leaves?.()
    for (const stream of this.#streams.values()) if (stream.id > last) stream.close('peer', CODE.refusedStream)
  }

  #reset(id: number, bytes: Buffer, from: number, to: number): void {
    expectSize(to - from, 4)
    if (id === 0 || this.#isIdle(id)) throw new ConnectionError(CODE.protocol, 'RST_STREAM on a stream that never was')
    const stream = this.#streams.get(id)
    if (stream === undefined) this.#owner.chatter()
    else stream.close('peer', readUint32(bytes, from))
  }

  #settings(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    expectOnConnection(id)
    if ((flags & FLAG.ack) !== 0) {
      expectSize(to - from, 0)
      this.growth?.settled()
      this.settled = true
      return
    }
    const before = this.#peer.initialWindow
    this.#peer.read(bytes, from, to)
    this.encoder.limit = this.#peer.tableSize
    const difference = this.#peer.initialWindow - before
    if (difference !== 0) {
      for (const stream of this.#streams.values()) {
        if (!stream.widen(difference)) throw new ConnectionError(CODE.flowControl, 'a window is too large')
      }
    }
    this.#writer.settingsAck()
    this.#owner.chatter()
    if (this.#client) this.#owner.adjusted?.()
  }

  #windowUpdate(id: number, bytes: Buffer, from: number, to: number): void {
    expectSize(to - from, 4)
    const increment = readUint31(bytes, from)
    if (id === 0) {
      if (increment === 0) throw new ConnectionError(CODE.protocol, 'WINDOW_UPDATE of nothing')
      if (!this.#sending.widen(increment)) throw new ConnectionError(CODE.flowControl, 'the window is too large')
      if (this.#sending.waits) this.#writer.schedule()
      return
    }
    if (this.#isIdle(id)) throw new ConnectionError(CODE.protocol, 'WINDOW_UPDATE on a stream that never was')
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    if (increment === 0) stream.reset(CODE.protocol, 'malformed')
    else if (!stream.widen(increment)) stream.reset(CODE.flowControl, 'malformed')
  }
}
