import { difference, type Unit } from '../plan/plan.js'
import { type CompileOptions, prepare, type UnitProblems } from '../snapshot/compile.js'
import type { SnapshotHolder } from '../snapshot/holder.js'
import type { Snapshot } from '../snapshot/snapshot.js'

export type Applied =
  /** `revision` serves now; `changed` is false when it already did. */
  | {
      readonly ok: true
      readonly revision: number
      readonly changed: boolean
      readonly warnings: readonly UnitProblems[]
    }
  /** Nothing has changed. */
  | { readonly ok: false; readonly revision: number; readonly problems: readonly UnitProblems[] }

/** The one place that changes what runs: difference → prepare beside the running snapshot → swap. All or nothing. */
export class Configuration {
  readonly #holder: SnapshotHolder
  readonly #options: CompileOptions
  readonly #swapped: (snapshot: Snapshot) => void

  /** `swapped` hears of every new snapshot after it serves. */
  constructor(holder: SnapshotHolder, options: CompileOptions, swapped: (snapshot: Snapshot) => void) {
    this.#holder = holder
    this.#options = options
    this.#swapped = swapped
  }

  /** Makes exactly `units` the running configuration. */
  apply(units: ReadonlyMap<string, Unit>): Applied {
    const running = this.#holder.current()
    const change = difference(running.plan, units)
    if (change === undefined) return { ok: true, revision: running.revision, changed: false, warnings: [] }
    const prepared = prepare(running, change, this.#options)
    if (!prepared.ok) return { ok: false, revision: running.revision, problems: prepared.problems }
    prepared.commit()
    this.#holder.swap(prepared.snapshot)
    this.#swapped(prepared.snapshot)
    return { ok: true, revision: prepared.snapshot.revision, changed: true, warnings: prepared.warnings }
  }
}
