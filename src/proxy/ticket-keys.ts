import { randomBytes } from 'node:crypto'
import type { Clock } from '../lib/clock.js'

/** How long the keys of session tickets live. Milliseconds. */
const LIFE = 12 * 3_600_000
const BYTES = 48

/** The keys of session tickets (RFC 8446 4.6.1), one set for the process: 48 bytes, another buffer whenever they are others. */
export interface TicketKeys {
  current(): Buffer
}

/** Keys that are made at the start and again twice a day; a client with an older ticket does a full handshake. */
export class OwnTicketKeys implements TicketKeys {
  readonly #clock: Clock
  #keys: Buffer
  #renewsAt: number

  /** @param keys those of a process before this one, whose tickets count here. Not of 48 bytes: RangeError. */
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
