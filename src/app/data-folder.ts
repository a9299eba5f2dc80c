import { constants, existsSync } from 'node:fs'
import { access, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CodedError, codeOf } from '../lib/errors.js'
import { fileReason } from '../lib/system-errors.js'
import { COPY_FILE, isShared, isWithoutStore, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import { startErrors } from './errors.js'

/** Errors of the system that no waiting mends. */
const LASTING: readonly string[] = ['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG']

/** Reason why a folder cannot be written. */
export interface FolderProblem {
  /** Message and, after a semicolon, advice. */
  readonly text: string
  /** False where waiting may help, as on a full disk. */
  readonly lasting: boolean
}

/** Returns the reason why the data folder is not writable, or undefined if it is. A missing folder is not created. */
export async function dataFolderProblem(data: string): Promise<FolderProblem | undefined> {
  const found = await stat(data).catch((error: unknown) => codeOf(error) ?? 'EIO')
  if (found === 'ENOENT') return await parentProblem(data)
  if (typeof found === 'string') return problem(found, `${data}: `)
  if (!found.isDirectory()) return { text: `${data} is no folder; name a folder with --data`, lasting: true }
  const probe = join(data, `.probe-${process.pid}`)
  try {
    await writeFile(probe, 'x', { mode: 0o600, flag: 'wx' })
  } catch (error) {
    return problem(codeOf(error) ?? 'EIO', `${data}: `)
  } finally {
    // A write that fails on a full disk leaves an empty file.
    await rm(probe, { force: true }).catch(() => undefined)
  }
  return undefined
}

async function parentProblem(data: string): Promise<FolderProblem | undefined> {
  let parent = dirname(data)
  while (parent !== dirname(parent) && !existsSync(parent)) parent = dirname(parent)
  try {
    await access(parent, constants.W_OK | constants.X_OK)
  } catch (error) {
    return problem(codeOf(error) ?? 'EIO', `${data} is not there, and ${parent} takes no new folder: `)
  }
  return undefined
}

function problem(code: string, before: string): FolderProblem {
  return { text: `${before}${fileReason(code)}`, lasting: LASTING.includes(code) }
}

/**
 * Rejects with a CodedError `DATA_UNWRITABLE` if this is a first start and its folders cannot be written. A process that has a store or a
 * copy can serve without writing, so it starts.
 */
export async function requireWritableFolders(options: Options, sealKey: string | undefined): Promise<void> {
  const { data } = options
  const address = storeAddress(options)
  const storeFolder = isShared(address) || address === IN_MEMORY ? undefined : dirname(address)
  const missing: (string | undefined)[] = []
  if (data !== IN_MEMORY && existsSync(join(data, COPY_FILE))) return
  if (data !== IN_MEMORY && sealKey === undefined && !existsSync(join(data, 'seal.key'))) missing.push(data)
  if (isWithoutStore(address)) missing.push(storeFolder)
  for (const folder of new Set(missing)) {
    const found = folder === undefined ? undefined : await dataFolderProblem(folder)
    if (found?.lasting === true) throw new CodedError(startErrors.DATA_UNWRITABLE, `data: ${found.text}`)
  }
}
