import { codeOf } from '../lib/coded-error.js'
import type { SqliteFailure } from './sqlite-protocol.js'
import { StoreError, type StoreErrorCode, type StoreTrouble } from './store-error.js'

/** What a repetition may heal: no room, no permission, another program in the way, a disk that failed. */
const PASSING = /^(SQLITE_(FULL|BUSY|LOCKED|READONLY|IOERR|CANTOPEN)|E[A-Z]+$)/
const TROUBLES: readonly (readonly [RegExp, StoreTrouble])[] = [
  [/^(SQLITE_FULL|ENOSPC|EDQUOT)$/, 'full'],
  [/^(SQLITE_READONLY|EROFS|EACCES|EPERM)/, 'read_only'],
  [/^(SQLITE_(IOERR|CANTOPEN)|E(IO|FBIG)$)/, 'failing']
]
const OURS: readonly StoreErrorCode[] = ['STORE_LOCKED', 'STORE_UNAVAILABLE', 'STORE_FAILED']

/** An error of the driver, of the system or of ours as data that can pass between threads. */
export function failureOf(error: unknown): SqliteFailure {
  return { code: codeOf(error) ?? 'SQLITE_ERROR', message: error instanceof Error ? error.message : String(error) }
}

/** The error that a failure on the file `name` becomes. */
export function errorOf(name: string, { code, message }: SqliteFailure): StoreError {
  const ours = OURS.find((known) => known === code)
  if (ours !== undefined) return new StoreError(ours, message)
  return new StoreError(PASSING.test(code) ? 'STORE_UNAVAILABLE' : 'STORE_FAILED', `${name}: ${message} (${code})`, {
    trouble: TROUBLES.find(([pattern]) => pattern.test(code))?.[1]
  })
}
