import type { Applied } from '../../control/applied-units.js'
import { Mutex } from '../../lib/concurrency.js'
import type { Unit } from '../../runtime/plan.js'

type UnitsByKey = ReadonlyMap<string, Unit>

/**
 * The units of the process itself: what the files say, and the endpoints that agents have opened. Each part is replaced as
 * a whole, and parts take turns, so that none of them undoes what another has just done.
 */
export class OwnUnits {
  readonly #apply: (units: UnitsByKey) => Promise<Applied>
  #parts: ReadonlyMap<string, UnitsByKey> = new Map()
  readonly #mutex = new Mutex()

  /** `apply` makes exactly these units those of the process. */
  constructor(apply: (units: UnitsByKey) => Promise<Applied>) {
    this.#apply = apply
  }

  /** A part that is refused stays as it was. */
  put(part: string, units: UnitsByKey): Promise<Applied> {
    return this.#mutex.run(async () => {
      const next = new Map(this.#parts).set(part, units)
      const applied = await this.#apply(merged(next))
      if (applied.ok) this.#parts = next
      return applied
    })
  }

  /** The part is gone, even when that cannot be applied now: then it goes with the next change. */
  drop(part: string): Promise<Applied> {
    return this.#mutex.run(async () => {
      const next = new Map(this.#parts)
      next.delete(part)
      this.#parts = next
      return await this.#apply(merged(next))
    })
  }
}

function merged(parts: ReadonlyMap<string, UnitsByKey>): UnitsByKey {
  const units = new Map<string, Unit>()
  for (const part of parts.values()) for (const [key, unit] of part) units.set(key, unit)
  return units
}
