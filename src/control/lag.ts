import type { Clock } from '../lib/clock.js'

/** A revision is applied within a second; one that is not after so long is late. Milliseconds. */
const LATE_AFTER = 2_000

interface Heard {
  readonly revision: number
  /** Monotonic milliseconds. */
  readonly at: number
}

/** How far a process is behind its store. */
export class Lag {
  readonly #clock: Clock
  #oldest: Heard | undefined
  #latest: Heard = { revision: 0, at: 0 }

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The last revision of the store is this one. */
  hear(revision: number): void {
    this.#latest = { revision, at: this.#clock.monotonic() }
    if (this.#oldest === undefined || this.#oldest.revision > revision) this.#oldest = this.#latest
  }

  /** By how many revisions `applied` is behind; 0 while none of them is late. */
  behind(applied: number): number {
    if (this.#oldest !== undefined && this.#oldest.revision <= applied) {
      this.#oldest = this.#latest.revision > applied ? this.#latest : undefined
    }
    const late = this.#oldest !== undefined && this.#clock.monotonic() - this.#oldest.at > LATE_AFTER
    return late ? this.#latest.revision - applied : 0
  }
}
