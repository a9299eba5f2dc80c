import type { Json } from '../lib/json.js'

/**
 * The store of the control plane: what it holds and what can be asked of it. Two implementations behind one interface:
 * SQLite for one process, PostgreSQL for several.
 *
 * Every write is one transaction with one revision. Revisions are numbered in commit order without gaps, so that
 * "everything after my last" never loses a write. Whatever fails, fails with a `StoreError`.
 */

/** Kinds and ids are opaque text without NUL; an id is unique within its kind. */
export interface RecordKey {
  readonly kind: string
  readonly id: string
}

/** A record as the store keeps it. */
export interface StoredRecord extends RecordKey {
  /** Greater than that of every record stored before, over all kinds. */
  readonly sequence: number
  /** The revision that wrote this record last. */
  readonly revision: number
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number
  readonly body: Json
  /** Write-only values in sealed form; the store never looks inside. */
  readonly sealed: Uint8Array | null
}

/** A record with all that hangs on it, as the store keeps it. */
export interface WholeRecord extends Omit<StoredRecord, 'body'> {
  /** JSON text. */
  readonly body: string
  readonly references: readonly Omit<Reference, 'from'>[]
  readonly claims: readonly Claim[]
}

/** Which records are wanted whole: those behind a key in the order of keys, or those of some keys that exist. */
export type WholeRequest =
  | { readonly after: RecordKey | undefined; readonly limit: number }
  | { readonly keys: readonly RecordKey[] }

/** The sealed values of one record. */
export interface SealedRecord extends RecordKey {
  readonly sealed: Uint8Array
}

/** A record to write for the first time. */
export interface NewRecord extends RecordKey {
  readonly body: Json
  readonly sealed?: Uint8Array | null
  /** Milliseconds since the Unix epoch; the time of the transaction unless given. */
  readonly createdAt?: number
}

/** What of a record is written anew; what is absent stays. */
export interface RecordUpdate {
  readonly body?: Json
  readonly sealed?: Uint8Array | null
}

/** The whole content of a record that is there. */
export interface KeyedUpdate extends RecordKey, Required<RecordUpdate> {}

/** A field of one record names another. The record that is named need not exist (any more). */
export interface Reference {
  readonly from: RecordKey
  readonly field: string
  readonly to: RecordKey
  /** Place within the field, from 0. */
  readonly position: number
}

/** A value that at most one record holds in its space: a hostport, a name, a token's hash. */
export interface Claim {
  readonly space: string
  /** Any text of at most 1,000 bytes. */
  readonly value: string
}

/** A value that a record takes. */
export interface KeptClaim extends Claim {
  readonly keeper: RecordKey
}

export type Operation = 'insert' | 'update' | 'delete'

/** One record that a revision has changed. */
export interface Change extends RecordKey {
  readonly revision: number
  readonly operation: Operation
}
