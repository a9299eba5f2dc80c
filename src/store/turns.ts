import { atMost } from '../lib/at-most.js'

export interface TurnLimit {
  readonly milliseconds: number
  readonly refusal: () => Error
}

/** One at a time, in the order of asking. */
export class Turns {
  #last: Promise<void> = Promise.resolve()

  /** Waits for its turn, runs, and hands the turn on, whatever the outcome. With a `limit` it fails when the turn does not come in time. */
  async take<T>(run: () => Promise<T>, limit?: TurnLimit): Promise<T> {
    const waiting = this.wait()
    const giveBack = limit === undefined ? await waiting : await atMost(limit.milliseconds, waiting)
    if (giveBack === undefined) {
      void waiting.then((handOn) => handOn())
      throw limit?.refusal()
    }
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
