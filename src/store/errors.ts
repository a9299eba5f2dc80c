import { CodedError } from '../lib/coded-error.js'
import type { Claim, RecordKey } from './store.js'

/**
 * - `STORE_UNAVAILABLE`: out of reach, full, read-only or too slow; nothing was changed, and it may work later.
 * - `STORE_REFUSED`: the database does not let this user in: wrong name, password or database; only its operator can help.
 * - `STORE_DEGRADED`: the process serves its own copy of the configuration, which takes no writes; nothing was changed.
 * - `STORE_BUSY`: another process has held the turn to write for too long; nothing was changed, and it works once that is done.
 * - `STORE_FAILED`: the database refused a statement or its file is damaged; a repetition does not help.
 * - `STORE_OUTCOME_UNKNOWN`: the connection broke during a commit and the database stayed out of reach.
 * - `STORE_CLAIMED`: another record holds the value (`ClaimConflict`).
 * - `STORE_EXISTS`, `STORE_MISSING`: the record is there already, or is not.
 * - `STORE_LOCKED`: another process has the file.
 * - `STORE_SCHEMA_NEWER`: the data was written by a newer version.
 * - `STORE_ADDRESS`: what was given to open is no address of a store.
 * - `STORE_SEAL_KEY`: the secrets of the store are sealed by another key than the one that this process has.
 * - `STORE_NO_COPY`: this kind of database is copied by its own tools.
 * - `STORE_CLOSED`: used after it was closed, or a transaction after its end.
 */
export type StoreErrorCode =
  | 'STORE_UNAVAILABLE'
  | 'STORE_REFUSED'
  | 'STORE_DEGRADED'
  | 'STORE_BUSY'
  | 'STORE_FAILED'
  | 'STORE_OUTCOME_UNKNOWN'
  | 'STORE_CLAIMED'
  | 'STORE_EXISTS'
  | 'STORE_MISSING'
  | 'STORE_LOCKED'
  | 'STORE_SCHEMA_NEWER'
  | 'STORE_ADDRESS'
  | 'STORE_SEAL_KEY'
  | 'STORE_NO_COPY'
  | 'STORE_CLOSED'

/** What keeps a store from being used: it does not answer, takes no writes, has no room, or its disk fails. */
export type StoreTrouble = 'unreachable' | 'read_only' | 'full' | 'failing'

export interface StoreErrorOptions extends ErrorOptions {
  readonly trouble?: StoreTrouble | undefined
}

export class StoreError extends CodedError {
  declare readonly code: StoreErrorCode
  /** What the failure says about the store as a whole. Undefined: nothing. */
  readonly trouble: StoreTrouble | undefined

  constructor(code: StoreErrorCode, message: string, options: StoreErrorOptions = {}) {
    super(code, message, options)
    this.name = 'StoreError'
    this.trouble = options.trouble
  }
}

/** The value is taken; `keeper` is the record that holds it. The message leaves the value out: it may be a token's hash. */
export class ClaimConflict extends StoreError {
  readonly claim: Claim
  readonly keeper: RecordKey

  constructor(claim: Claim, keeper: RecordKey) {
    super('STORE_CLAIMED', `the value in ${claim.space} belongs to ${keeper.kind} ${keeper.id}`)
    this.name = 'ClaimConflict'
    this.claim = claim
    this.keeper = keeper
  }
}
