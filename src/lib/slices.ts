import { setTimeout as sleep, setImmediate as turnOfLoop } from 'node:timers/promises'

/** Long work in small steps, between which it can pause. A step should take well below a millisecond. */
export type Steps<T> = Generator<undefined, T, undefined>

/** Maximum time slice before yielding to the event loop (ms). A request takes several turns of the loop, each of which may wait this long. */
const HOLD = 2
/** Maximum time slice of background work (ms). */
const HOLD_BESIDE = 1
/** Rest of background work as a multiple of its working time, and its maximum (ms). */
const REST = { times: 2, longest: 50 }

/** Number of loop iterations per step. */
const PASSES = 16

/** Counts loop iterations of a few microseconds each, to pause only after several. */
export class Passes {
  #done = 0

  /** Called once per iteration; returns true at the end of a step. */
  due(): boolean {
    return ++this.#done % PASSES === 0
  }
}

/** Runs all steps synchronously; for small work. */
export function atOnce<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

export interface SlicesOptions {
  /**
   * Yields to the event loop after this many milliseconds of work.
   * @default `setImmediate`
   */
  readonly turn?: (worked: number) => Promise<unknown>
  /**
   * Monotonic time in milliseconds.
   * @default the system's clock
   */
  readonly now?: () => number
  /** Maximum time slice (ms). */
  readonly hold?: number
}

/** Runs long work in time slices that yield to the event loop. */
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

  /** Returns slices for background work of up to seconds: they leave two thirds of the time to requests, so that most are not delayed. */
  static besideTraffic(): Slices {
    const turn = (worked: number) => sleep(Math.min(REST.longest, worked * REST.times))
    return new Slices({ turn, hold: HOLD_BESIDE })
  }

  /** Runs all steps. Work shorter than a slice does not yield. */
  async run<T>(steps: Steps<T>): Promise<T> {
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) return step.value
      if (this.due) await this.rest()
    }
  }

  /** Returns whether the current slice is used up. */
  get due(): boolean {
    return this.#now() >= this.#begun + this.#hold
  }

  async rest(): Promise<void> {
    await this.#turn(this.#now() - this.#begun)
    this.#begun = this.#now()
  }
}
