import { setTimeout as sleep, setImmediate as turnOfLoop } from 'node:timers/promises'

/** Long work in small steps: between two of them it may rest. A step should take well below a millisecond. */
export type Steps<T> = Generator<undefined, T, undefined>

/**
 * Milliseconds that long work may hold the loop at a stretch. A request takes several turns of the loop, each of which may
 * wait so long.
 */
const HOLD = 2
/** The same for work that makes room for traffic. */
const HOLD_BESIDE = 1
/** How often work that makes room for traffic rests as long as it has worked; milliseconds at most. */
const REST = { times: 2, longest: 50 }

/** How many passes of a loop make a step. */
const PASSES = 16

/** Counts the passes of a loop that take a few microseconds each: a rest may follow some of them, not each one. */
export class Passes {
  #done = 0

  /** Call it once a pass: true when a step has come to its end. */
  due(): boolean {
    return ++this.#done % PASSES === 0
  }
}

/** The work in one go: for what is known to be small. */
export function atOnce<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

export interface SlicesOptions {
  /** Gives the loop a turn, after so many milliseconds of work; absent: `setImmediate`. */
  readonly turn?: (worked: number) => Promise<unknown>
  /** Milliseconds of a clock that only goes forward; absent: the system's. */
  readonly now?: () => number
  /** Milliseconds that the work may hold the loop at a stretch. */
  readonly hold?: number
}

/** Long work beside everything else that a process does: after each few milliseconds the loop has a turn. */
export class Slices {
  readonly #turn: (worked: number) => Promise<unknown>
  readonly #now: () => number
  readonly #hold: number
  #begun: number

  constructor({ turn = () => turnOfLoop(), now = () => performance.now(), hold = HOLD }: SlicesOptions = {}) {
    this.#turn = turn
    this.#now = now
    this.#hold = hold
    this.#begun = now()
  }

  /** Work that may take seconds beside traffic: it leaves two thirds of the time to requests, so that most of them never meet it. */
  static besideTraffic(): Slices {
    const turn = (worked: number) => sleep(Math.min(REST.longest, worked * REST.times))
    return new Slices({ turn, hold: HOLD_BESIDE })
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
    return this.#now() >= this.#begun + this.#hold
  }

  async rest(): Promise<void> {
    await this.#turn(this.#now() - this.#begun)
    this.#begun = this.#now()
  }
}
