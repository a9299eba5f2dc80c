import { CodedError, defineErrors } from '../lib/errors.js'
import type { Claim, RecordKey } from './records.js'

/** Codes of `StoreError`. */
export const storeErrors = defineErrors({
  STORE_UNAVAILABLE: {
    text: 'The store is out of reach, full, read-only or too slow. Nothing was changed, and it may work later.'
  },
  STORE_REFUSED: { text: 'The database rejects this user: wrong name, password or database. Ask its operator.' },
  STORE_DEGRADED: { text: 'The process serves its own copy of the configuration, which takes no writes.' },
  STORE_BUSY: { text: 'Another process has been writing for too long. Nothing was changed; try again later.' },
  STORE_FAILED: { text: 'The database refused a statement or its file is damaged. A repetition does not help.' },
  STORE_OUTCOME_UNKNOWN: { text: 'The connection broke during a commit and the database stayed out of reach.' },
  STORE_CLAIMED: { text: 'Another record holds the value.' },
  STORE_EXISTS: { text: 'The record exists already.' },
  STORE_MISSING: { text: 'The record does not exist.' },
  STORE_LOCKED: { text: 'Another process has the file of the store.' },
  STORE_SCHEMA_NEWER: { text: 'The data was written by a newer version of Sluice.' },
  STORE_ADDRESS: { text: 'The address is no address of a store.' },
  STORE_SEAL_KEY: { text: 'The secrets of the store are sealed by another key than the one of this process.' },
  STORE_NO_COPY: { text: 'This kind of database is copied by its own tools.' },
  STORE_CLOSED: { text: 'The store was used after it was closed, or a transaction after its end.' }
})

export type StoreErrorCode = keyof typeof storeErrors

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
