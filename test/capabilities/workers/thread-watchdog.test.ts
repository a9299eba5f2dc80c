import t from 'tap'
import { workerHeap } from '../../../src/capabilities/workers/thread-heap.js'
import { beatMemory, beatOnce, ThreadWatchdog } from '../../../src/capabilities/workers/thread-watchdog.js'

/** One watched thread, with what was said of it. */
function watched(silence: number) {
  const watchdog = new ThreadWatchdog(silence)
  const beat = beatMemory()
  const said: string[] = []
  const unwatch = watchdog.watch(beat, {
    suspected: () => said.push('suspected'),
    recovered: () => said.push('recovered'),
    hung: () => said.push('hung')
  })
  const look = (times: number) => {
    for (let i = 0; i < times; i++) watchdog.look()
  }
  watchdog.stop()
  return { beat: () => beatOnce(beat), look, said, unwatch }
}

t.test('a thread that stops beating is suspected after a fifth of the time and hung at its end, once', async (t) => {
  const { beat, look, said } = watched(5_000)
  look(100)
  t.same(said, [], 'one that has not begun is not watched')
  beat()
  look(1)
  look(3)
  t.same(said, [])
  look(1)
  t.same(said, ['suspected'])
  look(15)
  t.same(said, ['suspected'])
  look(1)
  t.same(said, ['suspected', 'hung'])
  look(100)
  t.same(said, ['suspected', 'hung'])
})

t.test('a suspected thread that beats again is not hung, and one that beats always is never suspected', async (t) => {
  const { beat, look, said } = watched(5_000)
  for (let i = 0; i < 50; i++) {
    beat()
    look(3)
  }
  t.same(said, [])
  look(10)
  beat()
  look(1)
  t.same(said, ['suspected', 'recovered'])
  look(19)
  t.same(said, ['suspected', 'recovered', 'suspected'])
})

t.test('a thread that has ended is watched no more', async (t) => {
  const { beat, look, said, unwatch } = watched(1_000)
  beat()
  look(1)
  unwatch()
  look(100)
  t.same(said, [])
})

t.test('the heap of a thread follows memory and number of threads, and the option', async (t) => {
  const GIB = 2 ** 30
  t.equal(workerHeap(64 * 2 ** 20, 2, GIB), 64)
  t.equal(workerHeap(undefined, 2, GIB), 256)
  t.equal(workerHeap(undefined, 2, GIB / 4), 128)
  t.equal(workerHeap(undefined, 2, 64 * GIB), 4_096)
  t.ok(workerHeap(undefined, 2) >= 128)
})
