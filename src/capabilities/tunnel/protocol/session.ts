import type { Duplex } from 'node:stream'
import { PIECE_OVERHEAD } from '../../../lib/byte-queue.js'
import {
  dataFrame,
  Flag,
  FrameReader,
  type FrameSink,
  goAwayFrame,
  MAX_STREAM_ID,
  MuxCode,
  resetFrame,
  windowIncrementFrame
} from './frame.js'
import { type Carrier, MuxStream } from './stream.js'
import { StreamError } from './stream-errors.js'

/** Why a session is over. `code` is a muxado code: ours or the peer's. */
export interface SessionEnd {
  readonly by: 'us' | 'peer'
  readonly code: number
  /** For the log. */
  readonly detail: string
}

/** User of a session. */
export interface SessionOwner {
  /** The peer opened a stream; its first bytes follow. False turns it away. */
  opened(stream: MuxStream): boolean
  /** Once. Every stream has been broken off before. */
  closed(end: SessionEnd): void
}

export interface SessionOptions {
  /** Servers open even stream ids from 2, agents odd ones from 3. */
  readonly role: 'server' | 'agent'
  readonly owner: SessionOwner
  /** Maximum number of open streams of the peer. */
  readonly peerStreams: number
  /** Bytes that the peer may send in all, frames included; see `MuxSession.peerBytes`. Left out: no limit. */
  readonly peerBytes?: number
}

/** Queued bytes in the connection above which DATA must wait. */
const CONGESTED = 262_144
/** Maximum bytes of responses beyond `CONGESTED`, for a peer that sends requests without reading the responses. */
const MOST_ANSWERS = 1_048_576
/** Maximum number of streams beyond the limit, and of frames for unknown streams, before the session is ended. */
const MOST_OFFENCES = 1000
/** Maximum time for sending the last frame (ms). */
const LINGER = 50

/**
 * Multiplexes streams over one ordered byte pipe, in both roles. A peer that violates the rules of a stream loses the
 * stream; one that violates those of the session loses the session. All memory is bounded: bodies go to their stream within
 * its window, answers have a limit.
 */
