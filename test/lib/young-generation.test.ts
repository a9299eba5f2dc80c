import { constants, PerformanceObserver } from 'node:perf_hooks'
import t from 'tap'
import { Slices, type Steps } from '../../src/lib/slices.js'
import { YoungGeneration } from '../../src/lib/young-generation.js'

const MIB = 1024 * 1024

interface Collection {
  readonly detail: { readonly kind: number; readonly flags: number }
}

/** Collections whose time `work` belongs to: how many V8 made by itself, how many were asked for. */
async function collections(work: () => Promise<unknown>): Promise<{ own: number; forced: number }> {
  const seen: Collection[] = []
  const note = (entries: readonly unknown[]) => seen.push(...(entries as Collection[]))
  const observer = new PerformanceObserver((list) => note(list.getEntries()))
  observer.observe({ entryTypes: ['gc'] })
  await work()
  // Entries come with a turn of the loop.
  for (let n = 0; n < 3; n++) await new Promise(setImmediate)
  note(observer.takeRecords())
  observer.disconnect()
  const minor = seen.filter(({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MINOR)
  const forced = minor.filter(({ detail }) => (detail.flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0).length
  return { own: minor.length - forced, forced }
}

t.test('it collects once a few megabytes are new', async (t) => {
  let collected = 0
  let used = 0
  const young = new YoungGeneration(
    () => {
      collected++
      used = 1.5 * MIB
    },
    () => used
  )
  used = MIB
  t.equal(young.tidy(), false)
  used = 2.5 * MIB
  t.equal(young.tidy(), true)
  t.equal(collected, 1)
  used = 3 * MIB
  t.equal(young.tidy(), false, 'what stayed in use is not new')
  used = 0
  t.equal(young.tidy(), false)
  used = 2 * MIB
  t.equal(young.tidy(), true, 'what V8 has collected by itself does not count any more')
  t.equal(collected, 2)
})

t.test('work beside traffic collects its garbage within its slices', async (t) => {
  const kept: object[] = []
  function* filling(): Steps<number> {
    for (let n = 0; n < 200_000; n++) {
      kept.push({ n, text: `kept ${n}` })
      if (n % 100 === 0) yield
    }
    return kept.length
  }
  const { own, forced } = await collections(() => Slices.besideTraffic().run(filling()))
  t.equal(kept.length, 200_000)
  t.ok(forced >= 5, `${forced} collections within slices`)
  t.ok(own < forced, `${own} of V8 beside ${forced} within slices`)
  t.equal(Reflect.has(globalThis, 'gc'), false, 'nothing else comes to see the function')
})
