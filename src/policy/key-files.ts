import { constants, existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import { isAbsolute, relative, sep } from 'node:path'
import { serviceKey } from './services.js'

/** Absolute folders that policies may read key files from. Undefined where no policy runs: the operator of the server decides. */
export const keyFolders = serviceKey<readonly string[] | undefined>('key_folders', () => undefined)

/** The text of a file, or why there is none. */
export type KeyFile = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly reason: string }

/** Longest file that is read. */
const MAX_BYTES = 512 * 1024

/** True when the path lies in the folder by their names alone; where links lead is looked at when the file is read. */
export function liesIn(folder: string, path: string): boolean {
  const inside = relative(folder, path)
  return inside !== '' && inside !== '..' && !inside.startsWith(`..${sep}`) && !isAbsolute(inside)
}

/** Reads a file that lies in one of the folders, whatever links lead to it. */
export async function readKeyFile(path: string, folders: readonly string[]): Promise<KeyFile> {
  try {
    const place = await realpath(path)
    const allowed = await Promise.all(folders.map(placeOf))
    if (!allowed.some((folder) => folder !== undefined && place.startsWith(folder))) return FORBIDDEN
    // A pipe without a writer would keep a thread of the process for ever.
    const file = await open(place, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      return await contentOf(file)
    } finally {
      await file.close()
    }
  } catch {
    // Not there, no permission, a folder: all the same to who reads the log without access to the disk.
    return UNREADABLE
  }
}

/** As `readKeyFile`, for a document that is written or checked. Without folders the operator reads a file of their own. */
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
  // What grows while it is read, as files of the system do, may have no end.
  if (bytesRead !== facts.size) return UNREADABLE
  return { ok: true, text: buffer.toString('utf8', 0, bytesRead) }
}

/** Where a folder really is, with a separator at its end; undefined when it is not there. */
async function placeOf(folder: string): Promise<string | undefined> {
  try {
    const place = await realpath(folder)
    return place.endsWith(sep) ? place : place + sep
  } catch {
    // The operator names folders that need not exist yet.
    return undefined
  }
}

const FORBIDDEN: KeyFile = { ok: false, reason: 'the file lies outside the folders that keys may be read from' }
const UNREADABLE: KeyFile = { ok: false, reason: 'the file cannot be read' }
