import type { UnitProblems } from '../policy/problems.js'
import type { Unit } from '../runtime/plan.js'
import type { Live, Ready, Units } from './live.js'

/** What a process serves of a change that is committed already, and what it could not take. */
export interface Tolerated {
  readonly ready: Ready & { readonly ok: true }
  readonly problems: readonly UnitProblems[]
}

/**
 * Readies a change that cannot be refused any more: another process, or an earlier version, has committed it. A policy
 * that does not compile here keeps its former text; a route or TCP edge whose policy never compiled is left out, because it
 * would forward unprotected. Ports that are taken here stay closed.
 */
export async function readyWhatCompiles(live: Live, units: Units): Promise<Tolerated> {
  const whole = await live.ready(units, true)
  if (whole.ok) return { ready: whole, problems: [] }
  const failed = new Set(whole.problems.map(({ key }) => key))
  const missing = new Set([...failed].filter((key) => live.units.get(key) === undefined))
  const left = units.put.filter(([key, unit]) => failed.has(key) || needsAny(unit, missing)).map(([key]) => key)
  const leaves = new Set(left)
  const put = units.put.filter(([key]) => !leaves.has(key))
  // What is left out must not go on with what it was before, unless that is its former text.
  const dropped = left.filter((key) => !failed.has(key) && live.units.has(key))
  const rest = await live.ready({ ...units, put, drop: [...units.drop, ...dropped] }, true)
  if (!rest.ok) throw new RangeError('a change without its failed policies failed again')
  return { ready: rest, problems: whole.problems }
}

function needsAny(unit: Unit, policies: ReadonlySet<string>): boolean {
  if (unit.kind !== 'route' && unit.kind !== 'tcp_edge') return false
  const policy = unit.modules.traffic_policy as { readonly policy: string } | undefined
  return policy !== undefined && policies.has(policy.policy)
}
