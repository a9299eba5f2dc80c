import t from 'tap'
import { judge } from '../../src/lib/ip.js'
import { IpPolicies } from '../../src/runtime/address-filter.js'
import type { Unit } from '../../src/runtime/plan.js'
import type { UnitChange } from '../../src/runtime/plan-changes.js'

const policy = (id: string): Unit => ({ kind: 'ip_policy', id })
const rule = (of: string, cidr: string, action: 'allow' | 'deny' = 'allow'): Unit => ({
  kind: 'ip_rule',
  policy: of,
  cidr,
  action
})
const change = (key: string, before: Unit | undefined, after: Unit | undefined): UnitChange => ({ key, before, after })
const passes = (policies: IpPolicies, ids: string[], address: string) =>
  judge(
    ids.map((id) => policies.get(id)),
    address
  ).passes

t.test('a policy is there as long as its own unit is', async (t) => {
  const waiting = IpPolicies.empty.with([change('r1', undefined, rule('a', '10.0.0.0/8'))])
  t.equal(waiting.get('a'), undefined, 'rules wait for their policy')
  const there = waiting.with([change('p', undefined, policy('a'))])
  t.ok(passes(there, ['a'], '10.0.0.1'))
  const gone = there.with([change('p', policy('a'), undefined)])
  t.equal(gone.get('a'), undefined)
  t.notOk(passes(gone, ['a'], '10.0.0.1'))
  t.ok(passes(there, ['a'], '10.0.0.1'), 'the table before stays as it was')
})

t.test('rules move between policies and actions', async (t) => {
  const first = rule('a', '10.0.0.0/8')
  const start = IpPolicies.empty.with([
    change('pa', undefined, policy('a')),
    change('pb', undefined, policy('b')),
    change('r1', undefined, first),
    change('r2', undefined, rule('a', '10.0.0.0/8'))
  ])
  const moved = start.with([change('r1', first, rule('b', '10.0.0.0/8', 'deny'))])
  t.ok(passes(moved, ['a'], '10.0.0.1'), 'the other rule with that network stays')
  t.notOk(passes(moved, ['a', 'b'], '10.0.0.1'), 'deny of one policy beats allow of another')
  t.notOk(passes(moved, ['b'], '10.0.0.1'))
  const denied = rule('b', '10.0.0.0/8', 'deny')
  const smaller = moved.with([change('r1', denied, rule('b', '10.1.0.0/16', 'deny'))])
  t.ok(passes(smaller, ['a', 'b'], '10.0.0.1'))
  t.notOk(passes(smaller, ['a', 'b'], '10.1.0.1'))
  t.equal(smaller.with([change('x', undefined, undefined)]), smaller, 'what does not concern it changes nothing')
})

t.test('no address passes a policy without rules', async (t) => {
  const empty = IpPolicies.empty.with([change('p', undefined, policy('a'))])
  for (const address of ['10.0.0.1', '::1', 'nonsense', '']) t.notOk(passes(empty, ['a'], address))
  t.notOk(passes(empty, [], '10.0.0.1'))
})

t.test('a change of one rule among ten thousand costs no rebuilding', async (t) => {
  const rules = Array.from({ length: 10_000 }, (_, i) => rule('a', `10.${i >> 8}.${i & 255}.0/24`))
  const table = IpPolicies.empty.with([
    change('p', undefined, policy('a')),
    ...rules.map((one, i) => change(`r${i}`, undefined, one))
  ])
  const round = (i: number) => {
    const one = rules[i] as Unit
    const without = table.with([change(`r${i}`, one, undefined)])
    return [
      passes(without, ['a'], `10.${i >> 8}.${i & 255}.1`),
      passes(without.with([change(`r${i}`, undefined, one)]), ['a'], `10.${i >> 8}.${i & 255}.1`)
    ]
  }
  for (let i = 0; i < 500; i++) t.same(round(i), [false, true])
  const before = process.cpuUsage()
  for (let i = 500; i < 1_000; i++) round(i)
  const { user, system } = process.cpuUsage(before)
  t.ok((user + system) / 1_000 < 1_000, `${(user + system) / 1_000} microseconds a change with its first lookup`)
})
