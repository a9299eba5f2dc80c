import type { Steps } from '../lib/slices.js'
import type { Change, Plan, Unit } from './plan.js'

/** What a change does to one unit. */
export interface UnitChange {
  readonly key: string
  readonly before: Unit | undefined
  readonly after: Unit | undefined
}

/** The units of a change with what stood there before; each key once. */
export function* unitChanges(plan: Plan, { put, drop }: Change): Steps<UnitChange[]> {
  const changes = new Map<string, UnitChange>()
  for (const key of drop) {
    changes.set(key, { key, before: plan.units.get(key), after: undefined })
    yield
  }
  for (const [key, after] of put) {
    changes.set(key, { key, before: plan.units.get(key), after })
    yield
  }
  const all: UnitChange[] = []
  for (const change of changes.values()) {
    all.push(change)
    yield
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
