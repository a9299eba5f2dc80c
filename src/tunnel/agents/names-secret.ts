import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CodedError } from '../../lib/coded-error.js'
import { createFile, readPrivateFile } from '../../lib/files.js'

const FILE = 'names.secret'
const BYTES = 32

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
  const secret = await readPrivateFile(path)
  if (secret === 'exposed') {
    throw new CodedError('AGENTS_SECRET_EXPOSED', `${path} may be read by others than its owner; chmod 600 ends that`)
  }
  if (secret === undefined || secret.length === BYTES) return secret
  throw new CodedError('AGENTS_SECRET_BROKEN', `${path} does not hold ${BYTES} bytes; remove it for a new one`)
}

async function makeSecret(path: string): Promise<Uint8Array> {
  await createFile(path, randomBytes(BYTES))
  const secret = await readSecret(path)
  if (secret === undefined) throw new CodedError('AGENTS_SECRET_BROKEN', `${path} has gone`)
  return secret
}
