import { existsSync, statSync } from 'node:fs'
import { readdir, readFile, rename } from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize, resolve, sep } from 'node:path'
import { commandErrors } from '../../app/errors.js'
import { ExitCode } from '../../cli/process.js'
import { explained, mustBeThere, type StoreFlags, type StorePlace, storePlace } from '../../cli/store-place.js'
import { sealKeyErrors } from '../../control/seal-key.js'
import { CodedError, codeOf } from '../../lib/errors.js'
import { fileErrors, makeFolder, readPrivateFile, replaceFile, writtenFile } from '../../lib/files.js'
import { parseSealKey } from '../../lib/seal.js'
import { COPY_FILE } from '../../options/catalogue.js'
import { setCopyAside } from '../../store/copy/copy-file.js'
import { storeErrors } from '../../store/errors.js'
import {
  type BackupFacts,
  type BackupFile,
  backUpSqlite,
  checkBackup,
  restoreSqlite,
  whileUnused
} from '../../store/sqlite-backup.js'
import { realFile } from '../../store/sqlite-file.js'

const SEAL_KEY = 'seal.key'
/** Files of a data folder, beside its database, that cannot be recreated. */
const FILES = [SEAL_KEY, join('seal.next', SEAL_KEY), 'api-keys.json']
/** Subfolder for the keys of agents. */
const AGENTS = 'agents'

/** Returns the existing key files of a data folder. Fails with the system's error. */
async function keyFilesOf(folder: string): Promise<BackupFile[]> {
  const agents = (await orAbsent(readdir(join(folder, AGENTS)))) ?? []
  const names = [...FILES, ...agents.filter((name) => /\.(pem|key)$/.test(name)).map((name) => join(AGENTS, name))]
  const found: BackupFile[] = []
  for (const name of names.sort()) {
    const content = await orAbsent(readFile(join(folder, name)))
    if (content !== undefined) found.push({ name, content })
  }
  return found
}

/** Returns the names of files that would be overwritten with other contents. */
async function replaced(folder: string, files: readonly BackupFile[]): Promise<string[]> {
  const names: string[] = []
  for (const { name, content } of files) {
    const there = await orAbsent(readFile(placeIn(folder, name)))
    if (there !== undefined && !there.equals(content)) names.push(name)
  }
  return names
}

/** Writes the files into a data folder. A sealing key that is replaced stays beside the new one, under its id. Fails with the system's error. */
async function putKeyFiles(folder: string, files: readonly BackupFile[]): Promise<void> {
  for (const { name, content } of files) {
    const path = placeIn(folder, name)
    const there = await orAbsent(readFile(path))
    if (there?.equals(content) === true) continue
    makeFolder(dirname(path))
    if (there !== undefined && name === SEAL_KEY) await rename(path, `${path}.${parseSealKey(there.toString()).id}`)
    await replaceFile(path, content)
  }
}

/** A name of a backup leads nowhere outside of the folder. Fails with a CodedError `STORE_FAILED`. */
function placeIn(folder: string, name: string): string {
  const inside = normalize(name)
  if (!isAbsolute(inside) && inside !== '..' && !inside.startsWith(`..${sep}`)) return join(folder, inside)
  throw new CodedError(storeErrors.STORE_FAILED, `the backup has a file ${name}, which is outside of the data folder`)
}

async function orAbsent<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

export interface BackupMode {
  readonly withKeys: boolean
  readonly overwrite: boolean
}

/** Writes a backup; resolves with the exit code. */
export async function backUp(file: string, flags: StoreFlags, { withKeys, overwrite }: BackupMode): Promise<number> {
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  try {
    mustBeFile(place, 'back it up with pg_dump, or export its records with "sluice export"')
    mustBeThere(place)
    const to = resolve(file)
    const { kind } = writtenFile(to)
    if (kind === 'plain') {
      if (realFile(to) === realFile(place.address))
        throw new CodedError(commandErrors.FILE_EXISTS, `${file} is the store itself`)
      if (!overwrite)
        throw new CodedError(commandErrors.FILE_EXISTS, `${file} is there already; --overwrite replaces it`)
    }
    const files = withKeys ? await keysOf(place) : []
    const { revision } = backUpSqlite(place.address, to, files)
    const keys = withKeys ? `with ${files.map(({ name }) => name).join(', ')}` : 'without keys'
    // The backup itself may go to standard output, as with /dev/stdout.
    const say = kind === 'other' ? console.error : console.log
    say(`${file}: revision ${revision}, ${keys}`)
    return ExitCode.ok
  } catch (error) {
    return explained(error, 'no backup was written')
  }
}

/** Fails with a CodedError `STORE_NO_COPY` and advice if the store is no file. */
function mustBeFile({ isFile, address }: StorePlace, instead: string): void {
  if (isFile) return
  const { host } = new URL(address)
  throw new CodedError(storeErrors.STORE_NO_COPY, `the store is PostgreSQL at ${host}: ${instead}`)
}

async function keysOf({ folder }: StorePlace): Promise<BackupFile[]> {
  const files = folder === undefined ? [] : await keyFilesOf(folder)
  if (files.length > 0) return files
  throw new CodedError(sealKeyErrors.SEAL_KEY_MISSING, 'there is no folder with keys: name it with --data')
}

/** Puts a backup in the place of a store; resolves with the exit code. */
export async function restore(file: string, flags: StoreFlags, overwrite: boolean): Promise<number> {
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  try {
    mustBeFile(place, 'restore it with pg_restore, or import records with "sluice import"')
    if (!existsSync(file)) throw new CodedError(fileErrors.FILE_UNREADABLE, `there is no file ${file}`)
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
    const message = `${lost.join(', ')} already there; --overwrite replaces them`
    throw new CodedError(commandErrors.FILE_EXISTS, message)
  }
  // Keys first: a crash must not leave records without the key that opens them.
  if (folder !== undefined) await putKeyFiles(folder, files)
  // The backup must be served, not the copy.
  if (folder !== undefined) await setCopyAside(join(folder, COPY_FILE))
  restoreSqlite(file, address)
}

function keysBeside({ files }: BackupFacts): string {
  return files.length === 0 ? 'without keys' : `with ${files.map(({ name }) => name).join(', ')}`
}

/** Warns about a missing sealing key, without which the next start fails. */
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
