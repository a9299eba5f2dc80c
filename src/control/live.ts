import { isDeepStrictEqual } from 'node:util'
import type { ShardedMap } from '../lib/sharded-map.js'
import type { Change, Unit } from '../plan/plan.js'
import { type CompileOptions, prepare, type UnitProblems } from '../snapshot/compile.js'
import type { SnapshotHolder } from '../snapshot/holder.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Applied } from './applied-units.js'

export type Units = Pick<Change, 'put' | 'drop'>

/** A change that is compiled beside what runs. `swap` makes it serve and cannot fail; without it nothing has happened. */
export type Ready =
  | { readonly ok: true; readonly warnings: readonly UnitProblems[]; swap(): void }
  | { readonly ok: false; readonly problems: readonly UnitProblems[] }

/**
 * What runs, and the only hand that changes it. Between `ready` and `swap` nothing else may change it: callers take turns.
 * Two hands give units: the process itself (options and files) and the records of the store; their keys never meet.
 */
export class Live {
  readonly #holder: SnapshotHolder
  readonly #options: CompileOptions
  readonly #swapped: (snapshot: Snapshot) => void
  /** Keys of the units of the process itself. */
  #own: ReadonlySet<string> = new Set()

  constructor(holder: SnapshotHolder, options: CompileOptions, swapped: (snapshot: Snapshot) => void) {
    this.#holder = holder
    this.#options = options
    this.#swapped = swapped
  }

  get units(): ShardedMap<Unit> {
    return this.#holder.current().plan.units
  }

  /** Compiles a change beside the running snapshot. */
  ready({ put, drop }: Units): Ready {
    if (put.length === 0 && drop.length === 0) return { ok: true, warnings: [], swap: () => undefined }
    const running = this.#holder.current()
    const change = { from: running.revision, to: running.revision + 1, put, drop }
    const prepared = prepare(running, change, this.#options)
    if (!prepared.ok) return prepared
    return { ok: true, warnings: prepared.warnings, swap: () => this.#swap(prepared) }
  }

  /** Makes exactly `units` those of the process itself; the records' stay. All or nothing. */
  applyOwn(units: ReadonlyMap<string, Unit>): Applied {
    const { put, drop } = this.#unlike(units, this.#own)
    const ready = this.ready({ put, drop })
    const { revision } = this.#holder.current()
    if (!ready.ok) return { ok: false, revision, problems: ready.problems }
    ready.swap()
    this.#own = new Set(units.keys())
    const changed = put.length > 0 || drop.length > 0
    return { ok: true, revision: this.#holder.current().revision, changed, warnings: ready.warnings }
  }

  /** The change after which the records' units are exactly `units`. */
  fromRecords(units: ReadonlyMap<string, Unit>): Units {
    const keys = new Set<string>()
    for (const [key] of this.units) if (!this.#own.has(key)) keys.add(key)
    return this.#unlike(units, keys)
  }

  #unlike(units: ReadonlyMap<string, Unit>, before: ReadonlySet<string>): Units {
    const put = [...units].filter(([key, unit]) => !isDeepStrictEqual(this.units.get(key), unit))
    return { put, drop: [...before].filter((key) => !units.has(key)) }
  }

  #swap({ commit, snapshot }: { commit(): void; readonly snapshot: Snapshot }): void {
    commit()
    this.#holder.swap(snapshot)
    this.#swapped(snapshot)
  }
}
