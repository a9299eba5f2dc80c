import t from 'tap'
import { Backoff, Coalescer, Mutex, pauseAfter } from '../../src/lib/concurrency.js'

/** Work whose runs end when the test says so. */
function stepped() {
  const ends: (() => void)[] = []
  const coalescer = new Coalescer(() => new Promise((end) => ends.push(end)))
  const end = async (run: number) => {
    ends[run]?.()
    await new Promise((done) => setImmediate(done))
  }
  return { coalescer, end, runs: () => ends.length }
}

t.test('one run at a time, and one more for all who asked meanwhile', async (t) => {
  const { coalescer, end, runs } = stepped()
  coalescer.ask()
  for (let n = 0; n < 5; n++) coalescer.ask()
  t.equal(runs(), 1)
  await end(0)
  t.equal(runs(), 2)
  await end(1)
  t.equal(runs(), 2, 'nobody asked since')
  coalescer.ask()
  t.equal(runs(), 3)
})

t.test('settling waits for the run under way and forgets what was asked for meanwhile', async (t) => {
  const { coalescer, end, runs } = stepped()
  await coalescer.settle()
  coalescer.ask()
  coalescer.ask()
  let settled = false
  const settling = coalescer.settle().then(() => {
    settled = true
  })
  await new Promise((done) => setImmediate(done))
  t.notOk(settled)
  await end(0)
  await settling
  t.equal(runs(), 1)
})

t.test('a mutex runs one caller at a time, first come first served, whatever becomes of the one before', async (t) => {
  const mutex = new Mutex()
  const trail: string[] = []
  const step = (name: string, fails = false) =>
    mutex.run(async () => {
      trail.push(`${name} begins`)
      await new Promise((done) => setImmediate(done))
      trail.push(`${name} ends`)
      if (fails) throw new Error(name)
      return name
    })
  const [one, two, three] = await Promise.allSettled([step('one'), step('two', true), step('three')])
  t.match([one, two, three], [{ value: 'one' }, { reason: { message: 'two' } }, { value: 'three' }])
  t.same(trail, ['one begins', 'one ends', 'two begins', 'two ends', 'three begins', 'three ends'])
})

t.test('a caller whose turn does not come in time is refused, and does not hold up those after it', async (t) => {
  const mutex = new Mutex()
  const release = await mutex.acquire()
  let ran = false
  const late = mutex.run(
    async () => {
      ran = true
    },
    { milliseconds: 1, refusal: () => new Error('busy') }
  )
  const after = mutex.run(async () => 'after')
  await t.rejects(late, { message: 'busy' })
  release()
  t.equal(await after, 'after')
  t.notOk(ran)
})

t.test('pauses double from the first to the longest, and begin again after a success', async (t) => {
  for (const range of [
    { first: 100, longest: 5_000 },
    { first: 1_000, longest: 30_000 },
    { first: 2, longest: 100 },
    { first: 60_000, longest: 43_200_000 }
  ]) {
    const backoff = new Backoff(range)
    let expected = range.first
    for (let failures = 1; failures < 2_000; failures++) {
      const pause = backoff.next()
      if (pause !== expected || pauseAfter(failures, range) !== expected) t.fail(`${failures}: ${pause}`)
      expected = Math.min(range.longest, expected * 2)
    }
    t.equal(backoff.next(), range.longest)
    backoff.reset()
    t.equal(backoff.next(), range.first)
  }
})
