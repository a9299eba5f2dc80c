import type { Steps } from '../lib/slices.js'
import type { RestrictionUnit } from './plan.js'
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

  *editing(changes: readonly UnitChange[]): Steps<Restrictions> {
    const gone: RestrictionUnit[] = []
    const put: RestrictionUnit[] = []
    for (const { before, after } of changes) {
      const former = asKind(before, 'restriction')
      if (former !== undefined) gone.push(former)
      const unit = asKind(after, 'restriction')
      if (unit !== undefined) put.push(unit)
      yield
    }
    if (gone.length === 0 && put.length === 0) return this
    const byTraffic = new Map(this.#byTraffic)
    for (const { traffic } of gone) byTraffic.delete(traffic)
    for (const unit of put) byTraffic.set(unit.traffic, unit)
    return new Restrictions(byTraffic)
  }
}
