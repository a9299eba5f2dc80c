import type { Clock } from '../lib/clock.js'
import { StoreError, type StoreTrouble } from './errors.js'

/** Time without a response after which a watched store counts as unreachable (ms). */
const SILENT_AFTER = 3_000
/** Maximum time that one check adds to the silence: a blocked process receives no responses (ms). */
const MOST_STEP = 1_500
/** Time after the last failure before a success clears the trouble: on a full disk small writes succeed between large ones (ms). */
const HOLD = 5_000

/**
 * Health of the store as its users see it: the driver reports failed statements, the store reports commits. Sends no queries of its own
 * while there is no failure. Belongs to one process and outlives its connections.
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

  /** Current problem of the store, or undefined. */
  get trouble(): StoreTrouble | undefined {
    return this.#watched && this.#silence > SILENT_AFTER ? 'unreachable' : this.#trouble
  }

  /** Starts a watch: the store is queried several times a second, and each response calls `answered`. */
  watch(): void {
    this.#watched = true
    this.answered()
  }

  /** Sets the probe for writes, which runs while there is trouble. Undefined: stops probing. */
  probeWith(probe: (() => Promise<void>) | undefined): void {
    this.#probe = probe
  }

  /** Records a response to the watch. */
  answered(): void {
    this.#silence = 0
    this.#lookedAt = this.#clock.monotonic()
    if (this.#trouble === 'unreachable') this.#trouble = undefined
  }

  /** Records a committed write. */
  wrote(): void {
    if (this.#clock.monotonic() - this.#failedAt >= HOLD) this.#trouble = undefined
  }

  /** Records a failure; errors that do not concern the whole store are ignored. */
  failed(error: unknown): void {
    if (!(error instanceof StoreError) || error.trouble === undefined) return
    // The watch knows better than one broken connection.
    if (this.#watched && error.trouble === 'unreachable') return
    this.#trouble = error.trouble
    this.#failedAt = this.#clock.monotonic()
  }

  /** Called about every second: measures the silence, and probes the store while there is trouble. */
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
