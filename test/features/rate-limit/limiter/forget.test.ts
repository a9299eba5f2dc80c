import t from 'tap'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { ExactLog, HandClock } from './support/exact-log.js'
import { random, whole } from './support/random.js'

const RUNS = process.env.SLUICE_TEST_LONG === '1' ? 200 : 15
const SEED = new Uint8Array(16).fill(5)

t.test('what is forgotten counts no more, and nothing else changes', async (t) => {
  const wrong: string[] = []
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const next = random(seed)
    const clock = new HandClock(whole(next, 1, 2 ** 33))
    const table = new LimiterTable({ clock, budgetBytes: 8 * 2 ** 20, seed: SEED })
    const window = new SlidingWindow(table, 'forget', 600)
    const logs = new Map<string, ExactLog>()
    const keys = whole(next, 1, 400)
    for (let step = 0; step < 20_000; step += 1) {
      clock.now += next() < 0.001 ? 700_000 : next() * 200
      const key = `k${Math.floor(keys * next() ** 2)}`
      const log = logs.get(key) ?? new ExactLog()
      logs.set(key, log)
      if (next() < 0.02) {
        window.forget(key)
        logs.delete(key)
        if (window.peek(key, 5).used !== 0) wrong.push(`seed ${seed}, step ${step}: ${key} is not empty`)
        continue
      }
      const last = log.last
      const { admitted, before, remaining } = window.take(key, 100)
      const live = log.count(clock.now, 600_000)
      if (before !== (live === 0 ? -1 : last)) wrong.push(`seed ${seed}, step ${step}: before ${before}, not ${last}`)
      if (!admitted) {
        if (log.count(clock.now, 605_000) < 100) wrong.push(`seed ${seed}, step ${step}: refused at ${live}`)
        continue
      }
      log.add(clock.now, 1)
      if (remaining > 99 - live) wrong.push(`seed ${seed}, step ${step}: ${remaining} remain of ${99 - live}`)
    }
    const { buckets } = table.statistics()
    clock.now += 700_000
    while (table.sweep(1_000) > 0);
    if (table.statistics().buckets !== 0) wrong.push(`seed ${seed}: ${table.statistics().buckets} of ${buckets} stay`)
  }
  t.same(wrong.slice(0, 3), [])
})

t.test('a look says what a decision would say, and changes nothing', async (t) => {
  const wrong: string[] = []
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const next = random(seed)
    const clock = new HandClock(whole(next, 1, 2 ** 33))
    const table = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
    const window = new SlidingWindow(table, 'peek', 3_600)
    // So that what is folded takes part.
    for (let key = 0; key < 20_000; key += 1) window.take(`rare ${key}`, 9)
    for (let step = 0; step < 8_000; step += 1) {
      clock.now += next() * 40
      const key = next() < 0.5 ? `often ${whole(next, 1, 20)}` : `rare ${whole(next, 1, 9_000)}`
      const capacity = whole(next, 1, 90)
      const seen = window.peek(key, capacity)
      const again = window.peek(key, capacity)
      const { admitted, remaining, retryAfterSeconds, resetSeconds, before } = window.take(key, capacity)
      const says = admitted
        ? seen.retryAfterSeconds === 0 && seen.remaining === remaining + 1
        : seen.retryAfterSeconds === retryAfterSeconds && seen.remaining === 0 && seen.resetSeconds === resetSeconds
      if (!says || seen.before !== before || seen.used !== again.used || seen.folded > seen.used)
        wrong.push(`seed ${seed}, step ${step}: ${JSON.stringify([seen, admitted, remaining, retryAfterSeconds])}`)
    }
    if (table.statistics().folded === 0) wrong.push(`seed ${seed} never came under pressure`)
  }
  t.same(wrong.slice(0, 3), [])
})

t.test('what is in the sketch stays, and is said', async (t) => {
  const clock = new HandClock(1_000_000)
  const table = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
  const window = new SlidingWindow(table, 'shared', 3_600)
  for (let request = 0; request < 10; request += 1) window.take('client', 10)
  for (let index = 0; index < 50_000; index += 1) window.take(`flood ${index}`, 100)
  const before = window.peek('client', 10)
  t.ok(before.folded >= 10, `${before.folded} are folded`)
  window.forget('client')
  const { used, folded } = window.peek('client', 10)
  t.equal(used, folded)
  t.ok(folded >= 10)
  t.notOk(window.take('client', 10).admitted)
})
