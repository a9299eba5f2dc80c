import t from 'tap'
import { geometryOf } from '../../../../src/features/rate-limit/limiter/layout.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { ExactLog, HandClock } from './support/exact-log.js'
import { random, whole } from './support/random.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
const RUNS = LONG ? 3_000 : 250
const STEPS = 700
const SEED = new Uint8Array(16).fill(9)

type Next = () => number
/** Milliseconds to the next request. */
type Traffic = (next: Next, rate: number, grain: number, now: number) => number

/** Binary fractions, so that sums and differences of times in the test are exact. */
const fraction = (next: Next) => Math.floor(next() * 1_024) / 1_024

const traffics: Record<string, Traffic> = {
  steady: (next, rate) => (next() * rate) / 40,
  bursts: (next, rate) => (next() < 0.04 ? next() * rate * 0.8 : next() < 0.5 ? 0 : next() * 3),
  'floods at the end of a window': (next, rate) => (next() < 0.03 ? rate - 1 + Math.floor(next() * 3) : 0),
  'floods at borders of grains': (next, _rate, grain, now) => {
    if (next() < 0.6) return 0
    const border = (Math.floor(now / grain) + whole(next, 1, 60)) * grain
    return border - now + whole(next, -1, 1)
  },
  'long rests': (next, rate) => (next() < 0.02 ? rate * next() * 3 : next() * 20)
}

const rateOf = (next: Next) => {
  const kind = next()
  if (kind < 0.15) return [1, 5, 7][whole(next, 0, 2)] as number
  if (kind < 0.25) return whole(next, 1, 59)
  if (kind < 0.45) return 60
  if (kind < 0.7) return whole(next, 6, 720) * 10
  return whole(next, 6, 8_640) * 10
}

const capacityOf = (next: Next) => {
  const kind = next()
  if (kind < 0.35) return whole(next, 1, 64)
  if (kind < 0.6) return whole(next, 60, 400)
  return Math.ceil(2_000_000_000 * next() ** 4)
}

/** One bucket under one traffic, every decision compared with the exact log. Returns what went wrong, or ''. */
function run(seed: number, traffic: Traffic): string {
  const next = random(seed)
  const seconds = rateOf(next)
  const { rate, grain } = geometryOf(seconds)
  // Grains of short windows come to 2³² within years, those of longer ones do not.
  const start = seconds < 60 && next() < 0.5 ? 2 ** 32 * grain - rate * 3 : next() * 2 ** 33
  const clock = new HandClock(Math.floor(start) + fraction(next))
  const table = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
  const window = new SlidingWindow(table, 'property', seconds)
  const log = new ExactLog()
  let capacity = capacityOf(next)
  const heavy = next() < 0.5
  const changes = next() < 0.4
  for (let step = 0; step < STEPS; step += 1) {
    const gap = traffic(next, rate, grain, clock.now)
    clock.now += Math.max(0, Math.floor(gap * 1_024) / 1_024)
    if (changes && next() < 0.02) capacity = capacityOf(next)
    const cost = heavy ? Math.ceil((capacity * next()) / 12) : 1
    const { admitted, remaining, retryAfterSeconds } = window.take('key', capacity, cost)
    const told = `seed ${seed}, step ${step}, capacity ${capacity}, rate ${seconds}, cost ${cost}`
    if (admitted) {
      log.add(clock.now, cost)
      const inWindow = log.count(clock.now, rate)
      if (inWindow > capacity) return `${told}: ${inWindow} admitted in one window`
      if (remaining > capacity - inWindow) return `${told}: ${remaining} said to be left`
    } else {
      if (log.count(clock.now, rate + grain) + cost <= capacity) return `${told}: refused without reason`
      if (retryAfterSeconds < 1 || retryAfterSeconds > seconds) return `${told}: retry after ${retryAfterSeconds}`
    }
  }
  return ''
}

for (const [name, traffic] of Object.entries(traffics)) {
  t.test(`${name}: never more than the capacity, no refusal without reason`, async (t) => {
    const wrong: string[] = []
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const message = run(seed * 7_919, traffic)
      if (message !== '') wrong.push(message)
    }
    t.same(wrong.slice(0, 3), [])
  })
}

