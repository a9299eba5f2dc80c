import type { Clock } from '../lib/clock.js'
import { StoreError, type StoreTrouble } from './errors.js'

/** Without an answer for so long a store that is asked all the time is out of reach. Milliseconds. */
const SILENT_AFTER = 3_000
/** What one look may add to a silence: while this process stood still, it heard no answer. Milliseconds. */
const MOST_STEP = 1_500
/** So long after the last failure a success ends the trouble: of a full disk, small writes succeed between large ones. Milliseconds. */
const HOLD = 5_000

/**
 * Whether the store can be read and written, as far as its users have seen: the driver reports each statement that fails,
 * the store each write that is committed. While all goes well it asks nothing itself. Belongs to one process and outlives
 * its connections.
 */
export class StoreHealth {
  readonly #clock: Clock
  #trouble: StoreTrouble | undefined
  #failedAt = 0
  #watched = false
  #silence = 0
  #lookedAt: number | undefined
  #probe: (() => Promise<void>) | undefined
  #probing = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What keeps the store from being used. Undefined: nothing that is known. */
  get trouble(): StoreTrouble | undefined {
    return this.#watched && this.#silence > SILENT_AFTER ? 'unreachable' : this.#trouble
  }

  /** From now on the store is asked several times a second, and `answered` is called with each answer. */
  watch(): void {
    this.#watched = true
    this.answered()
  }

  /** How to find out whether the store can be written again; it is tried while there is trouble. Undefined: not any more. */
  probeWith(probe: (() => Promise<void>) | undefined): void {
    this.#probe = probe
  }

  /** The store has answered the question of a watch. */
  answered(): void {
    this.#silence = 0
    this.#lookedAt = this.#clock.monotonic()
    if (this.#trouble === 'unreachable') this.#trouble = undefined
  }

  /** A write is committed. */
  wrote(): void {
    if (this.#clock.monotonic() - this.#failedAt >= HOLD) this.#trouble = undefined
  }

  /** Something failed; what says nothing about the store is ignored. */
  failed(error: unknown): void {
    if (!(error instanceof StoreError) || error.trouble === undefined) return
    // One connection that broke says little where the watch knows better.
    if (this.#watched && error.trouble === 'unreachable') return
    this.#trouble = error.trouble
    this.#failedAt = this.#clock.monotonic()
  }

  /** Called every second or so: counts the silence, and tries the store while there is trouble. */
  look(): void {
    const now = this.#clock.monotonic()
    this.#silence += Math.min(MOST_STEP, now - (this.#lookedAt ?? now))
    this.#lookedAt = now
    if (this.#trouble === undefined || this.#probe === undefined || this.#probing) return
    this.#probing = true
    void this.#try(this.#probe)
  }

  async #try(probe: () => Promise<void>): Promise<void> {
    try {
      await probe()
      this.wrote()
    } catch (error) {
      this.failed(error)
    } finally {
      this.#probing = false
    }
  }
}
