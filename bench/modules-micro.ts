import { Breaker } from '../src/features/circuit-breaker/breaker.js'
import { systemClock } from '../src/lib/clock.js'
import { judge } from '../src/lib/ip.js'
import { IpPolicies } from '../src/runtime/address-filter.js'
import type { Unit } from '../src/runtime/plan.js'
import type { UnitChange } from '../src/runtime/plan-changes.js'
import { type MicroResult, timed } from './timing.js'

const RULES = 10_000
const POLICY = 'ipp_bench'

/** Numbers below 2^32, the same in every run. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state
  }
}

/** Half IPv4, half IPv6, every usual length of a prefix, one in eight a deny rule. */
function rule(i: number, next: () => number): UnitChange {
  const v4 = `${(next() % 223) + 1}.${next() >>> 24}.${next() >>> 24}.${next() >>> 24}/${8 + (next() % 25)}`
  const v6 = `2001:${(next() >>> 20).toString(16)}:${(next() >>> 16).toString(16)}:${(next() >>> 16).toString(16)}::/${24 + (next() % 41)}`
  return change(i, i % 2 === 0 ? v4 : v6, i % 8 === 0 ? 'deny' : 'allow')
}

function change(i: number, cidr: string, action: 'allow' | 'deny'): UnitChange {
  const unit: Unit = { kind: 'ip_rule', policy: POLICY, cidr, action }
  return { key: `ip_rule:${i}`, before: undefined, after: unit }
}

function addresses(next: () => number): string[] {
  return Array.from({ length: 1_024 }, (_, i) =>
    i % 2 === 0
      ? `${(next() % 223) + 1}.${next() >>> 24}.${next() >>> 24}.${next() >>> 24}`
      : `2001:${(next() >>> 20).toString(16)}:${(next() >>> 16).toString(16)}::${(next() >>> 16).toString(16)}`
  )
}

/** IP policies of ten thousand rules, and the circuit breaker. */
export function modulesMicro(): MicroResult[] {
  const next = numbers(7)
  const rules = Array.from({ length: RULES }, (_, i) => rule(i, next))
  const policy: UnitChange = {
    key: `ip_policy:${POLICY}`,
    before: undefined,
    after: { kind: 'ip_policy', id: POLICY }
  }
  const begun = performance.now()
  const policies = IpPolicies.empty.with([policy, ...rules])
  const building = performance.now() - begun

  const asked = addresses(next)
  let at = 0
  let passed = 0
  const lookup = (family: 0 | 1) =>
    timed(200_000, () => {
      at += 2
      if (judge([policies.get(POLICY)], asked[(at & 1_022) + family]).passes) passed++
    })
  const [v4, v6] = [lookup(0), lookup(1)]

  const times: number[] = []
  const write = timed(20_000, () => {
    const i = at++ % RULES
    const one = rules[i] as UnitChange
    // CPU time: another process on the machine must not count.
    const from = process.cpuUsage()
    const without = policies.with([{ key: one.key, before: one.after, after: undefined }])
    const again = without.with([one])
    if (!judge([again.get(POLICY)], asked[at & 1_023]).passes) passed++
    const { user, system } = process.cpuUsage(from)
    times.push((user + system) / 1_000)
  })

  const rare = times.sort((a, b) => b - a)[Math.floor(times.length / 1_000)] as number

  const breaker = new Breaker({ clock: systemClock, window: 10_000, buckets: 10 })
  const settings = { volume: 20, threshold: 0.5, tripped: 10_000 }
  const healthy = timed(1_000_000, () => {
    breaker.settle(breaker.admit(settings), 'succeeded', settings)
  })
  return [
    {
      name: 'ip policy: 10,000 rules, an IPv4 address',
      nanoseconds: v4,
      note: `${passed} passed; built in ${building.toFixed(1)} ms`
    },
    { name: 'ip policy: 10,000 rules, an IPv6 address', nanoseconds: v6 },
    {
      name: 'ip policy: 10,000 rules, one dropped, added again and asked',
      nanoseconds: write,
      note: `${rare.toFixed(3)} ms of CPU once in a thousand`
    },
    { name: 'circuit breaker: admitted and settled', nanoseconds: healthy }
  ]
}
