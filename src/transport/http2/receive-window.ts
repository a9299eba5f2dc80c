import type { Clock } from '../../lib/clock.js'

/** Freed bytes that are announced at the latest: a sender far away must not wait for half of a large window. */
const CREDIT = 65_536

/** Flow-control window for the peer: the bytes that it may send, and when to announce more (RFC 9113 5.2, 6.9). */
export class ReceiveWindow {
  #size: number
  #left: number
  #freed = 0

  /** Notes that the window has this size; the caller sends the update that makes it so. */
  constructor(size: number) {
    this.#size = size
    this.#left = size
  }

  get size(): number {
    return this.#size
  }

  /** Counts received bytes; returns false if they exceed the window. */
  receive(bytes: number): boolean {
    this.#left -= bytes
    return this.#left >= 0
  }

  /** Releases consumed bytes. Returns the increment to announce now, or 0 if too small for a frame. */
  free(bytes: number): number {
    this.#freed += bytes
    return this.#freed < Math.min(CREDIT, this.#size / 2) ? 0 : this.grow(0)
  }

  /** Makes the window larger. Answers the increment to announce now, in which the bytes that were freed are contained. */
  grow(bytes: number): number {
    const increment = this.#freed + bytes
    this.#freed = 0
    this.#size += bytes
    this.#left += increment
    return increment
  }
}

/** Factor by which a window grows in one step: a megabyte is reached in one round trip, and what its default allows in two. */
const GROWTH = 4

/** Bounds the memory by which receive windows of streams grow beyond their first size, on all connections of a thread. Bytes. */
export class WindowBudget {
  readonly #clock: Clock
  #grown = 0
  /** Largest window of a stream. */
  stream: number
  /** Most bytes by which all windows together have grown. */
  total: number

  constructor(clock: Clock, { stream, total }: { readonly stream: number; readonly total: number }) {
    this.#clock = clock
    this.stream = stream
    this.total = total
  }

  now(): number {
    return this.#clock.monotonic()
  }

  /** Bytes by which a window of this size may grow now, at most `allowed`. They are taken until they are given back. */
  take(size: number, allowed: number): number {
    const wanted = Math.min((GROWTH - 1) * size, this.stream - size, allowed, this.total - this.#grown)
    const given = Math.max(0, wanted)
    this.#grown += given
    return given
  }

  giveBack(bytes: number): void {
    this.#grown -= bytes
  }
}

/** Round trips within which half of a window is sent and read where it is too small: its sender waits for credit then, be there some jitter. */
const ROUND_TRIPS = 2

/** Growth of the windows of one connection. Each grows to a few times the bandwidth-delay product, which its reader bounds as its sender does. */
export class WindowGrowth {
  readonly #budget: WindowBudget
  /** Limit of the bytes of all streams, so that unread streams leave room in the connection's window. */
  #left: number
  readonly #startedAt: number
  /** Milliseconds from our SETTINGS to their acknowledgement; 0: it has not come. */
  #roundTrip = 0

  /** `allowed`: bytes of all streams together. Made when our SETTINGS are sent. */
  constructor(budget: WindowBudget, allowed: number) {
    this.#budget = budget
    this.#left = allowed
    this.#startedAt = budget.now()
  }

  now(): number {
    return this.#budget.now()
  }

  /** Our SETTINGS were acknowledged. */
  settled(): void {
    if (this.#roundTrip === 0) this.#roundTrip = this.now() - this.#startedAt
  }

  /** Bytes by which a window of this size may grow, half of which came and was read since `since`. */
  take(size: number, since: number): number {
    if (this.now() - since >= ROUND_TRIPS * this.#roundTrip) return 0
    const bytes = this.#budget.take(size, this.#left)
    this.#left -= bytes
    return bytes
  }

  giveBack(bytes: number): void {
    this.#left += bytes
    this.#budget.giveBack(bytes)
  }
}
