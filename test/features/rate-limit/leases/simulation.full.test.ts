import t, { type Test } from 'tap'
import type { StoreLoss } from '../../../../src/lib/limit-ledger.js'
import { random, whole } from '../limiter/support/random.js'
import { type Lived, World, type WorldOf } from './world.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
const WORLDS = LONG ? 3_000 : 150

const capacities = [1, 2, 5, 20, 100, 1_000] as const

/** A world in which everything goes wrong that can. */
function worldOf(seed: number): WorldOf {
  const next = random(seed)
  const rate = [3_000, 10_000, 60_000][whole(next, 0, 2)] as number
  const capacity = capacities[whole(next, 0, capacities.length - 1)] as number
  const requests = Math.min(300, (capacity * 1_000 * (0.5 + next() * 4)) / rate + 0.2)
  const may = (mean: number) => (next() < 0.5 ? { mean } : undefined)
  const [pause, crash, partition, away, promoted] = [may(8_000), may(10_000), may(20_000), may(40_000), may(60_000)]
  const loss: StoreLoss = next() < 0.6 ? 'local' : 'closed'
  const longest = next() < 0.4 ? 300_000 : 15_000
  return {
    seed,
    nodes: whole(next, 1, 5),
    capacity,
    rate,
    requests,
    lasts: Math.min(600_000, Math.max(30_000, (6_000 / requests) * 1_000)),
    loss,
    way: next() < 0.7 ? 0.5 : 15,
    skew: next() < 0.5 ? 1 : 4,
    cost: next() < 0.3 ? Math.min(3, capacity) : 1,
    faults: {
      ...(pause === undefined ? {} : { pause: pause.mean }),
      ...(crash === undefined ? {} : { crash: crash.mean }),
      ...(partition === undefined ? {} : { partition: partition.mean }),
      ...(away === undefined ? {} : { away: away.mean }),
      ...(promoted === undefined ? {} : { promoted: promoted.mean, lost: 5_000 }),
      messages: next() < 0.5 ? 0.05 : 0,
      longest
    }
  }
}

t.test('no window holds more than the capacity, whatever goes wrong', async (t) => {
  const sums = { admitted: 0, locally: 0, full: 0 }
  for (let seed = 1; seed <= WORLDS; seed += 1) {
    const of = worldOf(seed)
    const lived = new World(of).live()
    if (lived.over > 0) t.fail(`${lived.over} too many`, { of })
    sums.admitted += lived.admitted
    sums.locally += lived.locally
    if (lived.over === 0) sums.full += 1
  }
  t.comment(JSON.stringify(sums))
  t.ok(sums.full > WORLDS / 4, 'many worlds come to their capacity')
  t.ok(sums.locally > 0, 'some admit without the ledger')
})

/** What an ideal limiter admits is admitted but for this share, with so many calls for a request. */
function compare(of: WorldOf, least: number, most: number): (t: Test) => Promise<void> {
  return async (t) => {
    const lived: Lived = new World(of).live()
    t.comment(
      `use ${((100 * lived.admitted) / lived.ideal).toFixed(2)} %, ${(lived.calls / lived.arrivals).toFixed(3)} calls a request`
    )
    t.ok(lived.over <= 0)
    t.ok(lived.admitted >= lived.ideal * least, `${lived.admitted} of ${lived.ideal} are admitted`)
    t.ok(lived.calls <= lived.arrivals * most, `${lived.calls} calls for ${lived.arrivals} requests`)
  }
}

const calm = { seed: 7, nodes: 3, rate: 60_000, lasts: 620_000, loss: 'local' as const, way: 0.5 }
for (const capacity of [1_000, 10_000]) {
  for (const load of [0.7, 1.5, 5]) {
    for (const skew of [1, 18]) {
      const requests = (capacity * load) / 60
      const name = `capacity ${capacity}, ${load} times as many requests, skew ${skew}`
      t.test(name, compare({ ...calm, capacity, requests, skew }, 0.99, 0.8))
    }
  }
}
t.test('ten nodes that are far away', compare({ ...calm, nodes: 10, way: 15, capacity: 1_000, requests: 50 }, 0.98, 2))
t.test('a small capacity', compare({ ...calm, capacity: 5, requests: 0.2 }, 0.9, 40))
