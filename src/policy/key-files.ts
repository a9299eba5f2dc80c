import { constants, existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import { isAbsolute, relative, sep } from 'node:path'
import { serviceKey } from './services.js'

/** Absolute folders from which policies may read key files. Undefined if no policy runs, as the operator then decides. */
export const keyFolders = serviceKey<readonly string[] | undefined>('key_folders', () => undefined)

/** Content of a file, or why it cannot be read. */
export type KeyFile = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly reason: string }

/** Maximum size of a file in bytes. */
const MAX_BYTES = 512 * 1024

/** Returns whether the path lies in the folder by name alone; links are resolved when the file is read. */
export function liesIn(folder: string, path: string): boolean {
  const inside = relative(folder, path)
  return inside !== '' && inside !== '..' && !inside.startsWith(`..${sep}`) && !isAbsolute(inside)
}

/** Reads a file if it lies in one of the folders after resolving links. */
export async function readKeyFile(path: string, folders: readonly string[]): Promise<KeyFile> {
  try {
    const place = await realpath(path)
    const allowed = await Promise.all(folders.map(placeOf))
    if (!allowed.some((folder) => folder !== undefined && place.startsWith(folder))) return FORBIDDEN
    // Opening a pipe without a writer would block a thread of the process forever.
    const file = await open(place, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      return await contentOf(file)
    } finally {
      await file.close()
    }
  } catch {
    // The log does not distinguish a missing file, missing permission and a folder, for readers without access to the disk.
    return UNREADABLE
  }
}

/** Reads a key file synchronously when a document is written or checked. Without folders, the operator reads a file of their own. */
export function readKeyFileNow(path: string, folders: readonly string[] | undefined): KeyFile {
  try {
    const place = realpathSync(path)
    if (folders?.some((folder) => existsSync(folder) && liesIn(realpathSync(folder), place)) === false) return FORBIDDEN
    const facts = statSync(place)
    return facts.isFile() && facts.size <= MAX_BYTES ? { ok: true, text: readFileSync(place, 'utf8') } : UNREADABLE
  } catch {
    return UNREADABLE
  }
}

async function contentOf(file: FileHandle): Promise<KeyFile> {
  const facts = await file.stat()
  if (!facts.isFile() || facts.size > MAX_BYTES) return UNREADABLE
  const { buffer, bytesRead } = await file.read(Buffer.alloc(facts.size + 1), 0, facts.size + 1, 0)
  // Files that grow while being read, such as system files, may be endless.
  if (bytesRead !== facts.size) return UNREADABLE
  return { ok: true, text: buffer.toString('utf8', 0, bytesRead) }
}

/** Returns the real path of a folder with a trailing separator, or undefined if it does not exist. */
async function placeOf(folder: string): Promise<string | undefined> {
  try {
    const place = await realpath(folder)
    return place.endsWith(sep) ? place : place + sep
  } catch {
    // Configured folders need not exist yet.
    return undefined
  }
}

const FORBIDDEN: KeyFile = { ok: false, reason: 'the file lies outside the folders that keys may be read from' }
const UNREADABLE: KeyFile = { ok: false, reason: 'the file cannot be read' }
