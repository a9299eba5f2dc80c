import type { SecretValues } from './plan.js'
import type { Change } from './plan-changes.js'
import type { Snapshot } from './snapshot.js'

/** A change on its way to the other threads that serve the plan. */
export interface ReplicatedChange {
  readonly change: Change
  /** The values that its units refer to. */
  readonly secrets: SecretValues
  /** It cannot be refused any more: a thread that cannot take it is ended, and another one begins with the plan as it then is. */
  readonly tolerant: boolean
}

/** A change that every thread has prepared beside what it serves. Exactly one of `commit` and `abandon` is called. */
export interface PreparedReplicas {
  readonly ok: true
  /** `snapshot` is what this thread serves from now on. Resolves when no other thread serves what was before. Never rejects. */
  commit(snapshot: Snapshot): Promise<void>
  abandon(): void
}

/** A thread could not prepare the change, or did not answer in time. Nothing has changed in any of them. */
export interface UnpreparedReplicas {
  readonly ok: false
}

/** The other threads of the process that serve the same plan. */
export interface Replicas {
  /** Prepares the change in all of them. Never rejects; nothing else may be prepared until the answer is committed or abandoned. */
  prepare(change: ReplicatedChange): Promise<PreparedReplicas | UnpreparedReplicas>
  /** The plan is as it was and has the number of another revision. */
  serves(snapshot: Snapshot): void
}

const NOTHING: PreparedReplicas = { ok: true, commit: async () => undefined, abandon: () => undefined }

/** Of a process that serves with one thread. */
export const noReplicas: Replicas = { prepare: async () => NOTHING, serves: () => undefined }
