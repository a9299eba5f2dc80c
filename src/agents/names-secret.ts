import { randomBytes } from 'node:crypto'
import { link, mkdir, open, readFile, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { CodedError, codeOf } from '../lib/coded-error.js'

const FILE = 'names.secret'
const BYTES = 32
const FOR_OTHERS = 0o077

/**
 * The secret from which agents' names are derived, kept in `folder` so that agents keep them when this process starts
 * again. Without a folder it lives as long as the process. Fails with a CodedError: `AGENTS_SECRET_EXPOSED`,
 * `AGENTS_SECRET_BROKEN`.
 */
export async function openNamesSecret(folder: string | undefined): Promise<Uint8Array> {
  if (folder === undefined) return randomBytes(BYTES)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, FILE)
  return (await readSecret(path)) ?? (await makeSecret(path))
}

async function readSecret(path: string): Promise<Uint8Array | undefined> {
  try {
    const { mode } = await stat(path)
    if ((mode & FOR_OTHERS) !== 0) {
      throw new CodedError('AGENTS_SECRET_EXPOSED', `${path} may be read by others than its owner; chmod 600 ends that`)
    }
    const secret = await readFile(path)
    if (secret.length === BYTES) return secret
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
  throw new CodedError('AGENTS_SECRET_BROKEN', `${path} does not hold ${BYTES} bytes; remove it for a new one`)
}

/** Written beside and linked: nobody sees half of it, and of two processes that make one, one wins. */
async function makeSecret(path: string): Promise<Uint8Array> {
  const beside = `${path}.${randomBytes(6).toString('hex')}`
  const handle = await open(beside, 'wx', 0o600)
  try {
    await handle.writeFile(randomBytes(BYTES))
    await handle.sync()
    await link(beside, path)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    await handle.close()
    await unlink(beside)
  }
  const secret = await readSecret(path)
  if (secret === undefined) throw new CodedError('AGENTS_SECRET_BROKEN', `${path} has gone`)
  return secret
}
