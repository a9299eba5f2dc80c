import { PREFACE } from './frames.js'

/** Length of "PRI ", a reserved method (RFC 9113 11.6). The session checks the rest of the preface. */
const DECISIVE = 4

/** Detects the HTTP/2 preface at the start of a connection without TLS (prior knowledge, RFC 9113 3.3 and 3.4). */
export class PrefaceWatch {
  #matched = 0

  /** Bytes read before the current chunk, as long as all belong to the preface. */
  get before(): Buffer {
    return PREFACE.subarray(0, this.#matched)
  }

  /** Reads `chunk` from 0 to `length`. Returns 'open' while undecided; the caller then calls again with the next chunk. */
  read(chunk: Buffer, length: number): 'http1' | 'open' | 'http2' {
    const matched = this.#matched
    const compared = Math.min(length, DECISIVE - matched)
    for (let i = 0; i < compared; i++) if (chunk[i] !== PREFACE[matched + i]) return 'http1'
    if (matched + compared === DECISIVE) return 'http2'
    this.#matched = matched + compared
    return 'open'
  }
}
