import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'

/** Milliseconds between samples; a sample holds them too. */
const RESOLUTION = 20
const WINDOW = 15_000

/** How late the event loop was. Seconds. */
export interface LoopDelays {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** How late timers run, as of the last whole window of 15 s and of what came since; reading them changes nothing. */
export class LoopDelay {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION })
  readonly #timer: NodeJS.Timeout
  #last: LoopDelays | undefined

  constructor() {
    this.#histogram.enable()
    this.#timer = setInterval(() => this.#turn(), WINDOW).unref()
  }

  /** Percentiles of the last whole window (before its end: of the one that runs); the longest delay of both. */
  get delays(): LoopDelays {
    const now = this.#now()
    return this.#last === undefined ? now : { ...this.#last, max: Math.max(this.#last.max, now.max) }
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#histogram.disable()
  }

  #turn(): void {
    this.#last = this.#now()
    this.#histogram.reset()
  }

  #now(): LoopDelays {
    const { count, max } = this.#histogram
    if (count === 0) return { p50: 0, p99: 0, max: 0 }
    return { p50: delay(this.#histogram.percentile(50)), p99: delay(this.#histogram.percentile(99)), max: delay(max) }
  }
}

/** A sample is the time from one timer to the next. Nanoseconds. */
function delay(sample: number): number {
  return Math.max(0, sample / 1e6 - RESOLUTION) / 1e3
}
