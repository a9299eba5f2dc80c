import { readdir, readFile, stat } from 'node:fs/promises'
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import { codeOf } from '../lib/errors.js'
import type { DescriptorUse } from './health.js'

/** Shares of the allowed descriptors: short from the first one on, and no longer below the second. */
const SHORT = { from: 0.9, until: 0.8 }

/** What the system says of descriptors. */
export interface DescriptorCounts {
  /** Rejects with `EMFILE` or `ENFILE` when there is none left to look with. */
  used(): Promise<number>
  allowed(): Promise<number>
}

/**
 * Keeps how many file descriptors the process has open and may have. The kernel refuses connections without telling this
 * process when there are none left, so the count has to say it before.
 */
export class Descriptors {
  readonly #counts: DescriptorCounts
  #allowed: number | undefined
  #use: DescriptorUse | undefined
  #looking = false

  constructor(counts: DescriptorCounts = procCounts) {
    this.#counts = counts
  }

  /** As of the last look; undefined where the system does not show it. */
  get use(): DescriptorUse | undefined {
    return this.#use
  }

  /** Looks again; never rejects. */
  async look(): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    try {
      await this.#look()
    } finally {
      this.#looking = false
    }
  }

  async #look(): Promise<void> {
    // The limit may be changed from outside; with no descriptor left the last one known has to do.
    this.#allowed = (await orNothing(this.#counts.allowed())) ?? this.#allowed
    const allowed = this.#allowed
    if (allowed === undefined) return
    const used = await this.#counts.used().catch((error: unknown) => (isExhausted(error) ? allowed : undefined))
    if (used === undefined) return
    const share = this.#use?.short === true ? SHORT.until : SHORT.from
    this.#use = { used, allowed, short: used >= allowed * share }
  }
}

async function orNothing<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch {
    return undefined
  }
}

function isExhausted(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'EMFILE' || code === 'ENFILE'
}

/** Files that the process may have open; undefined where the system does not show it (it is not Linux). */
export function openFilesAllowed(): Promise<number | undefined> {
  return orNothing(procCounts.allowed())
}

/** Read from /proc of Linux; elsewhere both reject. */
const procCounts: DescriptorCounts = {
  async used() {
    // Linux 6.2 and newer answer without opening anything (proc_pid_fd(5)).
    const { size } = await stat('/proc/self/fd')
    return size > 0 ? size : (await readdir('/proc/self/fd')).length - 1
  },
  async allowed() {
    const limits = await readFile('/proc/self/limits', 'utf8')
    const soft = /^Max open files\s+(\S+)/m.exec(limits)?.[1]
    return soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft)
  }
}

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
