import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { CountersOfLimits } from '../src/app/kept-counters.js'
import { SlidingWindow } from '../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../src/features/rate-limit/limiter/table.js'
import { systemClock } from '../src/lib/clock.js'

const [buckets = 10_000_000] = process.argv.slice(2).map(Number)
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-kept-'))
const budget = 2 ** 31
const options = {
  data: folder,
  limiter: { budget, scope: 'server' as const, short_windows: false, top_keys: true, checkpoint: 5_000 }
}
const log = pino({ level: 'info' })
const say = (text: string) => process.stdout.write(`${text}\n`)

/** Turns of the loop while something is done: how long 99 of 100 and 999 of 1,000 took at most, and the longest, in milliseconds. */
class Holds {
  readonly #holds: number[] = []
  #last = performance.now()
  #going = true

  constructor() {
    this.#turn()
  }

  end(): string {
    this.#going = false
    // Turns in which nothing was done say nothing.
    const sorted = this.#holds.sort((a, b) => a - b)
    const at = (share: number) => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(2)
    return `turns p99 ${at(0.99)}, p99.9 ${at(0.999)}, longest ${at(1)} ms`
  }

  #turn(): void {
    const now = performance.now()
    if (now - this.#last > 0.05) this.#holds.push(now - this.#last)
    this.#last = now
    if (this.#going) setImmediate(() => this.#turn())
  }
}

async function timed<T>(work: () => Promise<T>): Promise<[T, number]> {
  const begun = performance.now()
  const value = await work()
  return [value, performance.now() - begun]
}

try {
  const first = CountersOfLimits.find(options)
  const table = new LimiterTable({ clock: systemClock, budgetBytes: budget, logged: true })
  const window = new SlidingWindow(table, 'bench', 86_400)
  for (let i = 0; i < buckets; i += 1) window.take(`client-${i}`, 1_000)
  const idle = new Holds()
  await new Promise((resolve) => setTimeout(resolve, 5_000))
  say(`nothing for 5 s, to compare with: ${idle.end()}`)
  const keeping = await first?.keep({ table, clock: systemClock, log })
  if (keeping === undefined) throw new TypeError('nothing is kept')
  const path = join(folder, 'limits', 'counters')
  const size = () => statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const based = new Holds()
  const [, base] = await timed(async () => {
    while (size() === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  })
  say(
    `base of ${buckets} buckets: ${(base / 1_000).toFixed(1)} s beside traffic, ${based.end()}; ${(size() / 2 ** 20).toFixed(0)} MiB`
  )
  for (let i = 0; i < 60_000; i += 1) window.take(`client-${i}`, 1_000)
  const checked = new Holds()
  const [, checkpoint] = await timed(() => keeping.checkpoint())
  say(`checkpoint of 60000 admissions: ${checkpoint.toFixed(1)} ms, ${checked.end()}`)
  await keeping.close()
  const [found, begun] = await timed(async () => CountersOfLimits.find(options))
  const clock = found?.clock(systemClock) ?? systemClock
  const seed = found?.secret ?? new Uint8Array(16)
  const next = new LimiterTable({ clock, budgetBytes: budget, seed, logged: true })
  const [, read] = await timed(async () => await found?.fill({ table: next, log }))
  say(
    `a start reads it: ${begun.toFixed(2)} ms for its beginning, ${(read / 1_000).toFixed(2)} s for ${next.statistics().buckets} buckets`
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
