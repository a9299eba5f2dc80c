import { CodedError, defineErrors } from '../lib/errors.js'
import type { Claim, RecordKey } from './records.js'

/** Codes of `StoreError`. */
export const storeErrors = defineErrors({
  STORE_UNAVAILABLE: {
    text: 'The store is out of reach, full, read-only or too slow. Nothing was changed, and it may work later.',
    help: 'Look at the database, its disk and the network; a running process goes on by itself.'
  },
  STORE_REFUSED: {
    text: 'The database rejects this user: wrong name, password or database. Ask its operator.',
    help: 'Correct user, password or database in the address of the store.'
  },
  STORE_DEGRADED: {
    text: 'The process serves its own copy of the configuration, which takes no writes.',
    help: 'Bring the store back; the process then takes writes again by itself.'
  },
  STORE_BUSY: {
    text: 'Another process has been writing for too long. Nothing was changed; try again later.',
    help: 'Repeat it when the other process, such as an import, is done.'
  },
  STORE_FAILED: {
    text: 'The database refused a statement or its file is damaged. A repetition does not help.',
    help: 'Restore a backup if the file is damaged; else report it with the lines of the log.'
  },
  STORE_LIBRARY: {
    text: 'The SQLite library of this installation does not run here.',
    help: 'Install Sluice for this machine with its optional packages, on a file system that runs programs (no noexec).'
  },
  STORE_OUTCOME_UNKNOWN: {
    text: 'The connection broke during a commit and the database stayed out of reach.',
    help: 'Read the record before you repeat the change.'
  },
  STORE_CLAIMED: {
    text: 'Another record holds the value.',
    help: 'Choose another value, or change the record that holds it.'
  },
  STORE_EXISTS: { text: 'The record exists already.', help: 'Change the record instead of creating it.' },
  STORE_MISSING: { text: 'The record does not exist.', help: 'Look at the id; the record may have been deleted.' },
  STORE_LOCKED: {
    text: 'Another process has the file of the store.',
    help: 'Stop the other process first, or use PostgreSQL for several processes.'
  },
  STORE_SCHEMA_NEWER: {
    text: 'The data was written by a newer version of Sluice.',
    help: 'Start the newer version, or restore a backup of this one.'
  },
  STORE_ADDRESS: {
    text: 'The address is no address of a store.',
    help: 'Give a path or an address such as postgres://user@host/database.'
  },
  STORE_SEAL_KEY: {
    text: 'The secrets of the store are sealed by another key than the one of this process.',
    help: 'Start the process with the sealing key of the store.'
  },
  STORE_NO_COPY: {
    text: 'This kind of database is copied by its own tools.',
    help: 'Use pg_dump or the backups of the operator of the database.'
  },
  STORE_CLOSED: {
    text: 'The store was used after it was closed, or a transaction after its end.',
    help: 'Nothing while a process stops; else report it with the lines of the log.'
  }
})

/** Codes of the configuration copy that a process keeps for outages of its store. */
export const copyErrors = defineErrors({
  COPY_BROKEN: {
    text: 'The file is no whole copy of a configuration in the form of this version.',
    help: 'Delete the file; the process writes a new one as soon as it reaches the store.'
  },
  COPY_KEPT: {
    text: 'The copy is newer than the store, or of another store, and is not replaced.',
    help: 'Put the store of the copy back; or move the copy away, when the store is the right one.'
  },
  COPY_OVERTAKEN: {
    text: 'The configuration changed faster than it could be copied.',
    help: 'Nothing: the copy is tried again, and the one before it stays.'
  }
})

export type StoreErrorCode = keyof typeof storeErrors

/** Problem of the whole store: unreachable, read-only, full, disk failing, file damaged or gone. */
export type StoreTrouble = 'unreachable' | 'read_only' | 'full' | 'failing' | 'damaged' | 'gone'

export interface StoreErrorOptions extends ErrorOptions {
  readonly trouble?: StoreTrouble | undefined
}

/** Error of the store with its code; `trouble` is set if it concerns more than one call. */
export class StoreError extends CodedError {
  declare readonly code: StoreErrorCode
  /** Problem of the whole store, or undefined. */
  readonly trouble: StoreTrouble | undefined

  constructor(code: StoreErrorCode, message: string, options: StoreErrorOptions = {}) {
    super(storeErrors[code], message, options)
    this.name = 'StoreError'
    this.trouble = options.trouble
  }
}

/** The value belongs to another record, `keeper`. The message omits the value, which may be a token's hash. */
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
