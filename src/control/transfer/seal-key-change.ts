import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { CodedError, codeOf } from '../../lib/coded-error.js'
import { syncFolder } from '../../lib/files.js'
import type { Sealer } from '../../lib/seal.js'
import { openSealer } from '../seal-key-file.js'

const FILE = 'seal.key'
/** Holds the new key, under the name of every sealing key, from before the first value is under it until it takes over. */
const NEXT = 'seal.next'

/** A change of the sealing key: both keys are there until `finish`. */
export interface KeyChange {
  readonly old: Sealer
  readonly next: Sealer
  /** Was it begun before and not finished? */
  readonly resumed: boolean
  /** Forgets the old key; nothing may be under it any more. */
  finish(): Promise<void>
}

/**
 * Begins a change of the key in `folder`, or goes on with one that was interrupted. The new key is on the disk before
 * this resolves. Fails with the CodedErrors of `openSealer`, and `SEAL_KEY_MISSING` when there is no key to change.
 */
export async function changeKeyFile(folder: string): Promise<KeyChange> {
  const [path, beside] = [join(folder, FILE), join(folder, NEXT)]
  if (!(await isThere(path))) {
    throw new CodedError('SEAL_KEY_MISSING', `there is no sealing key ${path}; name the folder with --data`)
  }
  const resumed = await isThere(join(beside, FILE))
  const old = await openSealer({ given: undefined, folder, lasting: true })
  await mkdir(beside, { recursive: true, mode: 0o700 })
  const next = await openSealer({ given: undefined, folder: beside, lasting: true })
  await syncFolder(beside)
  await syncFolder(folder)
  return {
    old,
    next,
    resumed,
    async finish() {
      await rename(join(beside, FILE), path)
      await syncFolder(folder)
      await rm(beside, { recursive: true })
    }
  }
}

/** A change between two keys that the operator keeps. Fails with `SEAL_KEY_INVALID` or `SEAL_KEY_SAME`. */
export async function changeGivenKey(given: string, next: string): Promise<KeyChange> {
  const [old, sealer] = await Promise.all(
    [given, next].map((key) => openSealer({ given: key, folder: undefined, lasting: true }))
  )
  if (old === undefined || sealer === undefined) throw new RangeError('two keys make two sealers')
  if (old.keyId === sealer.keyId) throw new CodedError('SEAL_KEY_SAME', 'the new sealing key is the old one')
  return { old, next: sealer, resumed: false, finish: () => Promise.resolve() }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}
