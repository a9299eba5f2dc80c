import { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import type { Plan, Unit } from './plan.js'

/** The units that a change puts and drops, from the plan of one number to that of another. */
export interface Change {
  readonly from: number
  readonly to: number
  readonly put: readonly (readonly [key: string, unit: Unit])[]
  readonly drop: readonly string[]
}

export const emptyPlan: Plan = { number: 0, units: ShardedMap.empty() }

/**
 * The plan after `change`, in steps; the plan given stays as it is.
 * Throws a RangeError when the change does not start at the plan's number: applying it would lose a write.
 */
export function* applying(plan: Plan, change: Change): Steps<Plan> {
  if (change.from !== plan.number) {
    throw new RangeError(`the change starts at plan ${change.from}, and this is plan ${plan.number}`)
  }
  return { number: change.to, units: yield* plan.units.editing(change.put, change.drop) }
}

/** What a change does to one unit. */
export interface UnitChange {
  readonly key: string
  readonly before: Unit | undefined
  readonly after: Unit | undefined
}

/** The units of a change with what stood there before; each key once. */
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

/** The unit when it is of this kind. */
export function asKind<K extends Unit['kind']>(
  unit: Unit | undefined,
  kind: K
): Extract<Unit, { kind: K }> | undefined {
  return unit?.kind === kind ? (unit as Extract<Unit, { kind: K }>) : undefined
}
