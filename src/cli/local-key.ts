import { readFileSync, statSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { codeOf } from '../lib/errors.js'
import { makeFolder, replaceFile } from '../lib/files.js'
import { fileReason } from '../lib/system-errors.js'
import { IN_MEMORY } from '../options/values.js'

/** Name of the file in the data folder that holds the key which a start has made; commands on this machine read it. */
const FILE = 'api.key'

/** Bits of a mode that let users other than the owner read or write. */
const FOR_OTHERS = 0o077

/** Writes the key to the data folder, readable by its owner alone, and returns the path. Fails with the system's error. */
export async function writeLocalKey(data: string, key: string): Promise<string> {
  const path = join(data, FILE)
  makeFolder(data)
  await replaceFile(path, `${key}\n`)
  return path
}

/** Key of the data folder that SLUICE_DATA names, or `./data`. */
export type LocalKey = { readonly key: string; readonly path: string } | { readonly problem: string }

/** Reads the key of the local data folder. A file that other users may read is not used. */
export function readLocalKey({ SLUICE_DATA: named = '' }: NodeJS.ProcessEnv): LocalKey {
  const data = named === '' ? 'data' : named
  if (data === IN_MEMORY) return { problem: 'SLUICE_DATA is :memory:, which holds no key' }
  const path = join(resolve(data), FILE)
  const shown = relative(process.cwd(), path)
  try {
    if ((statSync(path).mode & FOR_OTHERS) !== 0)
      return { problem: `other users may read ${shown}: chmod 600 ${shown}` }
    const key = readFileSync(path, 'utf8').trim()
    return key === '' ? { problem: `${shown} is empty` } : { key, path: shown }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return { problem: `there is no ${shown}` }
    return { problem: `${shown}: ${fileReason(error)}` }
  }
}
