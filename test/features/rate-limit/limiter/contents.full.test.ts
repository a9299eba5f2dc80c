import t from 'tap'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { HandClock } from './support/exact-log.js'
import { random, whole } from './support/random.js'

const END = 2 ** 32

/** Walks over a table part by part; `between` is done after each. Answers how often each bucket was seen, and the most of one part. */
function walk({ contents }: LimiterTable, between: () => void = () => undefined) {
  const seen = new Map<string, number>()
  let [buckets, mostBuckets, numbers, mostNumbers] = [0, 0, 0, 0]
  const sink = {
    begin: (low: number, high: number) => {
      buckets += 1
      seen.set(`${low} ${high}`, (seen.get(`${low} ${high}`) ?? 0) + 1)
    },
    add: () => {
      numbers += 1
    }
  }
  for (let segment = 0; segment < contents.segments; segment += 1) {
    for (let from = 0; from < END; ) {
      buckets = 0
      numbers = 0
      const { end = 0 } = contents.part(segment, from, sink) ?? {}
      if (end <= from) throw new Error('a part has no end')
      from = end
      mostBuckets = Math.max(mostBuckets, buckets)
      mostNumbers = Math.max(mostNumbers, numbers)
      between()
    }
  }
  return { seen, mostBuckets, mostNumbers }
}

t.test('every bucket is in exactly one part, whatever comes and goes meanwhile', async (t) => {
  for (let seed = 1; seed <= 12; seed += 1) {
    const next = random(seed)
    const clock = new HandClock(1_000)
    const seedBytes = new Uint8Array(16).fill(seed)
    const table = new LimiterTable({ clock, budgetBytes: 4 * 2 ** 20, seed: seedBytes })
    const lasting = new SlidingWindow(table, 'lasting', 600)
    const passing = new SlidingWindow(table, 'passing', 60)
    const count = whole(next, 0, 9_000)
    for (let i = 0; i < count; i += 1) {
      lasting.take(`client ${i}`, 10)
      if (i % 3 === 0) passing.take(`client ${i}`, 10)
    }
    const wanted = new Set<string>()
    for (let i = 0; i < count; i += 1) {
      table.hash.hashText(table.hash.prefix('600:lasting'), `client ${i}`)
      wanted.add(`${table.hash.low} ${table.hash.high}`)
    }
    let made = 0
    const { seen } = walk(table, () => {
      clock.now += whole(next, 0, 700)
      for (let i = 0; i < whole(next, 0, 40); i += 1) passing.take(`new ${made++}`, 10)
      passing.forget(`client ${whole(next, 0, count)}`)
      if (next() < 0.3) table.sweep(0)
    })
    const wrong = [...wanted].filter((hash) => seen.get(hash) !== 1)
    t.same(wrong, [], `seed ${seed}, ${count} buckets`)
    t.same([...seen.values()].filter((times) => times > 1).length, 0, 'none is twice')
  }
})

t.test('no part holds the thread for long, however full the table is and whatever its buckets hold', async (t) => {
  const clock = new HandClock(86_400_000)
  const table = new LimiterTable({ clock, budgetBytes: 64 * 2 ** 20, seed: new Uint8Array(16) })
  const sparse = new SlidingWindow(table, 'sparse', 600)
  for (let i = 0; i < 700_000; i += 1) sparse.take(`client ${i}`, 10)
  const { mostBuckets, seen } = walk(table)
  t.ok(seen.size > 600_000)
  t.ok(mostBuckets < 1_000, `${mostBuckets} buckets`)
  const dense = new SlidingWindow(table, 'dense', 86_400)
  for (let minute = 0; minute < 1_000; minute += 1) {
    for (let i = 0; i < 300; i += 1) dense.take(`client ${i}`, 1_000_000)
    clock.now += 60_000
  }
  const { mostNumbers } = walk(table)
  t.ok(mostNumbers > 1_000 && mostNumbers < 20_000, `${mostNumbers} numbers`)
})
