import { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import type { Plan, Unit } from './plan.js'

/** Units put and dropped by a change, from one plan number to the next. */
export interface Change {
  readonly from: number
  readonly to: number
  readonly put: readonly (readonly [key: string, unit: Unit])[]
  readonly drop: readonly string[]
}

export const emptyPlan: Plan = { number: 0, units: ShardedMap.empty() }

/**
 * Returns the plan after `change`, in steps; the given plan is unchanged. Throws a RangeError if the change does not start at the plan's
 * number, because a write would be lost.
 */
export function* applying(plan: Plan, change: Change): Steps<Plan> {
  if (change.from !== plan.number) {
    throw new RangeError(`the change starts at plan ${change.from}, and this is plan ${plan.number}`)
  }
  return { number: change.to, units: yield* plan.units.editing(change.put, change.drop) }
}

/** Change of one unit. */
export interface UnitChange {
  readonly key: string
  readonly before: Unit | undefined
  readonly after: Unit | undefined
}

/** Returns the changed units with their previous versions; each key once. */
export function* unitChanges(plan: Plan, { put, drop }: Change): Steps<UnitChange[]> {
  const changes = new Map<string, UnitChange>()
  const passes = new Passes()
  for (const key of drop) {
    changes.set(key, { key, before: plan.units.get(key), after: undefined })
    if (passes.due()) yield
  }
  for (const [key, after] of put) {
    changes.set(key, { key, before: plan.units.get(key), after })
    if (passes.due()) yield
  }
  const all: UnitChange[] = []
  for (const change of changes.values()) {
    all.push(change)
    if (passes.due()) yield
  }
  return all
}

/** Returns the unit if it has this kind. */
export function asKind<K extends Unit['kind']>(
  unit: Unit | undefined,
  kind: K
): Extract<Unit, { kind: K }> | undefined {
  return unit?.kind === kind ? (unit as Extract<Unit, { kind: K }>) : undefined
}