export class MuxSession implements FrameSink, Carrier {
  /** Maximum number of open streams of the peer; may be changed. */
  peerStreams: number
  /** Bytes that the peer may send in all, frames included; may be changed. One that sends more loses the session. */
  peerBytes: number
  /**
   * The peer's heartbeat stream, if the peer delays small writes until the last one is acknowledged: an empty frame then
   * carries the acknowledgement (Nagle, RFC 896, meets delayed ACKs, RFC 1122 4.2.3.2).
   */
  nudged: MuxStream | undefined = undefined
  readonly #pipe: Duplex
  readonly #owner: SessionOwner
  readonly #server: boolean
  readonly #reader: FrameReader
  readonly #streams = new Map<number, MuxStream>()
  readonly #waiting = new Set<MuxStream>()
  #current: MuxStream | undefined = undefined
  #nextId: number
  #lastPeerId = 0
  #peerOpen = 0
  #offences = 0
  #received = 0
  /** Frames that wait in the connection. */
  #framesWaiting = 0
  #corked = false
  #wrote = false
  #credited = false
  #over = false
  #markedAt: number | undefined = undefined
  readonly #flush = (): void => this.#uncork()
  readonly #frameLeft = (): void => {
    this.#framesWaiting--
  }

  /** Takes the pipe over; its bytes must not have been read. */
  constructor(pipe: Duplex, { role, owner, peerStreams, peerBytes }: SessionOptions) {
    this.#pipe = pipe
    this.#owner = owner
    this.#server = role === 'server'
    this.#nextId = this.#server ? 2 : 3
    this.peerStreams = peerStreams
    this.peerBytes = peerBytes ?? Number.POSITIVE_INFINITY
    this.#reader = new FrameReader(this)
    pipe.on('data', (chunk: Buffer) => this.#read(chunk))
    pipe.on('drain', () => this.#drained())
    pipe.on('end', () => this.#finish({ by: 'peer', code: MuxCode.peerEnded, detail: 'the connection ended' }))
    pipe.on('error', (error: NodeJS.ErrnoException) => {
      this.#finish({ by: 'peer', code: MuxCode.peerEnded, detail: `the connection broke: ${error.code ?? 'error'}` })
    })
    pipe.on('close', () => this.#finish({ by: 'peer', code: MuxCode.peerEnded, detail: 'the connection broke' }))
  }

  get over(): boolean {
    return this.#over
  }

  /** Streams open now, of both sides. */
  get open(): number {
    return this.#streams.size
  }

  /** All kinds of agents understand it; from an agent, it would make a broken response look complete. */
  get endsBeforeReset(): boolean {
    return this.#server
  }

  get congested(): boolean {
    return this.#pipe.writableLength > CONGESTED
  }

  /**
   * Returns how long queued data has not been sent (ms); 0 if none is queued. Called about every second with a monotonic
   * time: data queued at one call is sent by a later one, unless the peer does not read.
   */
  stuckFor(now: number): number {
    if (this.#markedAt === undefined && this.#pipe.writableLength > 0 && !this.#over) {
      this.#markedAt = now
      this.#pipe.write('', () => {
        this.#markedAt = undefined
      })
    }
    return this.#markedAt === undefined ? 0 : now - this.#markedAt
  }

  /** Opens a stream whose first frame has `first`; undefined if the session has ended or has used all its ids. */
  openStream(first: Uint8Array): MuxStream | undefined {
    const id = this.#takeId()
    if (id === undefined) return undefined
    const stream = new MuxStream(id, this)
    this.#streams.set(id, stream)
    stream.begin(first)
    return stream
  }

  /** Takes over a stream that another session rejected. Returns false like `openStream`. */
  adopt(stream: MuxStream, first: Uint8Array): boolean {
    const id = this.#takeId()
    if (id === undefined) return false
    this.#streams.set(id, stream)
    stream.moveTo(this, id, first)
    return true
  }

  /** Sends a shutdown notice and ends the connection; streams are aborted immediately. */
  close(code: number = MuxCode.none, detail = ''): void {
    if (this.#over) return
    // With a text some agents read more than they were sent; they need the connection's end in any case.
    this.send(goAwayFrame(this.#lastPeerId, code, ''))
    this.#end({ by: 'us', code, detail })
    this.#uncork()
    this.#pipe.end()
    const timer = setTimeout(() => this.#pipe.destroy(), LINGER)
    timer.unref()
    this.#pipe.once('close', () => clearTimeout(timer))
  }

  /** Breaks the connection without a word. */
  destroy(code: number, detail: string): void {
    this.#finish({ by: 'us', code, detail })
  }

  // --- Carrier ---

  send(frame: Uint8Array, sent?: (error?: Error | null) => void): void {
    if (this.#over) return
    if (!this.#corked) this.#cork()
    this.#wrote = true
    this.#framesWaiting++
    if (sent === undefined) this.#pipe.write(frame, this.#frameLeft)
    else {
      this.#pipe.write(frame, (error) => {
        this.#frameLeft()
        sent(error)
      })
    }
  }

  wait(stream: MuxStream): void {
    this.#waiting.add(stream)
  }

  forget(stream: MuxStream): void {
    if (this.#streams.get(stream.id) !== stream) return
    this.#streams.delete(stream.id)
    this.#waiting.delete(stream)
    if (this.#isPeers(stream.id)) this.#peerOpen--
  }

  // --- FrameSink ---

  data(id: number, length: number, flags: number): boolean {
    const stream = (flags & Flag.syn) !== 0 ? this.#accept(id) : this.#streams.get(id)
    if (stream === undefined) {
      // An empty end of a closed stream needs no response; a rejected stream already had one.
      if ((flags & Flag.syn) === 0 && !(length === 0 && (flags & Flag.fin) !== 0)) {
        this.send(resetFrame(id, MuxCode.streamClosed))
        if (!this.#wasOpened(id)) this.#offend('DATA for a stream that was never opened')
      }
      return false
    }
    if (stream.remoteEnded) {
      this.#violate(stream, MuxCode.streamClosed, 'DATA after the end of the stream')
      return false
    }
    if (length > stream.receiveWindow) {
      this.#violate(stream, MuxCode.flowControl, 'DATA beyond the window')
      return false
    }
    this.#current = stream
    return true
  }

  body(bytes: Buffer): void {
    this.#current?.receive(bytes)
  }

  end(flags: number): void {
    const stream = this.#current
    this.#current = undefined
    if ((flags & Flag.fin) !== 0) stream?.receiveEnd()
  }

  reset(id: number, code: number): void {
    this.#streams.get(id)?.receiveReset(code)
  }

  windowIncrement(id: number, bytes: number): void {
    this.#credited = true
    this.#streams.get(id)?.receiveCredit(bytes)
  }

  goAway(_lastStream: number, code: number): void {
    this.#finish({ by: 'peer', code, detail: 'the peer said goodbye' })
  }

  malformed(code: number, message: string): void {
    this.close(code, message)
  }

  // --- inside ---

  #read(chunk: Buffer): void {
    if (this.#over) return
    this.#received += chunk.length
    if (this.#received > this.peerBytes) {
      this.#finish({ by: 'us', code: MuxCode.enhanceYourCalm, detail: 'the peer sends too much before it may' })
      return
    }
    this.#reader.read(chunk)
    // Whether something was written because of it shows after every stream has had a turn.
    if (this.#credited && this.nudged !== undefined && !this.#corked) this.#cork()
    if (this.#pipe.writableLength + this.#framesWaiting * PIECE_OVERHEAD > CONGESTED + MOST_ANSWERS) {
      this.#finish({ by: 'us', code: MuxCode.enhanceYourCalm, detail: 'the peer asks and does not read the answers' })
    }
  }

  /** Combines all writes of this turn of the event loop into one TLS record. */
  #cork(): void {
    this.#corked = true
    this.#wrote = false
    this.#pipe.cork()
    process.nextTick(this.#flush)
  }

  #uncork(): void {
    if (!this.#corked) return
    const { nudged } = this
    if (this.#credited && !this.#wrote && nudged !== undefined && !this.#over) {
      this.#pipe.write(windowIncrementFrame(nudged.id, 1))
    }
    this.#credited = false
    this.#corked = false
    this.#pipe.uncork()
  }

  /** Every waiting stream sends one piece in each round, so that a large stream does not starve the others. */
  #drained(): void {
    while (this.#waiting.size > 0 && !this.congested) {
      for (const stream of this.#waiting) {
        if (this.congested) return
        this.#waiting.delete(stream)
        if (stream.turn()) this.#waiting.add(stream)
      }
    }
  }

  #takeId(): number | undefined {
    if (this.#over || this.#nextId > MAX_STREAM_ID) return undefined
    const id = this.#nextId
    this.#nextId += 2
    return id
  }

  #isPeers(id: number): boolean {
    return (id % 2 === 1) === this.#server
  }

  #wasOpened(id: number): boolean {
    return this.#isPeers(id) ? id <= this.#lastPeerId : id < this.#nextId
  }

  #accept(id: number): MuxStream | undefined {
    if (!this.#isPeers(id) || id <= this.#lastPeerId) {
      this.close(MuxCode.protocol, 'a stream was opened with an id out of order')
      return undefined
    }
    this.#lastPeerId = id
    if (this.#peerOpen >= this.peerStreams) {
      this.send(resetFrame(id, MuxCode.refused))
      this.#offend('more streams than allowed')
      return undefined
    }
    const stream = new MuxStream(id, this)
    this.#streams.set(id, stream)
    this.#peerOpen++
    if (this.#owner.opened(stream)) return stream
    this.send(dataFrame(id, Flag.fin))
    this.#violate(stream, MuxCode.refused, 'not wanted')
    return undefined
  }

  #violate(stream: MuxStream, code: number, message: string): void {
    this.send(resetFrame(stream.id, code))
    stream.breakOff(
      new StreamError(code === MuxCode.flowControl ? 'TUNNEL_FLOW_CONTROL' : 'TUNNEL_STREAM_RESET', message)
    )
  }

  #offend(detail: string): void {
    this.#offences++
    if (this.#offences > MOST_OFFENCES) this.close(MuxCode.enhanceYourCalm, detail)
  }

  #finish(end: SessionEnd): void {
    if (!this.#over) this.#end(end)
    this.#pipe.destroy()
  }

  #end(end: SessionEnd): void {
    this.#over = true
    this.#reader.stop()
    this.#current = undefined
    this.#waiting.clear()
    const streams = [...this.#streams.values()]
    this.#streams.clear()
    for (const stream of streams) stream.breakOff(new StreamError('TUNNEL_SESSION_ENDED', end.detail))
    this.#owner.closed(end)
  }
}
