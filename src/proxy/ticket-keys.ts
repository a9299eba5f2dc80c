import { randomBytes } from 'node:crypto'
import type { Clock } from '../lib/clock.js'

/** Lifetime of the keys for session tickets (ms). */
const LIFE = 12 * 3_600_000
/** Length of the keys (bytes). */
const BYTES = 48

/** Keys of session tickets (RFC 8446 4.6.1), one set for the process: 48 bytes; a new buffer for each change. */
export interface TicketKeys {
  current(): Buffer
}

/** Keys created at the start and renewed twice a day; a client with an older ticket makes a full handshake. */
export class OwnTicketKeys implements TicketKeys {
  readonly #clock: Clock
  #keys: Buffer
  #renewsAt: number

  /** @param keys keys of the previous process, whose tickets stay valid. Throws a RangeError unless they have 48 bytes. */
  constructor(clock: Clock, keys: Uint8Array = randomBytes(BYTES)) {
    if (keys.length !== BYTES) throw new RangeError(`keys of session tickets have ${BYTES} bytes`)
    this.#clock = clock
    this.#keys = Buffer.from(keys)
    this.#renewsAt = clock.monotonic() + LIFE
  }

  current(): Buffer {
    const now = this.#clock.monotonic()
    if (now >= this.#renewsAt) {
      this.#renewsAt = now + LIFE
      this.#keys = randomBytes(BYTES)
    }
    return this.#keys
  }
}
