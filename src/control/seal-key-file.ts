import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CodedError } from '../lib/coded-error.js'
import { createFile, readPrivateFile } from '../lib/files.js'
import { newSealKey, parseSealKey, Sealer, type SealKey } from '../lib/seal.js'

const FILE = 'seal.key'
/** Where a rotation keeps the key to come. */
const NEXT_FOLDER = 'seal.next'

export interface SealKeySource {
  /** The key of the environment; it wins. */
  readonly given: string | undefined
  /** Where `seal.key` lies, or is made when it is missing; undefined: nothing is kept on disk. */
  readonly folder: string | undefined
  /** Does what is sealed outlive the process? */
  readonly lasting: boolean
  /** Asked when the folder alone does not tell: what the store says of its key. Absent: there is no store yet. */
  readonly stored?: () => Promise<StoredSeal>
  /** The key of the store is lost for good: what it sealed will not open any more. */
  readonly lost?: boolean | undefined
}

/** What a store says of its sealing key. */
export interface StoredSeal {
  /** Its id; null: unknown. */
  readonly key: string | null
  /** Has the store anything sealed? */
  readonly secrets: boolean
}

/**
 * The sealer of a process that starts. Fails with a CodedError: `SEAL_KEY_INVALID`, `SEAL_KEY_MISSING` (what is sealed
 * lasts longer than any place for its key), `SEAL_KEY_LOST` (the store has secrets, and there is no key),
 * `SEAL_KEY_EXPOSED` (others may read the file) or `SEAL_KEY_UNREADABLE`.
 */
export async function openSealer(source: SealKeySource): Promise<Sealer> {
  const { given, folder, lasting } = source
  if (given !== undefined) return new Sealer(named(given, 'SLUICE_SEAL_KEY'))
  if (folder !== undefined) {
    const key = await keyIn(folder, source)
    const next = await readKey(join(folder, NEXT_FOLDER, FILE))
    if (next === undefined) return new Sealer(key)
    // A rotation that was interrupted: behind its commit the store is under the key to come.
    return (await source.stored?.())?.key === next.id ? new Sealer(next, [key]) : new Sealer(key, [next])
  }
  if (!lasting) return new Sealer(parseSealKey(newSealKey()))
  const message =
    'the store outlives the process, but its sealing key would not: set SLUICE_SEAL_KEY or name a data folder'
  throw new CodedError('SEAL_KEY_MISSING', message)
}

async function keyIn(folder: string, { stored, lost }: SealKeySource): Promise<SealKey> {
  const path = join(folder, FILE)
  const there = await readKey(path)
  if (there !== undefined) return there
  const known = await stored?.()
  if (known?.secrets !== true || lost === true) return await makeKey(folder, path)
  const which = known.key === null ? 'the sealing key' : `the sealing key ${known.key}`
  const message = `there is no ${path}, and the store has secrets that ${which} has sealed: ${toDo(path)}`
  throw new CodedError('SEAL_KEY_LOST', message)
}

/** What a user does whose key is not the one of the store. */
export function toDo(path: string | undefined): string {
  const place =
    path === undefined
      ? 'set SLUICE_SEAL_KEY to it'
      : `put it back as ${path} (from a backup), or set SLUICE_SEAL_KEY to it`
  return `${place}; when it is lost for good, start once with --new-seal-key: what it sealed then has to be given anew`
}

async function readKey(path: string): Promise<SealKey | undefined> {
  const content = await readPrivateFile(path).catch((cause: unknown) => {
    throw new CodedError('SEAL_KEY_UNREADABLE', `cannot read the sealing key ${path}`, { cause })
  })
  if (content !== 'exposed') return content === undefined ? undefined : named(content.toString(), path)
  throw new CodedError('SEAL_KEY_EXPOSED', `${path} may be read by others than its owner; chmod 600 ends that`)
}

async function makeKey(folder: string, path: string): Promise<SealKey> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await createFile(path, `${newSealKey()}\n`)
  const key = await readKey(path)
  if (key === undefined) throw new CodedError('SEAL_KEY_UNREADABLE', `the sealing key ${path} has gone`)
  return key
}

/** The message names where the key came from and never the key. */
function named(text: string, source: string): SealKey {
  try {
    return parseSealKey(text)
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    throw new CodedError(error.code, `${source}: ${error.message}`)
  }
}
