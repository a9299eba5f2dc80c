import type { Socket } from 'node:net'
import { cut } from '../engine/byte-pipe.js'
import { join } from '../engine/join.js'
import type { Swept } from '../engine/sweeper.js'
import type { BytePipe } from '../exchange/body.js'

/** How a joined connection ended: both directions to their end, a break of either side, silence, or the end of a drain. */
export type PipeEnd = 'complete' | 'broken' | 'idle' | 'drained'

/**
 * A client's connection joined to its upstream: bytes both ways with back-pressure, half-close passed on, an end when
 * nothing has moved for too long.
 */
export class TcpPipe implements Swept {
  place = -1
  /** Once, when nothing can flow any more. */
  readonly ended: Promise<PipeEnd>
  readonly #client: Socket
  readonly #upstream: BytePipe
  readonly #idle: number
  #end: PipeEnd | undefined
  #moved = -1
  #movedAt = 0

  /** `idle`: milliseconds; 0: no limit. */
  constructor(client: Socket, upstream: BytePipe, idle: number) {
    this.#client = client
    this.#upstream = upstream
    this.#idle = idle
    this.ended = new Promise((resolve) => {
      join(client, upstream.duplex, (clean) => resolve(this.#end ?? (clean ? 'complete' : 'broken')))
    })
  }

  sweep(now: number): void {
    const moved = this.#client.bytesRead + this.#client.bytesWritten
    if (moved !== this.#moved) {
      this.#moved = moved
      this.#movedAt = now
    } else if (this.#idle > 0 && now - this.#movedAt >= this.#idle) this.reset('idle')
  }

  /** FIN both ways; what is still on its way arrives. */
  finish(): void {
    this.#end ??= 'drained'
    this.#client.end()
    this.#upstream.end()
  }

  /** RST both ways. */
  reset(why: PipeEnd): void {
    this.#end ??= why
    cut(this.#client)
    cut(this.#upstream.duplex)
  }
}
