/** Deliveries remembered by one owner; beyond it the oldest are forgotten. */
const MAX_REMEMBERED = 65_536

/**
 * Which deliveries have come, by what their sender gives to one attempt only, for as long as their timestamps would let
 * them pass. Each thread remembers its own.
 */
export class Replays {
  readonly #until = new Map<string, number>()

  /** True when it is new; from now on it is not. `lasting`: milliseconds. */
  admit(once: string, now: number, lasting: number): boolean {
    this.#forget(now)
    const until = this.#until.get(once)
    if (until !== undefined && now < until) return false
    this.#until.delete(once)
    this.#until.set(once, now + lasting)
    return true
  }

  /** It may come again: nobody took it. */
  release(once: string): void {
    this.#until.delete(once)
  }

  /** They stand in the order in which they came, which is that of their ends. */
  #forget(now: number): void {
    for (const [once, until] of this.#until) {
      if (now < until && this.#until.size <= MAX_REMEMBERED) return
      this.#until.delete(once)
    }
  }
}
