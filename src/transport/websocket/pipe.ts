import { Duplex } from 'node:stream'
import type { BytePipe, Failure } from '../../flow/exchange.js'
import { ignore } from '../pipes.js'
import { binaryHead, closeFrame, FrameReader, pong } from './frames.js'

/** Close code for a normal end (RFC 6455 7.4.1). */
const NORMAL = 1000
/** Close code of an endpoint that goes away. */
const GOING_AWAY = 1001
/** Close code for an unexpected condition. */
const UPSTREAM_BROKE = 1011
/** Time for a client to answer a close frame, and for an upstream to receive its last bytes (ms). */
const GRACE = 5_000
/** Bytes. */
const SMALL = 4_096

/**
 * A byte pipe that speaks the frames of a WebSocket server (RFC 6455): what binary messages hold goes to `upstream`, and each piece
 * that comes from there is a binary message. Back-pressure goes through both ways; pings are answered here.
 */
export class WebSocketPipe implements BytePipe {
  readonly duplex: WebSocketBytes

  /** `idle`: milliseconds without a byte after which it ends; 0: no limit. */
  constructor(upstream: BytePipe, idle: number) {
    this.duplex = new WebSocketBytes(upstream, idle)
  }

  end(): void {
    this.duplex.leave(GOING_AWAY)
  }

  destroy(_why: Failure): void {
    this.duplex.destroy()
  }
}

class WebSocketBytes extends Duplex {
  readonly #upstream: BytePipe
  readonly #frames: FrameReader
  readonly #idle: NodeJS.Timeout | undefined
  #grace: NodeJS.Timeout | undefined
  /** We have said goodbye; nothing but the client's answer is awaited. */
  #left = false
  /** The client has said goodbye, or has broken the protocol: it is not listened to. */
  #deaf = false
  /** The client has had its end. */
  #ended = false
  /** The upstream has had its end. */
  #done = false
  #full = false
  /** Only the last ping needs an answer (RFC 6455 5.5.3): a client that does not read costs no more memory than one. */
  #ping: Buffer | undefined
  #written: (() => void) | undefined

  constructor(upstream: BytePipe, idle: number) {
    // After a clean end the upstream may still have to take its last bytes.
    super({ allowHalfOpen: true, autoDestroy: false })
    this.#upstream = upstream
    this.#frames = new FrameReader({
      data: (bytes) => {
        if (!this.#done && !upstream.duplex.write(bytes)) this.#full = true
      },
      ping: (payload) => {
        this.#ping = payload
        if (this.readableLength < this.readableHighWaterMark) this.#answerPing()
      },
      close: (code) => this.#closed(code)
    })
    const { duplex } = upstream
    duplex.on('error', ignore)
    duplex.on('data', (bytes: Buffer) => this.#fromUpstream(bytes))
    duplex.on('drain', () => this.#drained())
    duplex.on('end', () => this.leave(NORMAL))
    duplex.on('close', () => this.#upstreamClosed())
    if (idle > 0) this.#idle = setTimeout(() => this.leave(GOING_AWAY), idle).unref()
    if (duplex.destroyed) process.nextTick(() => this.#upstreamClosed())
  }

  /** Says goodbye; bytes that come from the client until its answer still reach the upstream. */
  leave(code: number): void {
    if (this.#left || this.destroyed) return
    this.#left = true
    this.push(closeFrame(code))
    if (code !== NORMAL) this.#endUpstream()
    this.#wait(() => this.#endClient())
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#idle?.refresh()
    const violation = this.#deaf ? undefined : this.#frames.read(chunk)
    if (violation !== undefined) this.#closed(violation)
    if (this.#full && !this.#deaf) this.#written = done
    else done()
  }

  /** The client's side has ended. Without a Close frame it is not known whether that was all, so the upstream gets no clean end. */
  override _final(done: (error?: Error) => void): void {
    if (this.#deaf) done()
    else done(new Error('the client has ended without a close frame'))
  }

  override _read(): void {
    this.#answerPing()
    this.#upstream.duplex.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#grace)
    this.#upstream.destroy('client-gone')
    done(error)
  }

  #fromUpstream(bytes: Buffer): void {
    this.#idle?.refresh()
    if (this.#left || bytes.length === 0) return
    const head = binaryHead(bytes.length)
    // A small message leaves in one write; a copy of a large one would cost more than the second.
    const small = bytes.length <= SMALL
    if (!small) this.push(head)
    if (!this.push(small ? Buffer.concat([head, bytes]) : bytes)) this.#upstream.duplex.pause()
  }

  #drained(): void {
    this.#full = false
    const done = this.#written
    this.#written = undefined
    done?.()
  }

  #answerPing(): void {
    const payload = this.#ping
    this.#ping = undefined
    if (payload !== undefined && !this.#left) this.push(pong(payload))
  }

  /** The client's goodbye is answered with its own code, a violation with ours. */
  #closed(code: number | undefined): void {
    this.#deaf = true
    const answered = this.#left
    this.#left = true
    if (!answered) this.push(closeFrame(code))
    this.#endClient()
    this.#endUpstream()
    this.#drained()
    this.#wait(() => this.#upstream.destroy('client-gone'))
  }

  #endClient(): void {
    if (this.#ended) return
    this.#ended = true
    this.push(null)
  }

  /** Reads and discards further data of the upstream, so that it can process the end. */
  #endUpstream(): void {
    if (this.#done) return
    this.#done = true
    this.#upstream.end()
    this.#upstream.duplex.resume()
  }

  #upstreamClosed(): void {
    if (!this.#left) this.leave(this.#upstream.duplex.readableEnded ? NORMAL : UPSTREAM_BROKE)
    this.#done = true
    if (this.#deaf) clearTimeout(this.#grace)
    this.#drained()
  }

  #wait(over: () => void): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#grace)
    this.#grace = setTimeout(over, GRACE).unref()
  }
}
