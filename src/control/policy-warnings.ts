import type { Problem, UnitProblems } from '../policy/problems.js'
import type { UnitName } from '../policy/scope.js'
import type { Unit } from '../runtime/plan.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { PolicyWarning } from './calls.js'

/**
 * What whoever writes policies should know: the warnings of the compiler, and what they name and `snapshot`, which serves next,
 * does not have. No reason to refuse them: what is named may come later.
 */
export function policyWarnings(
  put: readonly (readonly [key: string, unit: Unit])[],
  compiled: readonly UnitProblems[],
  snapshot: Snapshot
): readonly PolicyWarning[] {
  const told = compiled.flatMap(({ problems }) => problems)
  const missing = put.flatMap(([key]) =>
    (snapshot.policy(key)?.named ?? []).filter(({ unit }) => !isThere(unit, snapshot)).map((one) => one.missing)
  )
  return [...told, ...missing].map(shown)
}

function isThere(unit: UnitName, snapshot: Snapshot): boolean {
  switch (unit.kind) {
    case 'secret':
      return snapshot.secret(unit.vault, unit.name) !== undefined
    case 'ip-policy':
      return snapshot.ipPolicy(unit.id) !== undefined
    case 'internal':
      return snapshot.hasInternal(unit.layer, unit.host, unit.port)
  }
}

function shown({ code, message, path, line, column }: Problem): PolicyWarning {
  return { code, message, path, line, column }
}
