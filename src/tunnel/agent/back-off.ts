const FIRST = 500
const MOST = 15_000

/** Waits between attempts to connect: doubling from half a second to 15 s, each shortened at random by up to a half. */
export class BackOff {
  readonly #random: () => number
  #next = FIRST

  /** `random` gives numbers from 0 to below 1. */
  constructor(random: () => number) {
    this.#random = random
  }

  /** Milliseconds until the next attempt. */
  next(): number {
    const wait = this.#next * (1 - this.#random() / 2)
    this.#next = Math.min(MOST, this.#next * 2)
    return wait
  }

  /** An attempt has succeeded. */
  reset(): void {
    this.#next = FIRST
  }
}
