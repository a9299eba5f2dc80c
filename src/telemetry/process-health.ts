import { readdir, readFile, stat } from 'node:fs/promises'
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import { codeOf } from '../lib/errors.js'
import type { DescriptorUse } from './health.js'

/** Shares of the descriptor limit: short from the first, normal again below the second. */
const SHORT = { from: 0.9, until: 0.8 }

/** Descriptor counts of the system. */
export interface DescriptorCounts {
  /** Rejects with `EMFILE` or `ENFILE` if no descriptor is left for counting. */
  used(): Promise<number>
  allowed(): Promise<number>
}

/**
 * Number of open file descriptors and their limit. At the limit the kernel refuses connections without notifying the process, so the count
 * must warn earlier.
 */
export class Descriptors {
  readonly #counts: DescriptorCounts
  #allowed: number | undefined
  #use: DescriptorUse | undefined
  #looking = false

  constructor(counts: DescriptorCounts = procCounts) {
    this.#counts = counts
  }

  /** Result of the last check; undefined if the system does not report it. */
  get use(): DescriptorUse | undefined {
    return this.#use
  }

  /** Checks again; never rejects. */
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
    // The limit may change at run time; without a free descriptor the last known value is used.
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

/** Returns the limit of open files; undefined if the system does not report it (it is not Linux). */
export function openFilesAllowed(): Promise<number | undefined> {
  return orNothing(procCounts.allowed())
}

/** Reads /proc of Linux; rejects on other systems. */
const procCounts: DescriptorCounts = {
  async used() {
    // Linux 6.2 and newer return the count without opening anything (proc_pid_fd(5)).
    const { size } = await stat('/proc/self/fd')
    return size > 0 ? size : (await readdir('/proc/self/fd')).length - 1
  },
  async allowed() {
    const limits = await readFile('/proc/self/limits', 'utf8')
    const soft = /^Max open files\s+(\S+)/m.exec(limits)?.[1]
    return soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft)
  }
}

/** Interval between samples, which each sample includes (ms). */
const RESOLUTION = 20
/** Length of one window (ms). */
const WINDOW = 15_000

/** Event loop delays in seconds. */
export interface LoopDelays {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** Returns delays in milliseconds with three decimals, as the API shows them. */
export function delaysInMilliseconds({ p50, p99, max }: LoopDelays): LoopDelays {
  const rounded = (seconds: number) => Math.round(seconds * 1_000 * 1_000) / 1_000
  return { p50: rounded(p50), p99: rounded(p99), max: rounded(max) }
}

/** Delay of timers over the last complete window of 15 s and the current one; reading changes nothing. */
export class LoopDelay {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION })
  readonly #timer: NodeJS.Timeout
  #last: LoopDelays | undefined

  constructor() {
    this.#histogram.enable()
    this.#timer = setInterval(() => this.#turn(), WINDOW).unref()
  }

  /** Percentiles of the last complete window (the current one if there is none yet); the maximum of both. */
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

/** Converts a sample, the time between two timers in nanoseconds, to a delay in seconds. */
function delay(sample: number): number {
  return Math.max(0, sample / 1e6 - RESOLUTION) / 1e3
}
