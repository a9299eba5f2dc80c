/**
 * Waits for `work` for at most `milliseconds`; resolves with its value, or undefined after the timeout. Work continues after the timeout,
 * and a later failure is ignored. Rejects if the work fails in time.
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
   * Runs `work` when the mutex is free and returns its result or failure; the next caller runs either way. With a `limit`, rejects if the
   * mutex is not free in time.
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

  /** Resolves with the release function when the caller owns the mutex. */
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

/** Runs one piece of work without overlap: requests during a run cause one more run, because the running call may have missed the change. */
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

  /** Waits until earlier requests have run. */
  async answered(): Promise<void> {
    await this.#running
    await this.#running
  }

  /** Drops pending requests and waits for the current run. */
  async settle(): Promise<void> {
    this.#again = false
    await this.#running
  }
}

/** First and longest pause after failures (ms). */
export interface BackoffRange {
  readonly first: number
  readonly longest: number
}

/** Maximum exponent of 2, to keep pauses finite; far beyond any longest pause. */
const MOST_DOUBLINGS = 30

/**
 * Milliseconds to wait after the `failures`th failure in a row (from 1): the pause doubles up to the longest. `random` in [0, 1)
 * takes up to half of it off, so that callers that failed together do not try again together.
 */
export function pauseAfter(failures: number, { first, longest }: BackoffRange, random = () => 0): number {
  const whole = Math.min(longest, first * 2 ** Math.min(failures - 1, MOST_DOUBLINGS))
  return whole * (1 - random() / 2)
}

/** Counts consecutive failures and returns the pause after each, see `pauseAfter`. */
export class Backoff {
  readonly #range: BackoffRange
  readonly #random: (() => number) | undefined
  #failures = 0

  /**
   * `random` returns numbers in [0, 1).
   * @default full pauses
   */
  constructor(range: BackoffRange, random?: () => number) {
    this.#range = range
    this.#random = random
  }

  /** Records a failure and returns the pause (ms). */
  next(): number {
    this.#failures++
    return pauseAfter(this.#failures, this.#range, this.#random)
  }

  /** Records a success: the next pause is the first again. */
  reset(): void {
    this.#failures = 0
  }
}

/** Logs only the first of consecutive failures. */
export class FirstFailure {
  #failing = false

  /** Records a failure; calls `logFailure` unless the previous attempt failed, too. */
  failed(logFailure: () => void): void {
    if (this.#failing) return
    this.#failing = true
    logFailure()
  }

  /** Records a success. */
  passed(): void {
    this.#failing = false
  }
}
