import t from 'tap'
import { bucketsOf, recentOf, seriesOf, Usage } from '../../../src/features/rate-limit/usage.js'
import { random } from './limiter/support/random.js'

t.test('buckets in use are those whose last admission is in the window, to a 60th of it', (t) => {
  for (const rate of [60_000, 130_000, 86_400_000]) {
    for (let seed = 1; seed <= 20; seed++) {
      const next = random(seed)
      const usage = new Usage(rate)
      const last = new Map<number, number>()
      const keys = 1 + Math.floor(next() * 50)
      // A bucket that comes back just after it was empty counts twice for a moment, as one that is emptied then does.
      const over: number[] = []
      const alive = (at: number, slack: number) =>
        [...last.values(), ...(slack > 0 ? over : [])].filter((one) => at - one < rate + slack).length
      let at = 1_000
      for (let step = 0; step < 2_000; step++) {
        at += next() < 0.01 ? next() * rate * 2 : (next() * rate) / 50
        const key = Math.floor(next() * keys)
        const before = last.get(key) ?? -1
        if (before >= 0 && at - before >= rate) over.push(before)
        if (next() < 0.02) {
          usage.emptied(at, before >= 0 && at - before < rate ? before : -1)
          last.delete(key)
        } else {
          usage.admitted(at, 1, before >= 0 && at - before < rate ? before : -1)
          last.set(key, at)
        }
        const found = bucketsOf(usage.numbers(at))
        if (found < alive(at, 0) || found > alive(at, rate / 60))
          return t.fail(
            `rate ${rate} seed ${seed} step ${step}: ${found}, not ${alive(at, 0)} to ${alive(at, rate / 60)}`
          )
      }
    }
  }
  t.pass()
  return t.end()
})

t.test('the series has five minutes, and forgets what is older', (t) => {
  const usage = new Usage(60_000)
  usage.admitted(100_000, 1, -1)
  usage.admitted(101_000, 2, 100_000)
  usage.refused(106_000, 2)
  const series = seriesOf(usage.numbers(107_000))
  t.equal(series.length, 60)
  t.equal(Usage.stepSeconds, 5)
  t.same(series.slice(-2), [
    { at: 100_000, admitted: 2, refused: 0, used: 2 },
    { at: 105_000, admitted: 0, refused: 1, used: 2 }
  ])
  t.ok(series.slice(0, -2).every(({ admitted, refused, used }) => admitted + refused + used === 0))
  t.same(recentOf(usage.numbers(399_999)), { admitted: 2, refused: 1 })
  t.same(recentOf(usage.numbers(400_000)), { admitted: 0, refused: 1 }, 'the first step has left')
  t.same(recentOf(usage.numbers(10_000_000)), { admitted: 0, refused: 0 })
  usage.admitted(10_000_001, 1, -1)
  t.same(recentOf(usage.numbers(10_000_002)), { admitted: 1, refused: 0 })
  t.end()
})
