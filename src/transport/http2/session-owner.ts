import type { HpackDecoder } from './hpack-decoder.js'
import type { WindowBudget } from './receive-window.js'
import type { Http2Stream } from './stream.js'

/** The limits that a session keeps to. */
export interface SessionLimits {
  /** Streams of the peer that may be open at once. */
  readonly streams: number
  /** Bytes and fields of a header list; a longer one is cut short and said to be too large. */
  readonly listBytes: number
  readonly listFields: number
  /** Bytes of content of all streams that may arrive before they are consumed. Left out: 16 MiB. */
  readonly window?: number
  /** By which windows of streams grow. Left out: they do not. */
  readonly windows?: WindowBudget | undefined
}

/** Owner of a session. */
export interface SessionOwner {
  /** The peer opens a stream with `block`, which is valid only during the call. It is used or reset at once. */
  begins(stream: Http2Stream, block: HpackDecoder, ended: boolean): void
  /** A frame that costs work and brings nothing. */
  chatter(): void
  /** A stream ended because the peer reset it or broke its rules. */
  spoiled(): void
  /** The peer broke the rules of the connection, so that nothing more can be read: it is to be ended with this code. */
  failed(code: number): void
  /** The last stream that was open has gone. */
  emptied(): void
  /** An answer to the last `ping`. */
  ponged(): void
  /** SETTINGS of the peer have been read. Called for a client only. */
  adjusted?(): void
  /** The peer takes no more streams (RFC 9113 6.8); those that it has not processed are closed next. Called for a client only. */
  leaves?(): void
}
