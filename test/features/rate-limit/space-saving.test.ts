import t from 'tap'
import { SpaceSaving } from '../../../src/features/rate-limit/space-saving.js'
import { random } from './limiter/support/random.js'

const value = { bytes: 1 }

t.test('bounds hold for any stream, and what is frequent is never missed', (t) => {
  for (let seed = 1; seed <= 60; seed++) {
    const next = random(seed)
    const most = 1 + Math.floor(next() * 40)
    const keys = 1 + Math.floor(next() * 200)
    const events = Math.floor(next() * 3_000)
    // From even to steep, and sometimes every key once.
    const skew = next() * 4
    const sketch = new SpaceSaving<typeof value>(most)
    const truth = new Map<string, number>()
    for (let at = 0; at < events; at++) {
      const key = seed % 7 === 0 ? `once ${at}` : `k${Math.floor(keys * next() ** (1 + skew))}`
      truth.set(key, (truth.get(key) ?? 0) + 1)
      sketch.add(key, at, () => value)
    }
    const counted = [...sketch.counted]
    const about = `seed ${seed}: ${events} events, ${truth.size} keys, ${most} counters`
    const sum = counted.reduce((total, { count }) => total + count, 0)
    const wrong = counted.filter(({ key, count, error }) => {
      const real = truth.get(key) ?? 0
      return count < real || count - error > real || error > events / most
    })
    const has = new Set(counted.map(({ key }) => key))
    const missing = [...truth].filter(([key, real]) => !has.has(key) && (real > events / most || real > sketch.missed))
    if (counted.length > most || sum !== events || wrong.length > 0 || missing.length > 0)
      t.fail(about, { wrong, missing, sum })
    if (sketch.bytes !== counted.length) t.fail(`${about}: ${sketch.bytes} bytes`)
  }
  t.pass()
  t.end()
})

t.test('a key is described when it gets a counter, and not before or again', (t) => {
  const sketch = new SpaceSaving<{ bytes: number }>(2)
  let made = 0
  const make = () => {
    made++
    return { bytes: 10 * made }
  }
  for (const key of ['a', 'a', 'b', 'a', 'b', 'c', 'c']) sketch.add(key, 0, make)
  t.equal(made, 3)
  t.equal(sketch.bytes, 40, 'what the second key took is given back')
  t.same(
    [...sketch.counted].map(({ key, count, error }) => [key, count, error]),
    [
      ['a', 3, 0],
      ['c', 4, 2]
    ]
  )
  t.end()
})
