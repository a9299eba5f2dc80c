import t from 'tap'
import { ShardedMap } from '../../src/lib/sharded-map.js'
import { apply, difference, emptyPlan, type Plan, type Unit } from '../../src/plan/plan.js'

const unit = (port: number): Unit => ({ kind: 'upstream', form: 'address', protocol: 'http', host: 'h', port })

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
    const next = new Map(whole)
    for (let i = below(5); i > 0; i--) next.set(`upstream:${below(300)}`, unit(below(3)))
    for (let i = below(3); i > 0; i--) next.delete(`upstream:${below(300)}`)
    const change = difference(plan, next)
    if (change !== undefined) plan = apply(plan, change)
    whole.clear()
    for (const [key, value] of next) whole.set(key, value)
    if (plan.units.size !== whole.size) t.fail(`step ${step}: ${plan.units.size} units instead of ${whole.size}`)
  }
  t.same(new Map(plan.units), whole)
  t.equal(difference(plan, whole), undefined)
})

t.test('a change names only the units that differ', async (t) => {
  const plan = apply(emptyPlan, {
    from: 0,
    to: 1,
    put: [
      ['upstream:a', unit(1)],
      ['upstream:b', unit(2)]
    ],
    drop: []
  })
  const change = difference(
    plan,
    new Map([
      ['upstream:a', unit(1)],
      ['upstream:c', unit(3)]
    ])
  )
  t.same(change, { from: 1, to: 2, put: [['upstream:c', unit(3)]], drop: ['upstream:b'] })
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
