import t from 'tap'
import { LayeredMap } from '../../src/lib/layered-map.js'

t.test('layers read as one map in which the later of two entries counts', async (t) => {
  const large = new Map(Array.from({ length: 5 }, (_, n) => [`${n}`, `large ${n}`]))
  const maps = [
    new Map([
      ['0', 'before'],
      ['a', 'before']
    ]),
    large,
    new Map([
      ['1', 'behind'],
      ['b', 'behind']
    ])
  ]
  for (const order of [maps, [...maps].reverse(), [large], [maps[0] as typeof large, large]]) {
    const whole = new Map(order.flatMap((map) => [...map]))
    const layered = new LayeredMap(order)
    t.strictSame(new Map(layered), whole)
    t.equal([...layered].length, whole.size, 'each key once')
    t.strictSame([...layered.keys()].sort(), [...whole.keys()].sort())
    for (const key of ['0', '1', '4', 'a', 'b', 'c']) {
      t.equal(layered.get(key), whole.get(key))
      t.equal(layered.has(key), whole.has(key))
    }
  }
  t.strictSame([...new LayeredMap([])], [])
})
