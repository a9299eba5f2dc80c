import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Checkpoints } from '../../../../src/features/rate-limit/kept/checkpoints.js'
import { KeptCounters } from '../../../../src/features/rate-limit/kept/reading.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { systemClock } from '../../../../src/lib/clock.js'

/** How long a thread has a part without a processor to give it back. Milliseconds. */
const HELD = 150

t.test('a base waits for a part whose thread gets no processor for a while', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-taken-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'counters')
  const table = new LimiterTable({ budgetBytes: 2 ** 20, clock: systemClock, logged: true })
  const window = new SlidingWindow(table, 'taken', 60)
  for (let key = 0; key < 100; key++) window.take(`key ${key}`, 5)
  const { contents } = table
  const part = contents.part.bind(contents)
  const until = performance.now() + HELD
  contents.part = (...asked) => (performance.now() < until ? undefined : part(...asked))
  const failures: unknown[] = []
  const report = {
    failed: (error: unknown) => failures.push(error),
    recovered: () => undefined,
    lost: () => undefined,
    ousted: () => undefined
  }
  const writing = new Checkpoints({ table, clock: systemClock, path, interval: 3_600_000, report }, undefined)
  await writing.close()
  t.same(failures, [])
  const kept = KeptCounters.open(path)
  t.teardown(() => kept?.close())
  kept?.check()
  t.equal(kept?.head.buckets, 100)
})
