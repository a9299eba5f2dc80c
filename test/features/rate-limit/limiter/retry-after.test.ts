import t from 'tap'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { HandClock } from './support/exact-log.js'
import { random, whole } from './support/random.js'

const RUNS = process.env.SLUICE_TEST_LONG === '1' ? 20_000 : 1_500

t.test('a lone client that waits for retry-after is admitted', async (t) => {
  const wrong: string[] = []
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const next = random(seed)
    const seconds = next() < 0.5 ? 60 : whole(next, 6, 8_640) * 10
    const capacity = next() < 0.4 ? whole(next, 1, 70) : Math.ceil(2_000_000_000 * next() ** 5)
    const clock = new HandClock(next() < 0.5 ? next() * 2 ** 33 : whole(next, 0, 2 ** 33))
    const window = new SlidingWindow(new LimiterTable({ clock, budgetBytes: 256 * 1_024 }), 'lone', seconds)
    for (let round = 0; round < 20; round += 1) {
      const cost = Math.max(1, Math.floor((capacity * next()) / whole(next, 1, 20)))
      const pace = next() < 0.5 ? 0 : (next() * seconds * 1_000) / 20
      let decision = window.take('k', capacity, cost)
      for (let request = 0; decision.admitted && request < 200; request += 1) {
        clock.now += pace
        decision = window.take('k', capacity, cost)
      }
      if (decision.admitted) continue
      const { retryAfterSeconds: wait, resetSeconds: reset } = decision
      if (!Number.isInteger(wait) || wait < 1 || wait > seconds) wrong.push(`seed ${seed}: waits ${wait}`)
      if (reset < wait || reset > seconds) wrong.push(`seed ${seed}: reset after ${reset}, retry after ${wait}`)
      clock.now += wait * 1_000
      if (!window.take('k', capacity, cost).admitted)
        wrong.push(`seed ${seed}, round ${round}: refused after ${wait} s`)
    }
  }
  t.same(wrong.slice(0, 3), [])
})

t.test('retry-after is no longer than it must be', async (t) => {
  const clock = new HandClock(100_000)
  const window = new SlidingWindow(new LimiterTable({ clock, budgetBytes: 256 * 1_024 }), 'shortest', 60)
  for (let second = 0; second < 50; second += 1) {
    const expected = { admitted: true, remaining: 49 - second, retryAfterSeconds: 0, resetSeconds: 60 }
    t.match(window.take('ring', 50), expected)
    t.ok(window.take('counts', 1_000, 20).admitted)
    clock.now += 1_000
  }
  t.match(window.take('ring', 50), { admitted: false, remaining: 0, retryAfterSeconds: 10, resetSeconds: 59 })
  t.match(window.take('counts', 1_000), { admitted: false, remaining: 0, retryAfterSeconds: 11, resetSeconds: 59 })
  t.match(window.take('counts', 980), { admitted: false, retryAfterSeconds: 12 }, 'two grains must end')
  clock.now += 9_999
  t.notOk(window.take('ring', 50).admitted)
  t.equal(window.take('ring', 50).retryAfterSeconds, 1, 'a part of a second is a second')
  clock.now += 1
  t.ok(window.take('ring', 50).admitted)
})

t.test('a cost above the capacity waits for the whole window and is never admitted', async (t) => {
  const clock = new HandClock(0)
  const window = new SlidingWindow(new LimiterTable({ clock, budgetBytes: 256 * 1_024 }), 'cost', 60)
  t.match(window.take('k', 5, 6), { admitted: false, remaining: 5, retryAfterSeconds: 60, resetSeconds: 0 })
  t.ok(window.take('k', 5, 5).admitted)
})

t.test('a decision is one object that the next decision of the window overwrites', async (t) => {
  const window = new SlidingWindow(new LimiterTable({ clock: new HandClock(), budgetBytes: 256 * 1_024 }), 'one', 60)
  const first = window.take('k', 1)
  t.equal(window.take('k', 1), first)
  t.equal(first.admitted, false)
})
