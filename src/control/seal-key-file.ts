import { randomBytes } from 'node:crypto'
import { link, mkdir, open, readFile, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { CodedError, codeOf } from '../lib/coded-error.js'
import { newSealKey, parseSealKey, Sealer, type SealKey } from '../lib/seal.js'

const FILE = 'seal.key'
/** Where a rotation keeps the key to come. */
const NEXT_FOLDER = 'seal.next'
const FOR_OTHERS = 0o077

export interface SealKeySource {
  /** The key of the environment; it wins. */
  readonly given: string | undefined
  /** Where `seal.key` lies, or is made when it is missing; undefined: nothing is kept on disk. */
  readonly folder: string | undefined
  /** Does what is sealed outlive the process? */
  readonly lasting: boolean
}

/**
 * The sealer of a process that starts. Fails with a CodedError: `SEAL_KEY_INVALID`, `SEAL_KEY_MISSING` (what is sealed
 * lasts longer than any place for its key), `SEAL_KEY_EXPOSED` (others may read the file) or `SEAL_KEY_UNREADABLE`.
 */
export async function openSealer({ given, folder, lasting }: SealKeySource): Promise<Sealer> {
  if (given !== undefined) return new Sealer(named(given, 'SLUICE_SEAL_KEY'))
  if (folder !== undefined) {
    // A rotation that was interrupted behind its commit: its values are under the key to come.
    const next = await readKey(join(folder, NEXT_FOLDER, FILE))
    return new Sealer(await keyIn(folder), next === undefined ? [] : [next])
  }
  if (!lasting) return new Sealer(parseSealKey(newSealKey()))
  const message =
    'the store outlives the process, but its sealing key would not: set SLUICE_SEAL_KEY or name a data folder'
  throw new CodedError('SEAL_KEY_MISSING', message)
}

async function keyIn(folder: string): Promise<SealKey> {
  const path = join(folder, FILE)
  return (await readKey(path)) ?? (await makeKey(folder, path))
}

async function readKey(path: string): Promise<SealKey | undefined> {
  let text: string
  try {
    const { mode } = await stat(path)
    if ((mode & FOR_OTHERS) !== 0) {
      throw new CodedError('SEAL_KEY_EXPOSED', `${path} may be read by others than its owner; chmod 600 ends that`)
    }
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (error instanceof CodedError) throw error
    throw new CodedError('SEAL_KEY_UNREADABLE', `cannot read the sealing key ${path}`, { cause: error })
  }
  return named(text, path)
}

/** Written beside and linked: nobody sees half a key, and of two processes that make one, one wins. */
async function makeKey(folder: string, path: string): Promise<SealKey> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const beside = `${path}.${randomBytes(6).toString('hex')}`
  const handle = await open(beside, 'wx', 0o600)
  try {
    await handle.writeFile(`${newSealKey()}\n`)
    await handle.sync()
    await link(beside, path)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    await handle.close()
    await unlink(beside)
  }
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
