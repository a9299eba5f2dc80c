import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { BytePipe } from '../flow/exchange.js'
import type { DeadlineOwner } from '../lib/deadline-timer.js'
import { READ_BYTES, Wire, type WireOwner } from '../transport/http1/wire.js'
import { shorterLimit } from '../transport/join.js'
import { isReset } from '../transport/pipes.js'

/** Result of a joined connection: both directions complete, a failure of either side, silence, or a drain. */
export type PipeEnd = 'complete' | 'broken' | 'idle' | 'drained'

/** Minimum size of a bulk read (bytes): the next one uses a buffer that is sent without a copy. */
const BULK = READ_BYTES / 4

/** Side of a pipe; the other side writes what it reads. */
class Side implements WireOwner {
  readonly wire: Wire
  /** True after the end of its data. */
  ended = false
  closed = false
  readonly #pipe: Joined

  constructor(stream: Duplex, shared: Buffer, pipe: Joined) {
    this.#pipe = pipe
    this.wire = new Wire(stream, shared, this)
  }

  received(chunk: Buffer, length: number): void {
    const { wire } = this.#pipe.other(this)
    // An idle connection holds no buffer.
    this.wire.bulk = length >= BULK
    wire.forward(this.wire, chunk, 0, length)
    if (wire.congested) this.wire.pause()
  }

  drained(): void {
    this.#pipe.other(this).wire.resume()
  }

  wireEnded(): void {
    const { wire } = this.#pipe.other(this)
    // A reset is forwarded after the data read before it.
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

/** Functions of the pipe for its sides. */
interface Joined {
  other(side: Side): Side
  sideClosed(side: Side): void
}

/**
 * Joins a client connection to its upstream: bytes in both directions with back-pressure, half-close forwarded, idle timeout. It owns the
 * sockets; the client's is available in `client`.
 */
export class TcpPipe implements DeadlineOwner, Joined {
  place = -1
  /** Resolves once no more data can flow. */
  readonly ended: Promise<PipeEnd>
  readonly #client: Side
  readonly #upstream: Side
  readonly #idle: number
  readonly #halfClosed: number
  #finish: ((end: PipeEnd) => void) | undefined
  #end: PipeEnd | undefined
  #moved = -1
  #movedAt = 0

  /**
   * Limits are milliseconds of silence; 0: no limit. `halfClosed`: after one side has ended. `shared`: read buffer of `READ_BYTES` for all
   * pipes.
   */
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

  /** Handles a closed side. Clean: both ends were received and everything was sent, because a closed socket accepts no more data. */
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

  /** Sends FIN in both directions after pending data. */
  finish(): void {
    this.#end ??= 'drained'
    this.#client.wire.end()
    this.#upstream.wire.end()
  }

  /** Sends RST in both directions. */
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
