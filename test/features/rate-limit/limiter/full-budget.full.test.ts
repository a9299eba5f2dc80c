import t from 'tap'
import { Buckets } from '../../../../src/features/rate-limit/limiter/buckets.js'
import { geometryOf, layoutOf } from '../../../../src/features/rate-limit/limiter/layout.js'
import { Memory } from '../../../../src/features/rate-limit/limiter/memory.js'
import { Sketch } from '../../../../src/features/rate-limit/limiter/sketch.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { ExactLog, HandClock } from './support/exact-log.js'
import { random, whole } from './support/random.js'

const RUNS = process.env.SLUICE_TEST_LONG === '1' ? 60 : 5
/** A word that means nothing else. */
const SLOT = 1_000
const SEED = new Uint8Array(16).fill(5)

t.test('after a flood of keys every key that was limited is limited still', async (t) => {
  const clock = new HandClock(1_000_000)
  const table = new LimiterTable({ clock, budgetBytes: 2 ** 20, seed: SEED })
  const window = new SlidingWindow(table, 'flood', 3_600)
  const attackers = Array.from({ length: 300 }, (_, index) => `attacker ${index}`)
  for (const [index, key] of attackers.entries()) {
    for (let request = 0; request < 1 + (index % 90); request += 1) window.take(key, 1 + (index % 90))
  }
  for (let index = 0; index < 200_000; index += 1) {
    window.take(`flood ${index}`, 100)
    clock.now += 0.125
  }
  const { folded, buckets, bytesInUse, bytesForPages } = table.statistics()
  t.ok(folded > 50_000, `${folded} buckets folded`)
  t.ok(buckets > 10_000, `${buckets} buckets kept`)
  t.ok(bytesInUse <= bytesForPages)
  t.same(
    attackers.filter((key, index) => window.take(key, 1 + (index % 90)).admitted),
    []
  )
  clock.now += 2 * 3_600_000
  t.same(
    attackers.filter((key) => !window.take(key, 90).admitted),
    [],
    'all are free again when their time is over'
  )
})

t.test('a full table keeps the promise for every key, whatever moves between buckets and sketch', async (t) => {
  const wrong: string[] = []
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const next = random(seed)
    const clock = new HandClock(whole(next, 0, 2 ** 33))
    const table = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
    const rates = Array.from({ length: whole(next, 1, 7) }, () => (next() < 0.5 ? 60 : whole(next, 6, 8_640) * 10))
    const windows = rates.map((rate) => new SlidingWindow(table, 'full', rate))
    const logs = new Map<string, ExactLog>()
    const pace = (rates[0]! * 1_000) / whole(next, 5_000, 20_000)
    for (let step = 0; step < 40_000; step += 1) {
      clock.now += next() < 0.0005 ? rates[0]! * 400 : Math.floor(next() * pace * 1_024) / 1_024
      const which = Math.floor(next() * rates.length)
      // Some keys come often and grow through all levels, most come a few times.
      const key = next() < 0.4 ? `often ${whole(next, 1, 150)}` : `rare ${whole(next, 1, 20_000)}`
      const capacity = key.length % 3 === 0 ? 70 : 70_000
      const cost = key.startsWith('often') && next() < 0.1 ? whole(next, 1, 60) * (capacity > 70 ? 300 : 1) : 1
      if (!windows[which]!.take(key, capacity, cost).admitted) continue
      const name = `${which} ${key}`
      const log = logs.get(name) ?? new ExactLog()
      logs.set(name, log)
      log.add(clock.now, cost)
      const count = log.count(clock.now, geometryOf(rates[which]!).rate)
      if (count > capacity) wrong.push(`seed ${seed}, step ${step}: ${count} of ${capacity}`)
    }
    const { folded, counts } = table.statistics()
    if (folded === 0 || counts === 0) wrong.push(`seed ${seed} never came under pressure: ${folded}, ${counts}`)
  }
  t.same(wrong.slice(0, 3), [])
})

t.test('empty buckets go before live ones', async (t) => {
  const clock = new HandClock(0)
  const table = new LimiterTable({ clock, budgetBytes: 2 ** 20, seed: SEED })
  const short = new SlidingWindow(table, 'short', 60)
  const long = new SlidingWindow(table, 'long', 86_400)
  let index = 0
  while (table.statistics().bytesInUse < table.statistics().bytesForPages) short.take(`short ${index++}`, 1)
  clock.now += 60_001
  for (let key = 0; key < 2_000; key += 1) long.take(`long ${key}`, 1)
  t.equal(long.admitted, 2_000)
  const { folded, dropped } = table.statistics()
  t.ok(dropped >= 1_500, `${dropped} dropped`)
  t.ok(folded < 10, `${folded} folded`)
})

t.test('a refusal by the sketch is bounded by the window and counted', async (t) => {
  const clock = new HandClock(0)
  const table = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
  const window = new SlidingWindow(table, 'sketch', 60)
  let refusals = 0
  for (let index = 0; index < 60_000; index += 1) {
    const decision = window.take(`key ${index}`, 3)
    if (decision.admitted) continue
    refusals += 1
    if (decision.retryAfterSeconds < 1 || decision.retryAfterSeconds > 60) t.fail(`retry ${decision.retryAfterSeconds}`)
  }
  t.ok(refusals > 0)
  t.equal(table.statistics().sketchRefusals, refusals)
  clock.now += 75_001
  t.ok(window.take('key 59999', 3).admitted)
  t.equal(window.take('key 59999', 3).remaining, 1, 'the sketch has forgotten')
})

