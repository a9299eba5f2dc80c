import { fileURLToPath } from 'node:url'
import { systemClock } from '../src/lib/clock.js'
import { SlidingWindow } from '../src/limiter/sliding-window.js'
import { LimiterTable } from '../src/limiter/table.js'

export interface MicroResult {
  readonly name: string
  readonly nanoseconds: number
  readonly note?: string
}

const GIB = 2 ** 30
const MILLION = 1_000_000

/** Nanoseconds of one call of `step`, the middle of several rounds. */
function time(calls: number, step: (index: number) => void): number {
  const rounds: number[] = []
  for (let round = 0; round < 5; round += 1) {
    const start = performance.now()
    for (let index = 0; index < calls; index += 1) step(index)
    rounds.push(((performance.now() - start) * 1e6) / calls)
  }
  return rounds.sort((a, b) => a - b)[2]!
}

function hot(name: string, capacity: number): MicroResult {
  const table = new LimiterTable({ clock: systemClock })
  const window = new SlidingWindow(table, 'bench', 60)
  return { name, nanoseconds: time(MILLION, () => window.take('203.0.113.7', capacity)) }
}

function random(buckets: number): MicroResult {
  const table = new LimiterTable({ clock: systemClock })
  const window = new SlidingWindow(table, 'bench', 3_600)
  const keys = Array.from({ length: buckets }, (_, index) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`)
  for (const key of keys) window.take(key, 1_000)
  let place = 1
  const nanoseconds = time(MILLION, () => {
    place = (Math.imul(place, 1_664_525) + 1_013_904_223) >>> 0
    window.take(keys[place % buckets]!, 1_000)
  })
  return { name: `limiter: ${buckets / MILLION} M random buckets`, nanoseconds, note: perBucket(table) }
}

function perBucket(table: LimiterTable): string {
  const { bytesInUse, buckets } = table.statistics()
  return `${(bytesInUse / buckets).toFixed(1)} B a bucket in pages`
}

/** Inserts `buckets` keys and reports the mean and the longest insertion, and the memory that became resident. */
function insertion(buckets: number): MicroResult {
  const before = process.memoryUsage().rss
  const table = new LimiterTable({ clock: systemClock, budgetBytes: 2 * GIB })
  const reserved = process.memoryUsage().rss - before
  const window = new SlidingWindow(table, 'bench', 86_400)
  let longest = 0
  let slow = 0
  const start = performance.now()
  let last = start
  for (let index = 0; index < buckets; index += 1) {
    window.take(`client-${index}`, 1_000)
    const now = performance.now()
    const spent = now - last
    if (spent > longest) longest = spent
    if (spent > 1) slow += 1
    last = now
  }
  const resident = (process.memoryUsage().rss - before) / buckets
  return {
    name: `limiter: insert ${buckets / MILLION} M buckets`,
    nanoseconds: ((last - start) * 1e6) / buckets,
    note:
      `longest ${longest.toFixed(2)} ms, ${slow} above 1 ms; ${perBucket(table)}, ${resident.toFixed(0)} B resident; ` +
      `reserving cost ${(reserved / 2 ** 20).toFixed(1)} MiB`
  }
}

/** Decisions of the limiter, hash and clock included. `insertions` is how many buckets the growth measurement makes. */
export function limiterMicro(insertions = 10 * MILLION): MicroResult[] {
  return [
    hot('limiter: 1 hot bucket, admitted (counters)', 2_000_000_000),
    hot('limiter: 1 hot bucket, refused (ring)', 10),
    random(MILLION),
    insertion(insertions)
  ]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { name, nanoseconds, note } of limiterMicro()) {
    process.stdout.write(`${name}: ${nanoseconds.toFixed(0)} ns${note === undefined ? '' : ` (${note})`}\n`)
  }
}
