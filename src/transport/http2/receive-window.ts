import type { Clock } from '../../lib/clock.js'

/** Released bytes that are announced at once (bytes), so that a distant sender does not wait for half of a large window. */
const CREDIT = 65_536

/** Receive window: the bytes that the peer may send, and when to announce more (RFC 9113 5.2, 6.9). */
export class ReceiveWindow {
  #size: number
  #left: number
  #freed = 0

  /** `size`: initial size in bytes; the caller announces it to the peer. */
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

  /** Grows the window by `bytes`. Returns the increment to announce now, which includes the released bytes. */
  grow(bytes: number): number {
    const increment = this.#freed + bytes
    this.#freed = 0
    this.#size += bytes
    this.#left += increment
    return increment
  }
}

/** Growth factor per step: 1 MiB after one round trip, the default maximum after two. */
const GROWTH = 4

/** Bounds the growth of the receive windows of streams, over all connections of a thread (bytes). */
export class WindowBudget {
  readonly #clock: Clock
  #grown = 0
  /** Maximum window of a stream (bytes). */
  stream: number
  /** Maximum growth of all windows together (bytes). */
  total: number

  constructor(clock: Clock, { stream, total }: { readonly stream: number; readonly total: number }) {
    this.#clock = clock
    this.stream = stream
    this.total = total
  }

  now(): number {
    return this.#clock.monotonic()
  }

  /** Reserves the growth of a window of `size` bytes, at most `allowed`. Returns the reserved bytes, which the caller gives back later. */
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

/** A window is too small if half of it is sent and read within this number of round trips; two allow for jitter. */
const ROUND_TRIPS = 2

/** Growth of the windows of one connection. Each grows to a few times the bandwidth-delay product. */
export class WindowGrowth {
  readonly #budget: WindowBudget
  /** Limit of the bytes of all streams, so that unread streams leave room in the connection's window. */
  #left: number
  readonly #startedAt: number
  /** Time from our SETTINGS to their acknowledgment (ms); 0 before. */
  #roundTrip = 0

  /** `allowed`: growth of all streams together (bytes). To be created when our SETTINGS are sent. */
  constructor(budget: WindowBudget, allowed: number) {
    this.#budget = budget
    this.#left = allowed
    this.#startedAt = budget.now()
  }

  now(): number {
    return this.#budget.now()
  }

  /** Records the acknowledgment of our SETTINGS. */
  settled(): void {
    if (this.#roundTrip === 0) this.#roundTrip = this.now() - this.#startedAt
  }

  /** Reserves the growth of a window of `size` bytes, half of which was received and read since `since` (monotonic ms). Returns bytes. */
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
