/** One at a time, in the order of asking. */
export class Turns {
  #last: Promise<void> = Promise.resolve()

  /** Waits for its turn, runs, and hands the turn on, whatever the outcome. */
  async take<T>(run: () => Promise<T>): Promise<T> {
    const giveBack = await this.wait()
    try {
      return await run()
    } finally {
      giveBack()
    }
  }

  /** Waits for a turn; call what it resolves with to hand it on. */
  async wait(): Promise<() => void> {
    const before = this.#last
    let giveBack: () => void = () => undefined
    this.#last = new Promise((resolve) => {
      giveBack = resolve
    })
    await before
    return giveBack
  }
}
