import { closeSync, openSync } from 'node:fs'
import t from 'tap'
import { type DescriptorCounts, Descriptors, LoopDelay } from '../../src/telemetry/process-health.js'

const exhausted = () => Promise.reject(Object.assign(new Error('none left'), { code: 'EMFILE' }))

t.test('descriptors are short near their limit, and until there is room again', async (t) => {
  let used = 0
  const counts: DescriptorCounts = { used: async () => used, allowed: async () => 1_000 }
  const descriptors = new Descriptors(counts)
  t.equal(descriptors.use, undefined)
  const short = async (now: number) => {
    used = now
    await descriptors.look()
    t.match(descriptors.use, { used: now, allowed: 1_000 })
    return descriptors.use?.short
  }
  t.equal(await short(899), false)
  t.equal(await short(900), true)
  t.equal(await short(850), true, 'it does not come and go with each connection')
  t.equal(await short(799), false)
  t.equal(await short(850), false)
})

t.test('a process that cannot even look has none left', async (t) => {
  const counts = { used: async () => 10, allowed: async () => 1_000 }
  const descriptors = new Descriptors({ used: () => counts.used(), allowed: () => counts.allowed() })
  await descriptors.look()
  Object.assign(counts, { used: exhausted, allowed: exhausted })
  await descriptors.look()
  t.same(descriptors.use, { used: 1_000, allowed: 1_000, short: true })
})

t.test('where the system does not tell, nothing is known', async (t) => {
  const absent = () => Promise.reject(Object.assign(new Error('no such file'), { code: 'ENOENT' }))
  const descriptors = new Descriptors({ used: absent, allowed: absent })
  await descriptors.look()
  t.equal(descriptors.use, undefined)
})

t.test('the system tells what this process has open', { skip: process.platform !== 'linux' }, async (t) => {
  const descriptors = new Descriptors()
  await descriptors.look()
  const before = descriptors.use?.used ?? 0
  const opened = Array.from({ length: 50 }, () => openSync('/dev/null', 'r'))
  t.teardown(() => {
    for (const fd of opened) closeSync(fd)
  })
  await descriptors.look()
  const { used = 0, allowed = 0 } = descriptors.use ?? {}
  t.ok(used >= before + 45 && used <= before + 55, `${before} before, ${used} now`)
  t.ok(allowed > used)
})

t.test('a loop that stood still is seen in its delays', async (t) => {
  const loop = new LoopDelay()
  t.teardown(() => loop.stop())
  t.same(loop.delays, { p50: 0, p99: 0, max: 0 }, 'nothing is measured yet')
  const samples = () => new Promise((resolve) => setTimeout(resolve, 100))
  await samples()
  const until = performance.now() + 300
  while (performance.now() < until);
  await samples()
  const { p50, p99, max } = loop.delays
  t.ok(max >= 0.25, `max ${max}`)
  t.ok(p50 <= p99 && p99 <= max)
  t.ok(p50 < 0.25, `p50 ${p50}`)
})
