import { fileURLToPath } from 'node:url'
import { SlidingWindow } from '../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../src/features/rate-limit/limiter/table.js'
import { systemClock } from '../src/lib/clock.js'

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

/** What the log of admissions adds, which its keeper takes now and then. */
function logged(name: string): MicroResult {
  const table = new LimiterTable({ clock: systemClock, logged: true })
  const window = new SlidingWindow(table, 'bench', 60)
  const [log] = table.logs.values()
  const nanoseconds = time(MILLION, (index) => {
    if ((index & 0xffff) === 0) log?.take(log.waiting().records)
    window.take('203.0.113.7', 2_000_000_000)
  })
  return { name, nanoseconds, note: `${log?.takeLost()} lost` }
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

/** Inserts `buckets` keys; the time of every insertion, and the bytes that became resident for each. */
function insert(buckets: number): { times: Float32Array; resident: number; reserved: number; table: LimiterTable } {
  const times = new Float32Array(buckets).fill(0)
  const before = process.memoryUsage().rss
  const table = new LimiterTable({ clock: systemClock, budgetBytes: 2 * GIB, seed: new Uint8Array(16) })
  const reserved = process.memoryUsage().rss - before
  const window = new SlidingWindow(table, 'bench', 86_400)
  let last = performance.now()
  for (let index = 0; index < buckets; index += 1) {
    window.take(`client-${index}`, 1_000)
    const now = performance.now()
    times[index] = now - last
    last = now
  }
  return { times, resident: (process.memoryUsage().rss - before) / buckets, reserved, table }
}

/**
 * The mean and the longest insertion. All are made twice with one secret, and the shorter time of each counts: growth
 * comes at the same place again, what the machine does in between does not.
 */
function insertion(buckets: number): MicroResult {
  const first = insert(buckets)
  const { times } = insert(buckets)
  let [sum, longest, slow] = [0, 0, 0]
  for (let index = 0; index < buckets; index += 1) {
    sum += first.times[index]!
    const least = Math.min(times[index]!, first.times[index]!)
    if (least > longest) longest = least
    if (least > 1) slow += 1
  }
  return {
    name: `limiter: insert ${buckets / MILLION} M buckets`,
    nanoseconds: (sum * 1e6) / buckets,
    note:
      `longest ${longest.toFixed(2)} ms, ${slow} above 1 ms; ${perBucket(first.table)}, ` +
      `${first.resident.toFixed(0)} B resident; reserving 2 GiB cost ${(first.reserved / 2 ** 20).toFixed(1)} MiB`
  }
}

/** Decisions of the limiter, hash and clock included. `insertions` is how many buckets the growth measurement makes. */
export function limiterMicro(insertions = 10 * MILLION): MicroResult[] {
  // First, so that memory of the other tables that is given back does not hide what this one takes.
  const grown = insertion(insertions)
  return [
    hot('limiter: 1 hot bucket, admitted (counters)', 2_000_000_000),
    logged('limiter: 1 hot bucket, admitted (counters), logged'),
    hot('limiter: 1 hot bucket, refused (ring)', 10),
    random(MILLION),
    grown
  ]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { name, nanoseconds, note } of limiterMicro()) {
    process.stdout.write(`${name}: ${nanoseconds.toFixed(0)} ns${note === undefined ? '' : ` (${note})`}\n`)
  }
}
