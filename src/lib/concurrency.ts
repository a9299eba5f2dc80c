/**
 * Waits for `work`, but no longer than `milliseconds`; resolves with its value, or undefined when the time was up. Work
 * that takes longer goes on, and a later failure of it is ignored. Rejects when the work fails in time.
 */
export async function atMost<T>(milliseconds: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), milliseconds)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
    work.catch(() => undefined)
  }
}

interface MutexLimit {
  readonly milliseconds: number
  readonly refusal: () => Error
}

/** A mutex: callers run one at a time, first come first served. */
export class Mutex {
  #last: Promise<void> = Promise.resolve()

  /**
   * Runs `work` when it is its turn and answers or fails as it does; what follows runs either way. With a `limit` it fails with the
   * refusal when its turn does not come in time.
   */
  async run<T>(work: () => Promise<T>, limit?: MutexLimit): Promise<T> {
    const waiting = this.acquire()
    const release = limit === undefined ? await waiting : await atMost(limit.milliseconds, waiting)
    if (release === undefined) {
      void waiting.then((late) => late())
      throw limit?.refusal()
    }
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Resolves, when it is the caller's turn, with the function that releases the mutex. */
  async acquire(): Promise<() => void> {
    const before = this.#last
    let release: () => void = () => undefined
    this.#last = new Promise((resolve) => {
      release = resolve
    })
    await before
    return release
  }
}

/**
 * Runs one piece of work, never twice at a time: all requests during a run lead to one more run after it, because that run may
 * have missed the news.
 */
export class Coalescer {
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

/** The first pause after a failure and the longest. Milliseconds. */
export interface BackoffRange {
  readonly first: number
  readonly longest: number
}

/** Keeps 2 to this power finite; from the first pause on it is far beyond any longest one. */
const MOST_DOUBLINGS = 30

/**
 * Milliseconds to wait after the `failures`th failure in a row (from 1): the pause doubles up to the longest. `random` in [0, 1)
 * takes up to half of it off, so that callers that failed together do not try again together.
 */
export function pauseAfter(failures: number, { first, longest }: BackoffRange, random = () => 0): number {
  const whole = Math.min(longest, first * 2 ** Math.min(failures - 1, MOST_DOUBLINGS))
  return whole * (1 - random() / 2)
}

/** Counts failures in a row and answers how long to wait after each, as `pauseAfter` does. */
export class Backoff {
  readonly #range: BackoffRange
  readonly #random: (() => number) | undefined
  #failures = 0

  /** `random` gives numbers in [0, 1); without it the pauses are whole. */
  constructor(range: BackoffRange, random?: () => number) {
    this.#range = range
    this.#random = random
  }

  /** Milliseconds to wait after one more failure. */
  next(): number {
    this.#failures++
    return pauseAfter(this.#failures, this.#range, this.#random)
  }

  /** An attempt has succeeded: the next pause is the first again. */
  reset(): void {
    this.#failures = 0
  }
}

/** Something that is tried again and again: the first failure of a row is worth a line of the log, the others say nothing new. */
export class FirstFailure {
  #failing = false

  /** It failed: calls `logFailure` unless it had failed before as well. */
  failed(logFailure: () => void): void {
    if (this.#failing) return
    this.#failing = true
    logFailure()
  }

  /** It succeeded. */
  passed(): void {
    this.#failing = false
  }
}
