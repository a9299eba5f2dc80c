import { PREFACE } from './frames.js'

/** Length of "PRI ": that method is reserved (RFC 9113 11.6), and what follows is for the session to check. */
const DECISIVE = 4

/**
 * Finds out whether a connection without TLS begins with the preface of HTTP/2, in whatever pieces it arrives (prior knowledge,
 * RFC 9113 3.3 and 3.4).
 */
export class PrefaceWatch {
  #matched = 0

  /** Bytes read before the current chunk, as long as all belong to the preface. */
  get before(): Buffer {
    return PREFACE.subarray(0, this.#matched)
  }

  /** Reads `chunk` from 0 to `length`. 'open': it may still be either. To be called until it answers something else. */
  read(chunk: Buffer, length: number): 'http1' | 'open' | 'http2' {
    const matched = this.#matched
    const compared = Math.min(length, DECISIVE - matched)
    for (let i = 0; i < compared; i++) if (chunk[i] !== PREFACE[matched + i]) return 'http1'
    if (matched + compared === DECISIVE) return 'http2'
    this.#matched = matched + compared
    return 'open'
  }
}
