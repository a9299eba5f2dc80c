import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { CountersOfLimits } from '../../../../src/app/kept-counters.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { clockOrigin, systemClock } from '../../../../src/lib/clock.js'
import { until } from '../../../helpers/until.js'
import type { TakingData } from '../limiter/taking-thread.js'

const BUDGET = 16 * 2 ** 20
const KEYS = 30_000
const CAPACITY = 4
const RATE = 86_400
const THREADS = 2

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-threads-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'limits'))
  return folder
}

const fileIn = (folder: string) => join(folder, 'limits', 'counters')

/** A table as a process on `folder` has it. */
async function open(folder: string) {
  const counters = CountersOfLimits.find({
    data: folder,
    limiter: { budget: BUDGET, scope: 'server', short_windows: false, top_keys: true, checkpoint: 3_600_000 }
  })
  if (counters === undefined) throw new TypeError('nothing is kept')
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
  const clock = counters.clock(systemClock)
  const { secret } = counters
  const about = { budgetBytes: BUDGET, clock, logged: true }
  const table = new LimiterTable(secret === undefined ? about : { ...about, seed: secret })
  await counters.fill({ table, log })
  const window = new SlidingWindow(table, 'shared', RATE)
  const held = () => Array.from({ length: KEYS }, (_, key) => window.inspect(`key ${key}`).count)
  return { table, clock, lines, held, keep: () => counters.keep({ table, clock, log }) }
}

function taking(data: TakingData): Worker {
  return new Worker(new URL('../limiter/taking-thread.js', import.meta.url), { workerData: data })
}

const lengthOf = (log: SharedArrayBuffer) => Atomics.load(new Int32Array(log), 0)

/** How much was admitted of each key, by the first so many records of each log. */
function admitted(logs: readonly SharedArrayBuffer[], lengths: readonly number[]): number[] {
  const counts = new Array<number>(KEYS).fill(0)
  for (const [i, log] of logs.entries()) {
    const numbers = new Float64Array(log, 8)
    for (let place = 0; place < lengths[i]!; place += 1) counts[numbers[2 * place]!]! += 1
  }
  return counts
}

t.test('what threads admit beside checkpoints and bases is kept: after a kill, and after a stop', async (t) => {
  for (let round = 1; round <= 4; round += 1) {
    const folder = folderOf(t)
    const first = await open(folder)
    const keeping = await first.keep()
    await keeping.checkpoint()
    const logs = Array.from({ length: THREADS }, () => new SharedArrayBuffer(8 + KEYS * CAPACITY * 16))
    const threads = logs.map((log, i) =>
      taking({
        handle: first.table.share(i + 1),
        clockOrigin: clockOrigin(first.clock),
        haste: 1,
        seed: 10 * round + i,
        keys: KEYS,
        capacity: CAPACITY,
        rate: RATE,
        log
      })
    )
    const count = () => logs.reduce((sum, log) => sum + lengthOf(log), 0)
    // A quarter, a half, and so on of all that will be admitted.
    await until(() => count() > (KEYS * CAPACITY * round) / 5)
    // A new base is written while they go on.
    await keeping.pause()
    keeping.resume()
    await keeping.checkpoint()
    // These decisions have been answered.
    const answered = logs.map(lengthOf)
    await keeping.checkpoint()
    const killed = folderOf(t)
    copyFileSync(fileIn(folder), fileIn(killed))
    await until(() => count() > KEYS * CAPACITY * 0.98)
    await Promise.all(threads.map((thread) => thread.terminate()))
    for (let i = 0; i < THREADS; i += 1) first.table.repair(i + 1)
    await keeping.close()
    t.same(first.lines, [])
    const afterKill = (await open(killed)).held()
    const least = admitted(logs, answered)
    t.same(
      afterKill.filter((held, key) => held < least[key]!),
      [],
      `round ${round}: nothing that was admitted before the checkpoint is lost`
    )
    const all = admitted(logs, logs.map(lengthOf))
    const afterStop = (await open(folder)).held()
    t.same(
      afterStop.filter((held, key) => held < all[key]!),
      [],
      `round ${round}: nothing is lost by a stop`
    )
    const twice = afterStop.filter((held, key) => held > all[key]!)
    t.ok(twice.length < 10, `${twice.length} buckets count an admission twice`)
  }
})
