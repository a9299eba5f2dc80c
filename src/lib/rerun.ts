/**
 * Runs one piece of work, never twice at a time: who asks while it runs gets one more run after it, because that one may have
 * missed the news.
 */
export class Rerun {
  readonly #work: () => Promise<void>
  #running: Promise<void> | undefined
  #again = false

  /** `work` must not reject. */
  constructor(work: () => Promise<void>) {
    this.#work = work
  }

  ask(): void {
    if (this.#running !== undefined) {
      this.#again = true
      return
    }
    this.#running = this.#work().finally(() => {
      this.#running = undefined
      if (!this.#again) return
      this.#again = false
      this.ask()
    })
  }

  /** Waits until what was asked for before has run. */
  async answered(): Promise<void> {
    await this.#running
    await this.#running
  }

  /** Forgets what was asked for meanwhile and waits for the run that is under way. */
  async settle(): Promise<void> {
    this.#again = false
    await this.#running
  }
}
