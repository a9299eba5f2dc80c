import type { Slices, Steps } from '../lib/slices.js'
import type { UnitProblems } from '../policy/problems.js'
import { type CompileOptions, type Prepared, preparing } from './compile.js'
import type { SecretValues } from './plan.js'
import type { Change } from './plan-changes.js'
import type { BoundPorts, PortProblem, Ports } from './ports.js'
import type { Snapshot, SnapshotHolder } from './snapshot.js'

/** What a thread serves a plan with. */
export interface ServingParts {
  readonly holder: SnapshotHolder
  readonly compile: CompileOptions
  readonly ports: Ports
  /** For one change: it is compiled beside traffic. */
  readonly slices: () => Slices
  /** Called after a new snapshot has been swapped in. Must not throw. */
  readonly swapped: (snapshot: Snapshot) => void
  /** What follows `swapped` beside traffic, and comes to its end before the next change. Must not throw. */
  readonly settling: (snapshot: Snapshot) => Steps<void>
}

/**
 * A change that is compiled beside what runs. `swap` makes it serve, as the revision of the store that is given or else the one
 * that runs, and cannot fail; nothing else may change what runs until it has resolved. Instead, `abandon` undoes what was prepared.
 */
export type Staged =
  | {
      readonly ok: true
      /** What serves after `swap`. */
      readonly snapshot: Snapshot
      readonly warnings: readonly UnitProblems[]
      /** Ports that are not open although a unit asks for them. */
      readonly ports: readonly PortProblem[]
      swap(revision?: number): Promise<void>
      abandon(): void
    }
  | { readonly ok: false; readonly problems: readonly UnitProblems[]; readonly ports: readonly PortProblem[] }

/** A failed bind beside a change that compiles, or the other way round. */
const NO_PORTS: readonly PortProblem[] = []

/**
 * Compiles a change beside the running snapshot and binds its ports; the same in every thread that serves a plan. With `tolerant` a
 * port that is taken does not refuse the change. `secrets`: the values that its units refer to.
 */
export async function stage(
  parts: ServingParts,
  change: Change,
  secrets: SecretValues,
  tolerant: boolean
): Promise<Staged> {
  const running = parts.holder.current()
  const prepared = await parts.slices().run(preparing(running, change, secrets, parts.compile))
  if (!prepared.ok) return { ...prepared, ports: NO_PORTS }
  const bound = await parts.ports.bind(running, prepared.snapshot)
  if (bound.failed.length > 0 && !tolerant) {
    bound.abandon()
    return { ok: false, problems: [], ports: bound.failed }
  }
  return {
    ok: true,
    snapshot: prepared.snapshot,
    warnings: prepared.warnings,
    ports: bound.failed,
    swap: (revision) => swap(parts, prepared, bound, revision),
    abandon: () => bound.abandon()
  }
}

async function swap(
  parts: ServingParts,
  prepared: Prepared & { readonly ok: true },
  bound: BoundPorts,
  revision?: number
): Promise<void> {
  const snapshot = revision === undefined ? prepared.snapshot : prepared.snapshot.at(revision)
  const slices = parts.slices()
  await slices.run(prepared.taking())
  parts.holder.swap(snapshot)
  bound.commit()
  parts.swapped(snapshot)
  await slices.run(parts.settling(snapshot))
  await slices.run(prepared.sweeping())
}
