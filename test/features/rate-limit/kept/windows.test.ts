import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Checkpoints } from '../../../../src/features/rate-limit/kept/checkpoints.js'
import { type Admission, handOver } from '../../../../src/features/rate-limit/kept/hand-over.js'
import { KeptCounters } from '../../../../src/features/rate-limit/kept/reading.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { until } from '../../../helpers/until.js'
import { HandClock } from '../limiter/support/exact-log.js'

const SEED = new Uint8Array(16).fill(5)
const WINDOWS = [1, 5, 7, 59, 60, 3_600, 86_400]
const REPORT = {
  failed: (error: unknown) => {
    throw error
  },
  recovered: () => undefined,
  lost: () => undefined,
  ousted: () => undefined
}

function tableOf(clock: HandClock, budgetBytes = 256 * 1_024) {
  const table = new LimiterTable({ clock, budgetBytes, seed: SEED, logged: true })
  return { table, windows: WINDOWS.map((seconds) => new SlidingWindow(table, 'kept', seconds)) }
}

function fileIn(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-windows-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'counters')
}

function fill(path: string, table: LimiterTable): void {
  const kept = KeptCounters.open(path)
  try {
    kept?.check()
    kept?.fill(table.contents)
  } finally {
    kept?.close()
  }
}

t.test('a kept file has windows of every length: rings, counters, and admissions of the log', async (t) => {
  const path = fileIn(t)
  const clock = new HandClock(5_000_000)
  const { table, windows } = tableOf(clock)
  const admit = () => {
    for (const window of windows) {
      for (let i = 0; i < 3; i += 1) window.take('ring', 10)
      window.take('counters', 1_000_000, 70_000)
    }
  }
  admit()
  const writing = new Checkpoints({ table, clock, path, interval: 3_600_000, report: REPORT }, undefined)
  await writing.checkpoint()
  clock.now += 500
  admit()
  await writing.close()
  const after = tableOf(new HandClock(clock.now + 100))
  fill(path, after.table)
  for (const [i, window] of after.windows.entries()) {
    const message = `${WINDOWS[i]} s`
    t.equal(window.inspect('ring').count, 6, message)
    t.equal(window.inspect('counters').count, 140_000, message)
  }
  t.notOk(after.windows[0]?.take('ring', 6).admitted)
})

t.test('what a full budget has put into the sketch is kept for short windows too', async (t) => {
  const path = fileIn(t)
  const clock = new HandClock(5_000_000)
  const { table } = tableOf(clock)
  const window = new SlidingWindow(table, 'many', 7)
  for (let key = 0; key < 9_000; key += 1) window.take(`client ${key}`, 2)
  t.ok(table.statistics().folded > 0)
  const writing = new Checkpoints({ table, clock, path, interval: 3_600_000, report: REPORT }, undefined)
  await writing.checkpoint()
  await writing.close()
  const after = tableOf(clock, 2 ** 20)
  fill(path, after.table)
  const again = new SlidingWindow(after.table, 'many', 7)
  let forgotten = 0
  for (let key = 0; key < 9_000; key += 1) if (again.inspect(`client ${key}`).count < 1) forgotten += 1
  t.equal(forgotten, 0)
})

t.test('a process that hands over names the seconds of each window', async (t) => {
  const clock = new HandClock(5_000_000)
  const { table, windows } = tableOf(clock)
  const path = fileIn(t)
  windows[0]?.take('before', 10)
  const later: Admission[] = []
  t.teardown(await handOver(table, clock, path, (admissions) => later.push(...admissions)))
  for (const [i, window] of windows.entries()) window.take('later', 10, i + 1)
  await until(() => later.length === WINDOWS.length)
  t.same(
    later.map(([, , seconds, cost]) => [seconds, cost]),
    WINDOWS.map((seconds, i) => [seconds, i + 1])
  )
  const after = tableOf(clock)
  fill(path, after.table)
  t.equal(after.windows[0]?.inspect('before').count, 1)
})

/** Written by the version before windows below a minute: a ring of 60 s, counters of 3,600 s, a day in the log. */
const OLD =
  'c2x1aWNlbGMBAAAAAgAAAAUFBQUFBQUFBQUFBQUFBQUCAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAALpCxbQAAAAAAwHNAAAAAAMCjLkEAAJ5L/7x4QlJ4xocAAAAAAA' +
  'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAOwrbOABAAAAXAAAAAAAAAAAAAAAAAAAAAAAAADXriOvz5Xc8wAAAAAAAAAAAAAAAAUAAAAAAAAA8JsuQQSeBj/cTMorAQCi' +
  'BfhNDwBkAAAAAQAAAAAAAAAAAAAABgAAAAAAAADwmy5BLwDen3pT+VADABgAQEIPAChGDwAQSg8AAwAAACAAAAACAAAAAAAAAAAAAADAoy5BxyvgxS7ZlIhcC8JuChNMPA' +
  'cAAIcA4FEPLwDen3pT+VABABgAAOBRDw=='

t.test('a file of the version before is read', async (t) => {
  const path = fileIn(t)
  writeFileSync(path, Buffer.from(OLD, 'base64'))
  const { table, windows } = tableOf(new HandClock(1_004_000))
  fill(path, table)
  const used = (seconds: number, key: string) => windows[WINDOWS.indexOf(seconds)]?.inspect(key).count
  t.same([used(60, 'ring'), used(3_600, 'dense'), used(86_400, 'day')], [4, 100, 7])
})
