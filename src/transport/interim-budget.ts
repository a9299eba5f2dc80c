import type { HeaderList } from '../flow/headers.js'

/** Maximum burst of interim responses. */
const BURST = 64
/** Maximum burst of interim responses (bytes). */
const BURST_BYTES = 65_536
/** Number of further interim responses per second. */
const PER_SECOND = 50
/** Further bytes of interim responses per second. */
const BYTES_PER_SECOND = 16_384

/**
 * Bounds the interim answers of one request by rate and bytes. Their number is not bounded: an upload may report its progress for
 * hours (104 of resumable uploads).
 */
export class InterimBudget {
  #answers = BURST
  #bytes = BURST_BYTES
  #at: number

  /** `now`: monotonic clock, in milliseconds. */
  constructor(now: number) {
    this.#at = now
  }

  /** False when this answer is one too many. */
  takes(headers: HeaderList, now: number): boolean {
    const seconds = (now - this.#at) / 1000
    this.#at = now
    this.#answers = Math.min(BURST, this.#answers + seconds * PER_SECOND) - 1
    let bytes = 0
    for (const text of headers) bytes += text.length
    this.#bytes = Math.min(BURST_BYTES, this.#bytes + seconds * BYTES_PER_SECOND) - bytes
    return this.#answers >= 0 && this.#bytes >= 0
  }
}
