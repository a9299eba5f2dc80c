import type { Json } from '../lib/json.js'

/**
 * Store of the control plane. One interface with two implementations: SQLite for one process, PostgreSQL for several.
 *
 * Every write is one transaction with one revision. Revisions are numbered in commit order without gaps, so that a read after a revision
 * never misses a write. Every failure is a `StoreError`.
 */

/** Kind and id are opaque text without NUL; an id is unique for its kind. */
export interface RecordKey {
  readonly kind: string
  readonly id: string
}

/** Record as stored. */
export interface StoredRecord extends RecordKey {
  /** Greater than that of all earlier records of any kind. */
  readonly sequence: number
  /** Revision that last wrote this record. */
  readonly revision: number
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number
  readonly body: Json
  /** Sealed write-only values; opaque to the store. */
  readonly sealed: Uint8Array | null
}

/** Record as stored, with its references and claims. */
export interface WholeRecord extends Omit<StoredRecord, 'body'> {
  /** JSON text. */
  readonly body: string
  readonly references: readonly Omit<Reference, 'from'>[]
  readonly claims: readonly Claim[]
}

/** Selects complete records: those after a key in key order, or those with the given keys. */
export type WholeRequest =
  | { readonly after: RecordKey | undefined; readonly limit: number }
  | { readonly keys: readonly RecordKey[] }

/** Sealed values of one record. */
export interface SealedRecord extends RecordKey {
  readonly sealed: Uint8Array
}

/** New record. */
export interface NewRecord extends RecordKey {
  readonly body: Json
  readonly sealed?: Uint8Array | null
  /** Milliseconds since the Unix epoch. @default the time of the transaction */
  readonly createdAt?: number
}

/** Changed parts of a record; missing ones are unchanged. */
export interface RecordUpdate {
  readonly body?: Json
  readonly sealed?: Uint8Array | null
}

/** Complete content of an existing record. */
export interface KeyedUpdate extends RecordKey, Required<RecordUpdate> {}

/** Reference from a field of one record to another, which need not exist. */
export interface Reference {
  readonly from: RecordKey
  readonly field: string
  readonly to: RecordKey
  /** Position in the field, from 0. */
  readonly position: number
}

/** Value that at most one record has in its space: a hostport, a name, a token's hash. */
export interface Claim {
  readonly space: string
  /** Text of at most 1,000 bytes. */
  readonly value: string
}

/** Value with the record that claims it. */
export interface KeptClaim extends Claim {
  readonly keeper: RecordKey
}

export type Operation = 'insert' | 'update' | 'delete'

/** Record changed by a revision. */
export interface Change extends RecordKey {
  readonly revision: number
  readonly operation: Operation
}
