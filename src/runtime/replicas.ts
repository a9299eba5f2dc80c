import type { SecretValues } from './plan.js'
import type { Change } from './plan-changes.js'
import type { Snapshot } from './snapshot.js'

/** Change sent to the other threads that serve the plan. */
export interface ReplicatedChange {
  readonly change: Change
  /** Secret values for its units. */
  readonly secrets: SecretValues
  /** The change must be applied: a thread that cannot apply it is replaced by a new one with the current plan. */
  readonly tolerant: boolean
}

/** Change that every thread has prepared. Exactly one of `commit` and `abandon` must be called. */
export interface PreparedReplicas {
  readonly ok: true
  /** Applies the change. `snapshot`: the new snapshot of this thread. Resolves once no thread serves the old one. Never rejects. */
  commit(snapshot: Snapshot): Promise<void>
  abandon(): void
}

/** A thread failed to prepare the change or did not respond in time. No thread has changed. */
export interface UnpreparedReplicas {
  readonly ok: false
}

/** Other threads of the process that serve the same plan. */
export interface Replicas {
  /** Prepares the change in all threads. Never rejects; only one change may be prepared at a time. */
  prepare(change: ReplicatedChange): Promise<PreparedReplicas | UnpreparedReplicas>
  /** Sets a new revision number for the unchanged plan. */
  serves(snapshot: Snapshot): void
}

const NOTHING: PreparedReplicas = { ok: true, commit: async () => undefined, abandon: () => undefined }

/** Replicas of a process with a single thread. */
export const noReplicas: Replicas = { prepare: async () => NOTHING, serves: () => undefined }
