import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { CountersOfLimits, type KeepingCounters } from '../../../../src/app/kept-counters.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import type { Clock } from '../../../../src/lib/clock.js'

interface Test {
  teardown(run: () => void): void
}

/** Time as it is, and as the machine shows it: a machine counts from its own start, and somebody may set its clock. */
class World {
  now = 1_700_000_000_000
  /** What the wall clock is ahead. */
  ahead = 0
  #booted = this.now - 5_000

  /** The machine starts anew. */
  boots(): void {
    this.#booted = this.now
  }

  get clock(): Clock {
    return { monotonic: () => this.now - this.#booted, wall: () => this.now + this.ahead }
  }
}

/** One process: what it has counted, and its way to the file. */
export interface Process {
  readonly table: LimiterTable
  readonly keeping: KeepingCounters
  readonly lines: Record<string, unknown>[]
  window(identity: string, seconds: number): SlidingWindow
}

export const MEBIBYTE = 2 ** 20

/** A data folder, and processes that follow one another on it. */
export class Machine {
  readonly world = new World()
  #folder: string
  readonly #made: string[] = []
  #open: KeepingCounters[] = []

  constructor(t: Test) {
    this.#folder = this.#make()
    t.teardown(() => {
      for (const keeping of this.#open) void keeping.close()
      for (const folder of this.#made) rmSync(folder, { recursive: true, force: true })
    })
  }

  get file(): string {
    return join(this.#folder, 'limits', 'counters')
  }

  async start(budget = 8 * MEBIBYTE): Promise<Process> {
    const lines: Record<string, unknown>[] = []
    const log = pino({ level: 'debug' }, { write: (text: string) => lines.push(JSON.parse(text)) })
    const options = {
      data: this.#folder,
      limiter: { budget, scope: 'server' as const, short_windows: false, top_keys: true, checkpoint: 3_600_000 }
    }
    const counters = CountersOfLimits.find(options)
    if (counters === undefined) throw new TypeError('nothing is kept')
    const clock = counters.clock(this.world.clock)
    const { secret } = counters
    const about = { budgetBytes: budget, clock, logged: true }
    const table = new LimiterTable(secret === undefined ? about : { ...about, seed: secret })
    await counters.fill({ table, log })
    const keeping = await counters.keep({ table, clock, log })
    this.#open.push(keeping)
    const windows = new Map<string, SlidingWindow>()
    const window = (identity: string, seconds: number) => {
      const name = `${identity} ${seconds}`
      const known = windows.get(name) ?? new SlidingWindow(table, identity, seconds)
      windows.set(name, known)
      return known
    }
    return { table, keeping, lines, window }
  }

  async stop({ keeping }: Process): Promise<void> {
    await keeping.close()
    this.#open = this.#open.filter((one) => one !== keeping)
  }

  /** What is on the disk now is what a next process finds; this one writes elsewhere from now on. */
  kill(): void {
    const copy = this.#make()
    cpSync(this.#folder, copy, { recursive: true })
    this.#folder = copy
  }

  #make(): string {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-kept-'))
    this.#made.push(folder)
    return folder
  }
}
