import t from 'tap'
import { ShardedMap } from '../../src/lib/sharded-map.js'
import { atOnce } from '../../src/lib/slices.js'
import type { Plan, Unit } from '../../src/runtime/plan.js'
import { applying, type Change, emptyPlan } from '../../src/runtime/plan-changes.js'

const unit = (port: number): Unit => ({ kind: 'upstream', form: 'address', protocol: 'http', host: 'h', port })
const apply = (plan: Plan, change: Change) => atOnce(applying(plan, change))

t.test('a change leaves the plan before it as it was', async (t) => {
  const one = apply(emptyPlan, { from: 0, to: 1, put: [['upstream:a', unit(1)]], drop: [] })
  const two = apply(one, { from: 1, to: 2, put: [['upstream:b', unit(2)]], drop: ['upstream:a'] })
  t.same(
    [...one.units].map(([key]) => key),
    ['upstream:a']
  )
  t.same(
    [...two.units].map(([key]) => key),
    ['upstream:b']
  )
  t.equal(emptyPlan.units.size, 0)
  t.throws(() => apply(two, { from: 1, to: 3, put: [], drop: [] }), RangeError)
})

t.test('changes one after another lead to the same plan as the whole at once', async (t) => {
  let seed = 7
  const below = (limit: number) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return seed % limit
  }
  let plan: Plan = emptyPlan
  const whole = new Map<string, Unit>()
  for (let step = 0; step < 400; step++) {
    const drop = Array.from({ length: below(3) }, () => `upstream:${below(300)}`)
    const put = Array.from({ length: below(5) }, () => [`upstream:${below(300)}`, unit(below(3))] as const)
      // No change puts and drops the same unit.
      .filter(([key]) => !drop.includes(key))
    plan = apply(plan, { from: step, to: step + 1, put, drop })
    for (const key of drop) whole.delete(key)
    for (const [key, value] of put) whole.set(key, value)
    if (plan.units.size !== whole.size) t.fail(`step ${step}: ${plan.units.size} units instead of ${whole.size}`)
  }
  t.same(new Map(plan.units), whole)
})

t.test('the sharded map shares what a change does not touch', async (t) => {
  const many = ShardedMap.empty<number>().with(Array.from({ length: 5_000 }, (_, i) => [`k${i}`, i] as const))
  const changed = many.with(
    [
      ['k1', -1],
      ['new', 0]
    ],
    ['k2', 'absent']
  )
  t.equal(changed.size, 5_000)
  t.equal(many.get('k1'), 1)
  t.equal(changed.get('k1'), -1)
  t.notOk(changed.has('k2'))
  t.ok(many.has('k2'))
  t.equal([...changed].length, changed.size)
})