t.test('up to 64 admissions every decision is exact', async (t) => {
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const next = random(seed)
    const seconds = rateOf(next)
    const capacity = whole(next, 1, 64)
    const clock = new HandClock(whole(next, 0, 2 ** 33))
    const window = new SlidingWindow(new LimiterTable({ clock, budgetBytes: 256 * 1_024 }), 'exact', seconds)
    const log = new ExactLog()
    for (let step = 0; step < 400; step += 1) {
      clock.now += next() < 0.5 ? whole(next, 0, 2) : whole(next, 0, (seconds * 2_000) / capacity)
      const expected = log.count(clock.now, seconds * 1_000) < capacity
      const { admitted, remaining } = window.take('k', capacity)
      if (admitted) log.add(clock.now, 1)
      const left = capacity - log.count(clock.now, seconds * 1_000)
      if (admitted !== expected || remaining !== left) t.fail(`seed ${seed}, step ${step}`)
    }
  }
  t.pass('all decisions equal the log')
})

t.test('two billion admissions are counted without loss', async (t) => {
  for (const seconds of [7, 60, 3_600, 86_400]) {
    const clock = new HandClock(5_000)
    const window = new SlidingWindow(new LimiterTable({ clock, budgetBytes: 2 ** 20 }), 'big', seconds)
    const capacity = 2_000_000_000
    for (const part of [1, 64, 65_535, 65_536, 1_000_000_000, 999_868_864 - 1]) {
      t.ok(window.take('k', capacity, part).admitted, `${part} in ${seconds} s`)
      clock.now += 700
    }
    t.equal(window.take('k', capacity).remaining, 0)
    t.notOk(window.take('k', capacity).admitted)
    t.equal(window.inspect('k').count, capacity)
    t.ok(window.take('k', 4_294_967_295, 2_294_967_295).admitted, 'a raised capacity applies at once')
    t.notOk(window.take('k', 2 ** 40).admitted, 'a capacity beyond 32 bits counts as the largest one')
    clock.now += seconds * 1_000
    t.equal(window.inspect('k').count, 0)
  }
})

t.test('a capacity raised beyond 65,535 counts on in wider counters', async (t) => {
  for (const seconds of [1, 60, 86_400]) {
    const clock = new HandClock(1_000)
    const window = new SlidingWindow(new LimiterTable({ clock, budgetBytes: 2 ** 20 }), 'wide', seconds)
    let admitted = 0
    for (let request = 0; request < 66_000; request += 1) if (window.take('k', 65_535).admitted) admitted += 1
    t.equal(admitted, 65_535)
    for (let request = 0; request < 10_000; request += 1) if (window.take('k', 70_000).admitted) admitted += 1
    t.equal(admitted, 70_000)
    t.notOk(window.take('k', 50_000).admitted, 'a lowered capacity applies at once')
    t.equal(window.take('k', 70_001).remaining, 0)
    clock.now += seconds * 500
    window.take('k', 80_000, 10)
    clock.now += seconds * 550
    t.equal(window.inspect('k').count, 10, 'what was counted leaves')
  }
})

t.test('identity, window length and key each make another bucket', async (t) => {
  const clock = new HandClock()
  const table = new LimiterTable({ clock, budgetBytes: 2 ** 20 })
  const windows = [
    new SlidingWindow(table, 'a', 60),
    new SlidingWindow(table, 'a', 70),
    new SlidingWindow(table, 'b', 60),
    new SlidingWindow(table, '', 60)
  ]
  for (const window of windows) {
    for (const key of ['', 'x', 'x\u0000', 'y'.repeat(2 ** 20), '\ud800']) {
      t.ok(window.take(key, 1).admitted)
      t.notOk(window.take(key, 1).admitted)
    }
  }
  t.notOk(new SlidingWindow(table, 'a', 60).take('x', 1).admitted, 'an equal window shares the bucket')
  t.same([windows[0]!.admitted, windows[0]!.refused], [5, 5])
  for (const seconds of [0, -1, 0.5, 59.5, 65, 86_410, 60.5, Number.NaN]) {
    t.throws(() => new SlidingWindow(table, 'a', seconds), RangeError)
  }
})

t.test('a bucket neither freezes nor frees itself over months, swept or not', async (t) => {
  for (const swept of [false, true]) {
    const clock = new HandClock(2 ** 32 - 30_000)
    const table = new LimiterTable({ clock, budgetBytes: 2 ** 20 })
    const window = new SlidingWindow(table, 'months', 86_400)
    const next = random(3)
    for (let month = 0; month < 120; month += 1) {
      t.ok(window.take('k', 2).admitted && window.take('k', 2).admitted, `round ${month}`)
      clock.now += 86_399_000
      t.notOk(window.take('k', 2).admitted, `round ${month}, one second early`)
      clock.now += 1_000 + (next() < 0.5 ? 0 : Math.floor(next() * 60) * 86_400_000)
      if (swept) table.sweep(1_000)
    }
  }
})
