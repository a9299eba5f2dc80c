import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { CodedError } from '../lib/coded-error.js'
import { readPrivateFile } from '../lib/files.js'
import { parseSealKey } from '../lib/seal.js'
import { type BackupFacts, checkBackup, restoreSqlite, whileUnused } from '../store/sqlite-backup.js'
import { explained, type StoreFlags, type StorePlace, storePlace } from './account-store.js'
import { mustBeFile } from './backup-store.js'
import { ExitCode } from './exit-code.js'
import { putKeyFiles, replaced } from './key-files.js'

/** Puts a backup in the place of a store; resolves with the exit code. */
export async function restore(file: string, flags: StoreFlags, overwrite: boolean): Promise<number> {
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  try {
    mustBeFile(place, 'pg_restore takes what pg_dump has made, and "sluice import" a document of the account')
    if (!existsSync(file)) throw new CodedError('FILE_UNREADABLE', `there is no file ${file}`)
    const facts = checkBackup(file)
    await whileUnused(place.address, () => put(file, facts, place, overwrite))
    console.log(`${place.address}: revision ${facts.revision}, ${keysBeside(facts)}`)
    await warnOfKey(facts, place)
    return ExitCode.ok
  } catch (error) {
    return explained(error, 'nothing was restored')
  }
}

async function put(file: string, { files }: BackupFacts, place: StorePlace, overwrite: boolean): Promise<void> {
  const { address, folder } = place
  const there = existsSync(address) && statSync(address).size > 0 ? [address] : []
  const keys = folder === undefined ? [] : (await replaced(folder, files)).map((name) => join(folder, name))
  const lost = [...there, ...keys]
  if (lost.length > 0 && !overwrite) {
    const message = `${lost.join(', ')} would be replaced; --overwrite does that`
    throw new CodedError('FILE_EXISTS', message)
  }
  // Keys first: a crash must not leave records without the key that opens them.
  if (folder !== undefined) await putKeyFiles(folder, files)
  restoreSqlite(file, address)
}

function keysBeside({ files }: BackupFacts): string {
  return files.length === 0 ? 'without keys' : `with ${files.map(({ name }) => name).join(', ')}`
}

/** The next start would refuse a store whose key is not there; who restores it should hear that now. */
async function warnOfKey({ sealKey }: BackupFacts, { folder }: StorePlace): Promise<void> {
  if (sealKey === null) return
  const given = process.env.SLUICE_SEAL_KEY || undefined
  const file = folder === undefined ? undefined : await readPrivateFile(join(folder, 'seal.key'))
  const text = given ?? (file === 'exposed' ? undefined : file?.toString())
  if (text !== undefined && parseSealKey(text).id === sealKey) return
  console.error(
    `its secrets are sealed by the key ${sealKey}, which is not here: put that seal.key into ${folder ?? 'the data folder'}, or set SLUICE_SEAL_KEY, before the start`
  )
}
