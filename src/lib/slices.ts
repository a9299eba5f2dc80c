import { setTimeout as sleep, setImmediate as turnOfLoop } from 'node:timers/promises'
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Long work in small steps: between two of them it may rest. A step should take well below a millisecond. */
export type Steps<T> = Generator<undefined, T, undefined>

/**
 * Milliseconds that long work may hold the loop at a stretch. A request takes several turns of the loop, each of which may
 * wait so long.
 */
const HOLD = 2
/** The same for work that makes room for traffic. */
const HOLD_BESIDE = 1
/** How often work that makes room for traffic rests as long as it has worked, collections of garbage included; milliseconds at most. */
const REST = { times: 2, longest: 50 }
/**
 * Bytes of the young generation that work beside traffic lets fill up. Nearly all of what it makes is kept, so a collection
 * copies it: some two milliseconds for so much, more than ten for all that the generation holds.
 */
const YOUNG = 2 * 1024 * 1024

/** After steps that took less milliseconds together, the clock is not looked at for so many. */
const SHORT = 0.02
const UNSEEN = 7

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
  /** Called at the end of each stretch; its time counts as work. */
  readonly tidy?: () => void
}

/** Long work beside everything else that a process does: after each few milliseconds the loop has a turn. */
export class Slices {
  readonly #turn: (worked: number) => Promise<unknown>
  readonly #now: () => number
  readonly #hold: number
  readonly #tidy: (() => void) | undefined
  #begun: number

  constructor({ turn = () => turnOfLoop(), now = () => performance.now(), hold = HOLD, tidy }: SlicesOptions = {}) {
    this.#turn = turn
    this.#now = now
    this.#hold = hold
    this.#tidy = tidy
    this.#begun = now()
  }

  /**
   * Work that may take seconds beside traffic: it leaves two thirds of the time to requests, so that most of them never meet it.
   */
  static besideTraffic(): Slices {
    const turn = (worked: number) => sleep(Math.min(REST.longest, worked * REST.times))
    return new Slices({ turn, hold: HOLD_BESIDE, tidy: collectYoung })
  }

  /** Runs the work to its end. What takes less than one slice is done without a turn of the loop. */
  async run<T>(steps: Steps<T>): Promise<T> {
    let unseen = 0
    let last = this.#now()
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) return step.value
      if (unseen > 0) {
        unseen--
        continue
      }
      const now = this.#now()
      if (now >= this.#begun + this.#hold) {
        await this.rest()
        last = this.#begun
      } else {
        // To look at the clock costs more than many a step.
        unseen = now - last < SHORT ? UNSEEN : 0
        last = now
      }
    }
  }

  /** Has the work held the loop long enough? */
  get due(): boolean {
    return this.#now() >= this.#begun + this.#hold
  }

  async rest(): Promise<void> {
    this.#tidy?.()
    await this.#turn(this.#now() - this.#begun)
    this.#begun = this.#now()
  }
}

/**
 * Collects the young generation when it holds much, so that the engine does not do it in the middle of a request with all that
 * it holds. Does nothing where the engine gives no way to ask for a collection.
 */
function collectYoung(): void {
  const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')
  if (young !== undefined && young.space_used_size > YOUNG) collector()?.({ type: 'minor' })
}

type Collector = (options: { readonly type: 'minor' }) => unknown

let found: { readonly collect: Collector | undefined } | undefined

/** The engine shows its collector to contexts that begin while its flag is set; nothing else of the process gets to see it. */
function collector(): Collector | undefined {
  if (found === undefined) {
    setFlagsFromString('--expose-gc')
    const collect: unknown = runInNewContext('globalThis.gc')
    setFlagsFromString('--no-expose-gc')
    found = { collect: typeof collect === 'function' ? (collect as Collector) : undefined }
  }
  return found.collect
}
