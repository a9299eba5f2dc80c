import type { HpackDecoder } from './hpack-decoder.js'
import type { WindowBudget } from './receive-window.js'
import type { Http2Stream } from './stream.js'

/** Limits of a session. */
export interface SessionLimits {
  /** Maximum number of open streams of the peer. */
  readonly streams: number
  /** Maximum size of a header list (bytes), and number of its fields. A longer list is truncated and marked `tooLarge`. */
  readonly listBytes: number
  readonly listFields: number
  /**
   * Receive window of the connection (bytes).
   *
   * @default 16 MiB
   */
  readonly window?: number
  /**
   * Budget for the growth of stream windows.
   *
   * @default no growth
   */
  readonly windows?: WindowBudget | undefined
}

/** Owner of a session. */
export interface SessionOwner {
  /** Called when the peer opens a stream. `block` is valid only during the call, in which the owner must use or reset the stream. */
  begins(stream: Http2Stream, block: HpackDecoder, ended: boolean): void
  /** Called for a frame that costs work and carries nothing of a request, such as PING or empty DATA, for flood protection. */
  chatter(): void
  /** Called when the peer resets a stream, or a stream error of the peer ends it. */
  spoiled(): void
  /** Called after a connection error; the owner must close the connection with this code. */
  failed(code: number): void
  /** Called when the last open stream has closed. */
  emptied(): void
  /** Called for a response to the last `ping`. */
  ponged(): void
  /** Called after SETTINGS of the peer, in the client role only. */
  adjusted?(): void
  /** Called after GOAWAY of the peer, in the client role only (RFC 9113 6.8). Unprocessed streams are closed next. */
  leaves?(): void
}
