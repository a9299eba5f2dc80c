import type { EdgeUnit, Unit } from '../plan/plan.js'
import type { UnitProblems } from '../snapshot/compile.js'
import type { Live, Ready, Units } from './live.js'

/** What a process serves of a change that is committed already, and what it could not take. */
export interface Tolerated {
  readonly ready: Ready & { readonly ok: true }
  readonly problems: readonly UnitProblems[]
}

/**
 * Readies a change that cannot be refused any more: another process, or an earlier version, has committed it. A policy
 * that does not compile here keeps its former text; a route whose policy never compiled is left out, because it
 * would forward unprotected.
 */
export function readyWhatCompiles(live: Live, units: Units): Tolerated {
  const whole = live.ready(units)
  if (whole.ok) return { ready: whole, problems: [] }
  const failed = new Set(whole.problems.map(({ key }) => key))
  const missing = new Set([...failed].filter((key) => live.units.get(key) === undefined))
  const put = units.put.filter(([key]) => !failed.has(key)).map(([key, unit]) => [key, without(unit, missing)] as const)
  const rest = live.ready({ put, drop: units.drop })
  if (!rest.ok) throw new RangeError('a change without its failed policies failed again')
  return { ready: rest, problems: whole.problems }
}

function without(unit: Unit, policies: ReadonlySet<string>): Unit {
  if (unit.kind !== 'edge') return unit
  const routes = unit.routes.filter(({ policy }) => policy === undefined || !policies.has(policy))
  return routes.length === unit.routes.length ? unit : ({ ...unit, routes } satisfies EdgeUnit)
}
