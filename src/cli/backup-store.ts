import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { CodedError } from '../lib/coded-error.js'
import { type BackupFile, backUpSqlite } from '../store/sqlite-backup.js'
import { realFile } from '../store/sqlite-lock.js'
import { explained, mustBeThere, type StoreFlags, type StorePlace, storePlace } from './account-store.js'
import { ExitCode } from './exit-code.js'
import { keyFilesOf } from './key-files.js'

export interface BackupMode {
  readonly withKeys: boolean
  readonly overwrite: boolean
}

/** Writes a backup; resolves with the exit code. */
export async function backUp(file: string, flags: StoreFlags, { withKeys, overwrite }: BackupMode): Promise<number> {
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  try {
    mustBeFile(place, 'pg_dump makes a backup of it while processes run, and "sluice export" a document of the account')
    mustBeThere(place)
    const to = resolve(file)
    if (existsSync(to)) {
      if (realFile(to) === realFile(place.address)) throw new CodedError('FILE_EXISTS', `${file} is the store itself`)
      if (!overwrite) throw new CodedError('FILE_EXISTS', `${file} is there already; --overwrite replaces it`)
    }
    const files = withKeys ? await keysOf(place) : []
    const { revision } = backUpSqlite(place.address, to, files)
    const keys = withKeys ? `with ${files.map(({ name }) => name).join(', ')}` : 'without keys'
    console.log(`${file}: revision ${revision}, ${keys}`)
    return ExitCode.ok
  } catch (error) {
    return explained(error, 'there is no backup')
  }
}

/** Fails with a CodedError `STORE_NO_COPY` and says what to use instead. */
export function mustBeFile({ isFile, address }: StorePlace, instead: string): void {
  if (isFile) return
  const { host } = new URL(address)
  throw new CodedError('STORE_NO_COPY', `the store is PostgreSQL at ${host}: ${instead}`)
}

async function keysOf({ folder }: StorePlace): Promise<BackupFile[]> {
  const files = folder === undefined ? [] : await keyFilesOf(folder)
  if (files.length > 0) return files
  throw new CodedError('SEAL_KEY_MISSING', 'there is no folder with keys: name it with --data')
}
