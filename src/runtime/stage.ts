import type { Slices, Steps } from '../lib/slices.js'
import type { UnitProblems } from '../policy/problems.js'
import { type CompileOptions, type Prepared, preparing } from './compile.js'
import type { SecretValues } from './plan.js'
import type { Change } from './plan-changes.js'
import type { BoundPorts, PortProblem, Ports } from './ports.js'
import type { Snapshot, SnapshotHolder } from './snapshot.js'

/** Dependencies for serving a plan in a thread. */
export interface ServingParts {
  readonly holder: SnapshotHolder
  readonly compile: CompileOptions
  readonly ports: Ports
  /** Slices of the work for one change, which is compiled beside traffic. */
  readonly slices: () => Slices
  /** Called after a swap. Must not throw. */
  readonly swapped: (snapshot: Snapshot) => void
  /** Steps after `swapped`, beside traffic; they finish before the next change. Must not throw. */
  readonly settling: (snapshot: Snapshot) => Steps<void>
}

/**
 * Change compiled beside the running snapshot. `swap` makes it current, with the given store revision or the running one, and cannot fail;
 * only one change may be staged until it resolves. `abandon` discards it instead.
 */
export type Staged =
  | {
      readonly ok: true
      /** Snapshot that is current after `swap`. */
      readonly snapshot: Snapshot
      readonly warnings: readonly UnitProblems[]
      /** Requested ports that are not open. */
      readonly ports: readonly PortProblem[]
      swap(revision?: number): Promise<void>
      abandon(): void
    }
  | { readonly ok: false; readonly problems: readonly UnitProblems[]; readonly ports: readonly PortProblem[] }

/** Used if only one of compiling and binding failed. */
const NO_PORTS: readonly PortProblem[] = []

/**
 * Compiles a change beside the running snapshot and binds its ports; runs in every thread that serves a plan. With `tolerant` a port in use
 * does not reject the change. `secrets`: values for its units.
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
