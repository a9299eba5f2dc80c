import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { BytePipe } from '../exchange/body.js'
import type { Failure } from '../exchange/connection.js'

/** Any duplex stream as a `BytePipe`. */
export class StreamPipe implements BytePipe {
  readonly duplex: Duplex

  constructor(duplex: Duplex) {
    this.duplex = duplex
  }

  end(): void {
    this.duplex.end()
  }

  destroy(_why: Failure): void {
    cut(this.duplex)
  }
}

/** Ends a stream so that its peer cannot take the end for a clean one: RST where there is a TCP socket. */
export function cut(stream: Duplex): void {
  if (stream.destroyed) return
  // TLS has no RST of its own; without close_notify its end counts as truncation (RFC 8446 6.1).
  if (stream instanceof Socket && !('encrypted' in stream)) stream.resetAndDestroy()
  else stream.destroy()
}
