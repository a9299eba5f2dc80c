import { mkdir, readdir, readFile, rename } from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize, sep } from 'node:path'
import { CodedError, codeOf } from '../lib/coded-error.js'
import { replaceFile } from '../lib/files.js'
import { parseSealKey } from '../lib/seal.js'
import type { BackupFile } from '../store/sqlite-backup.js'

const SEAL_KEY = 'seal.key'
/** What a data folder holds beside its database that a process cannot make again. */
const FILES = [SEAL_KEY, join('seal.next', SEAL_KEY), 'api-keys.json']
const AGENTS = 'agents'

/** The files of a data folder that hold keys, as far as they are there. Fails with the system's error. */
export async function keyFilesOf(folder: string): Promise<BackupFile[]> {
  const agents = (await orAbsent(readdir(join(folder, AGENTS)))) ?? []
  const names = [...FILES, ...agents.filter((name) => /\.(pem|key)$/.test(name)).map((name) => join(AGENTS, name))]
  const found: BackupFile[] = []
  for (const name of names.sort()) {
    const content = await orAbsent(readFile(join(folder, name)))
    if (content !== undefined) found.push({ name, content })
  }
  return found
}

/** Those that would replace others. */
export async function replaced(folder: string, files: readonly BackupFile[]): Promise<string[]> {
  const names: string[] = []
  for (const { name, content } of files) {
    const there = await orAbsent(readFile(placeIn(folder, name)))
    if (there !== undefined && !there.equals(content)) names.push(name)
  }
  return names
}

/** Writes the files into a data folder. A sealing key that is replaced stays beside the new one, under its id. Fails with the system's error. */
export async function putKeyFiles(folder: string, files: readonly BackupFile[]): Promise<void> {
  for (const { name, content } of files) {
    const path = placeIn(folder, name)
    const there = await orAbsent(readFile(path))
    if (there?.equals(content) === true) continue
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    if (there !== undefined && name === SEAL_KEY) await rename(path, `${path}.${parseSealKey(there.toString()).id}`)
    await replaceFile(path, content)
  }
}

/** A name of a backup leads nowhere outside of the folder. Fails with a CodedError `STORE_FAILED`. */
function placeIn(folder: string, name: string): string {
  const inside = normalize(name)
  if (!isAbsolute(inside) && inside !== '..' && !inside.startsWith(`..${sep}`)) return join(folder, inside)
  throw new CodedError('STORE_FAILED', `the backup has a file ${name}, which is outside of the data folder`)
}

async function orAbsent<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}
