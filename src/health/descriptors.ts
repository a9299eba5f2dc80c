import { readdir, readFile, stat } from 'node:fs/promises'
import { codeOf } from '../lib/coded-error.js'
import type { DescriptorUse } from './reasons.js'

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

  /** As of the last look; undefined where the system does not tell. */
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

/** What Linux tells in /proc; elsewhere both reject. */
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
