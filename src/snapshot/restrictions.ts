import type { RestrictionUnit } from '../plan/plan.js'
import { asKind, type UnitChange } from './unit-change.js'

/** The IP restriction of each class of traffic. Immutable. */
export class Restrictions {
  readonly #byTraffic: ReadonlyMap<string, RestrictionUnit>

  private constructor(byTraffic: ReadonlyMap<string, RestrictionUnit>) {
    this.#byTraffic = byTraffic
  }

  static readonly empty = new Restrictions(new Map())

  get(traffic: string): RestrictionUnit | undefined {
    return this.#byTraffic.get(traffic)
  }

  with(changes: readonly UnitChange[]): Restrictions {
    const before = changes.flatMap(({ before }) => asKind(before, 'restriction') ?? [])
    const after = changes.flatMap(({ after }) => asKind(after, 'restriction') ?? [])
    if (before.length === 0 && after.length === 0) return this
    const byTraffic = new Map(this.#byTraffic)
    for (const { traffic } of before) byTraffic.delete(traffic)
    for (const unit of after) byTraffic.set(unit.traffic, unit)
    return new Restrictions(byTraffic)
  }
}
