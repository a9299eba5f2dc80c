import { takesStrictPaths } from '../flow/target.js'
import { judgePaths, type UnitProblems } from '../policy/problems.js'
import { policyKey, type Unit } from '../runtime/plan.js'
import { asKind } from '../runtime/plan-changes.js'
import type { Snapshot } from '../runtime/snapshot.js'

/** Does the policy with this key serve where paths are in the strict form? */
export function isStrictFor(key: string, { plan, tables }: Snapshot): boolean {
  const policy = asKind(plan.units.get(key), 'policy')
  const route = policy && asKind(plan.units.get(`route:${policy.owner}`), 'route')
  const edge = route && asKind(plan.units.get(`edge:${route.edge}`), 'edge')
  return edge !== undefined && takesStrictPaths(edge.pathForm, tables.https.takesLenientPaths)
}

/**
 * Returns the policies that a change applies to strict paths, but whose rules would not match the paths they name: changed
 * policies, and those of edges with a changed form of paths.
 */
export function refusedOnPaths(
  put: readonly (readonly [key: string, unit: Unit])[],
  before: Pick<Snapshot['plan']['units'], 'get'>,
  snapshot: Snapshot
): readonly UnitProblems[] {
  const reformed = put.filter(([key, unit]) => {
    const edge = asKind(before.get(key), 'edge')
    return unit.kind === 'edge' && edge !== undefined && edge.pathForm !== unit.pathForm
  })
  const edges = new Set(reformed.map(([, unit]) => unit.kind === 'edge' && unit.id))
  const units = edges.size === 0 ? [] : [...snapshot.plan.units].map(([, unit]) => unit)
  const below = units.flatMap((unit) => (unit.kind === 'route' && edges.has(unit.edge) ? [policyKey(unit.id)] : []))
  return [...put.map(([key]) => key), ...below].flatMap((key) => {
    const unit = asKind(snapshot.plan.units.get(key), 'policy')
    const problems = (unit && snapshot.policy(key)?.strictErrors) ?? []
    if (unit === undefined || problems.length === 0 || !isStrictFor(key, snapshot)) return []
    return [{ key, source: unit.source, text: unit.text, problems: judgePaths(problems, true) }]
  })
}
