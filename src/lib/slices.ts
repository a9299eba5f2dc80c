import { setImmediate as turnOfLoop } from 'node:timers/promises'

/** Long work in small steps: between two of them it may rest. A step should take well below a millisecond. */
export type Steps<T> = Generator<undefined, T, undefined>

/**
 * Milliseconds that long work may hold the loop at a stretch. A request takes several turns of the loop, each of which may
 * wait so long.
 */
const HOLD = 2

/** The work in one go: for what is known to be small. */
export function atOnce<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

export interface SlicesOptions {
  /** Gives the loop a turn; absent: `setImmediate`. */
  readonly turn?: () => Promise<unknown>
  /** Milliseconds of a clock that only goes forward; absent: the system's. */
  readonly now?: () => number
}

/** Long work beside everything else that a process does: after each few milliseconds the loop has a turn. */
export class Slices {
  readonly #turn: () => Promise<unknown>
  readonly #now: () => number
  #end: number

  constructor({ turn = () => turnOfLoop(), now = () => performance.now() }: SlicesOptions = {}) {
    this.#turn = turn
    this.#now = now
    this.#end = now() + HOLD
  }

  /** Runs the work to its end. What takes less than one slice is done without a turn of the loop. */
  async run<T>(steps: Steps<T>): Promise<T> {
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) return step.value
      if (this.due) await this.rest()
    }
  }

  /** Has the work held the loop long enough? */
  get due(): boolean {
    return this.#now() >= this.#end
  }

  async rest(): Promise<void> {
    await this.#turn()
    this.#end = this.#now() + HOLD
  }
}
