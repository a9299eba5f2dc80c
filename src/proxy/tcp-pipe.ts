import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { BytePipe } from '../flow/exchange.js'
import type { DeadlineOwner } from '../lib/deadline-timer.js'
import { READ_BYTES, Wire, type WireOwner } from '../transport/http1/wire.js'
import { shorterLimit } from '../transport/join.js'
import { isReset } from '../transport/pipes.js'

/** How a joined connection ended: both directions to their end, a break of either side, silence, or the end of a drain. */
export type PipeEnd = 'complete' | 'broken' | 'idle' | 'drained'

/** A read of at least so many bytes is one of many: the next goes into a buffer that is sent on without a copy. */
const BULK = READ_BYTES / 4

/** One end of a pipe: what it reads, its other side writes. */
class Side implements WireOwner {
  readonly wire: Wire
  /** Nothing more comes from here. */
  ended = false
  closed = false
  readonly #pipe: Joined

  constructor(stream: Duplex, shared: Buffer, pipe: Joined) {
    this.#pipe = pipe
    this.wire = new Wire(stream, shared, this)
  }

  received(chunk: Buffer, length: number): void {
    const { wire } = this.#pipe.other(this)
    // A connection that is at rest holds no buffer.
    this.wire.bulk = length >= BULK
    wire.forward(this.wire, chunk, 0, length)
    if (wire.congested) this.wire.pause()
  }

  drained(): void {
    this.#pipe.other(this).wire.resume()
  }

  wireEnded(): void {
    const { wire } = this.#pipe.other(this)
    // A reset is passed on behind what was read before it.
    if (this.wire.wasReset) wire.flushed(() => this.wire.cut())
    else {
      this.ended = true
      wire.end()
    }
  }

  wireClosed(): void {
    this.closed = true
    this.#pipe.sideClosed(this)
  }
}

/** What a side knows of its pipe. */
interface Joined {
  other(side: Side): Side
  sideClosed(side: Side): void
}

/**
 * A client's connection joined to its upstream: bytes both ways with back-pressure, half-close passed on, an end when
 * nothing has moved for too long. It takes the sockets over; who needs them afterwards finds the client's in `client`.
 */
export class TcpPipe implements DeadlineOwner, Joined {
  place = -1
  /** Once, when nothing can flow any more. */
  readonly ended: Promise<PipeEnd>
  readonly #client: Side
  readonly #upstream: Side
  readonly #idle: number
  readonly #halfClosed: number
  #finish: ((end: PipeEnd) => void) | undefined
  #end: PipeEnd | undefined
  #moved = -1
  #movedAt = 0

  /** Limits are milliseconds of silence; 0: no limit. `halfClosed`: once one side has ended. `shared`: `READ_BYTES` that all pipes read into. */
  constructor(
    client: Socket,
    upstream: BytePipe,
    { idle, halfClosed }: { readonly idle: number; readonly halfClosed: number },
    shared: Buffer
  ) {
    this.#idle = idle
    this.#halfClosed = shorterLimit(idle, halfClosed)
    this.ended = new Promise((resolve) => {
      this.#finish = resolve
    })
    this.#client = new Side(client, shared, this)
    this.#upstream = new Side(upstream.duplex, shared, this)
  }

  get client(): Socket {
    return this.#client.wire.stream as Socket
  }

  other(side: Side): Side {
    return side === this.#client ? this.#upstream : this.#client
  }

  /** Clean is a close after both ends and with everything sent: one that has sent its own end and goes takes nothing more. */
  sideClosed(side: Side): void {
    if (this.#finish === undefined) return
    const ended = this.#client.ended && this.#upstream.ended
    if (!ended || !side.wire.stream.writableFinished) {
      this.#cut()
      this.#over('broken')
    } else if (this.#client.closed && this.#upstream.closed) this.#over('complete')
  }

  checkDeadlines(now: number): void {
    const { bytesRead, bytesWritten } = this.client
    const moved = bytesRead + bytesWritten
    if (moved !== this.#moved) {
      this.#moved = moved
      this.#movedAt = now
      return
    }
    const [client, upstream] = [this.#client, this.#upstream]
    const half = client.ended || upstream.ended || client.closed || upstream.closed
    const allowed = half ? this.#halfClosed : this.#idle
    if (allowed > 0 && now - this.#movedAt >= allowed) this.reset('idle')
    else if (
      (half || client.wire.paused || upstream.wire.paused) &&
      (isReset(this.client) || isReset(upstream.wire.stream))
    )
      this.reset('broken')
  }

  /** FIN both ways; what is still on its way arrives. */
  finish(): void {
    this.#end ??= 'drained'
    this.#client.wire.end()
    this.#upstream.wire.end()
  }

  /** RST both ways. */
  reset(why: PipeEnd): void {
    this.#end ??= why
    this.#cut()
  }

  #cut(): void {
    this.#client.wire.cut()
    this.#upstream.wire.cut()
  }

  #over(end: PipeEnd): void {
    const finish = this.#finish
    this.#finish = undefined
    finish?.(this.#end ?? end)
  }
}