t.test('the bucket that is decided stays where it is while room is made for it', async (t) => {
  const clock = new HandClock(0)
  const table = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
  const window = new SlidingWindow(table, 'pinned', 3_600)
  for (let index = 0; index < 8_000; index += 1) window.take(`small ${index}`, 1_000_000)
  for (let index = 0; index < 3_000; index += 1) {
    const cost = 3 + (index % 70)
    window.take(`large ${index % 1_000}`, 1_000_000, cost)
    const { count } = window.inspect(`large ${index % 1_000}`)
    if (count < cost) t.fail(`${index}: ${count} of ${cost}`)
  }
  const { sparse, rings, counts, buckets, folded, bytesInUse, bytesForPages } = table.statistics()
  t.ok(folded > 1_000)
  t.equal(sparse + rings + counts, buckets)
  t.ok(bytesInUse <= bytesForPages && bytesInUse > bytesForPages / 2)
  clock.now += 3_600_000
  t.equal(table.sweep(1_000), buckets)
  t.ok(table.statistics().bytesInUse <= 16 * 4_096, 'nothing is lost')
})

t.test('the sketch never reports less than the trailing window holds, and forgets in time', async (t) => {
  const wrong: string[] = []
  for (let seed = 1; seed <= RUNS * 4; seed += 1) {
    const next = random(seed)
    const sketch = new Sketch(new Memory(layoutOf(2 ** 20)))
    const lengthOf = () => (next() < 0.4 ? 60 : next() < 0.5 ? whole(next, 1, 59) : whole(next, 6, 8_640) * 10)
    const lengths = Array.from({ length: whole(next, 1, 6) }, lengthOf)
    const logs = new Map<string, ExactLog>()
    let now = whole(next, 0, 2 ** 33)
    for (let step = 0; step < 600; step += 1) {
      now += next() < 0.01 ? lengths[0]! * 900 : Math.floor(next() * lengths[0]! * 12)
      const window = lengths[Math.floor(next() * lengths.length)]!
      const key = whole(next, 1, 8)
      const [low, high] = [Math.imul(key, 0x9e3779b1) >>> 0, Math.imul(key + 9, 0x85ebca6b) >>> 0]
      const log = logs.get(`${window} ${key}`) ?? new ExactLog()
      logs.set(`${window} ${key}`, log)
      const count = whole(next, 1, 5)
      const earlier = Math.max(log.last, now - whole(next, 0, window * 500))
      sketch.begin(low, high, geometryOf(window).code, now)
      for (const stamp of [earlier, now]) {
        sketch.add(stamp, count)
        log.add(stamp, count)
      }
      const until = sketch.end()
      if (until < now + window * 1_000) wrong.push(`seed ${seed}, step ${step}: forgets early`)
      const other = lengths[Math.floor(next() * lengths.length)]!
      const expected = logs.get(`${other} ${key}`)?.count(now, other * 1_000) ?? 0
      const estimate = sketch.estimate(low, high, geometryOf(other).code, now)
      if (estimate < expected) wrong.push(`seed ${seed}, step ${step}: ${estimate} for ${expected}`)
      const most = logs.get(`${other} ${key}`)?.count(now, other * 1_250 + 1) ?? 0
      if (new Set(lengths).size === 1 && estimate > most)
        wrong.push(`seed ${seed}, step ${step}: ${estimate} for ${most}`)
    }
  }
  t.same(wrong.slice(0, 3), [])
})

t.test('a bucket is poured out whole, and no admission becomes older than it is', async (t) => {
  const wrong: string[] = []
  for (let seed = 1; seed <= 60; seed += 1) {
    const next = random(seed)
    const memory = new Memory(layoutOf(2 ** 18))
    const buckets = new Buckets(memory)
    const geometry = geometryOf([1, 7, 59, 60, 70, 7_200, 7_210, 86_400][seed % 8]!)
    const times: number[] = []
    let now = whole(next, 0, 2 ** 33) + 0.5
    let state = buckets.create(1, 1, geometry)
    memory.journal.commit()
    for (let step = 0; step < 3 * seed; step += 1) {
      now += Math.floor((next() * geometry.rate) / seed)
      const live = buckets.expire(state, geometry, now)
      const fitted = buckets.fit(state, geometry, Math.ceil(now), live, 1)
      if (fitted !== state) buckets.adopt(SLOT, state, fitted)
      state = fitted
      buckets.add(state, geometry, now, Math.ceil(now), 1)
      times.push(now)
    }
    const live = buckets.expire(state, geometry, now)
    const poured: number[] = []
    buckets.pour(state, geometry, Math.floor(now), {
      add: (stamp, count) => poured.push(...Array.from({ length: count }, () => stamp))
    })
    const newest = times.slice(-live)
    if (poured.length !== live) wrong.push(`seed ${seed}: ${poured.length} of ${live}`)
    if (poured.some((stamp, place) => stamp < newest[place]!)) wrong.push(`seed ${seed}: made older`)
    if (poured.some((stamp) => stamp > Math.ceil(now))) wrong.push(`seed ${seed}: made to come`)
  }
  t.same(wrong.slice(0, 3), [])
})
