import type { SecretValues, Unit } from '../../../runtime/plan.js'
import type { Change } from '../../../runtime/plan-changes.js'
import type { Snapshot } from '../../../runtime/snapshot.js'

/**
 * Messages from the thread that writes the plan to a replica: plain data for structured clone. Messages arrive in order, and
 * a replica handles them in sequence.
 */
export type ToReplica =
  /** A piece of the whole plan, for a thread that begins. */
  | { readonly kind: 'plan'; readonly put: readonly (readonly [string, Unit])[]; readonly secrets: SecretValues }
  /** Serves the plan after its last piece. */
  | { readonly kind: 'begin'; readonly number: number; readonly revision: number }
  /** Compiles a change without serving it. `order` distinguishes attempts at the same change. */
  | { readonly kind: 'prepare'; readonly order: number; readonly change: Change; readonly secrets: SecretValues }
  | { readonly kind: 'commit'; readonly order: number; readonly revision: number }
  | { readonly kind: 'abandon'; readonly order: number }
  /** Prepares and commits in one step: other workers already serve it. */
  | { readonly kind: 'apply'; readonly change: Change; readonly secrets: SecretValues; readonly revision: number }
  | { readonly kind: 'revision'; readonly revision: number }

/** Responses of a replica. */
export type FromReplica =
  | { readonly kind: 'prepared'; readonly order: number }
  | { readonly kind: 'unprepared'; readonly order: number; readonly reason: string }
  /** The plan of this number serves in the thread. */
  | { readonly kind: 'serving'; readonly number: number }
  /** The thread is at work on something that takes long, and its loop turns. */
  | { readonly kind: 'alive' }

/** Units per piece: a message of this size takes a few milliseconds on both sides. */
const PIECE = 1_000

/** The plan of a snapshot with the values that it refers to, in pieces. */
export function* planPieces(snapshot: Snapshot): Generator<Extract<ToReplica, { kind: 'plan' }>> {
  let put: [string, Unit][] = []
  let secrets = new Map<string, string>()
  for (const [key, unit] of snapshot.plan.units) {
    put.push([key, unit])
    const reference = unit.kind === 'certificate' ? unit.privateKey : unit.kind === 'secret' ? unit.value : undefined
    const value = reference === undefined ? undefined : clearValue(snapshot, key, unit)
    if (reference !== undefined && value !== undefined) secrets.set(reference.secret, value)
    if (put.length < PIECE) continue
    yield { kind: 'plan', put, secrets }
    put = []
    secrets = new Map()
  }
  if (put.length > 0) yield { kind: 'plan', put, secrets }
}

/** A secret that could not be decrypted is missing here, as in the snapshot. */
function clearValue({ tables }: Snapshot, key: string, unit: Unit): string | undefined {
  if (unit.kind === 'certificate') return tables.certificates.at(key)?.privateKey
  return unit.kind === 'secret' ? tables.secrets.at(unit.vault, unit.name) : undefined
}
