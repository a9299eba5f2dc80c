import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { mkdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../lib/clock.js'
import { CodedError, codeOf } from '../lib/coded-error.js'
import { newId } from '../lib/id.js'
import { replaceFile } from '../lib/whole-file.js'

/** A key as the file holds it: never the key itself. It has 256 random bits, so a plain hash keeps it. */
interface StoredKey {
  readonly id: string
  readonly created_at: string
  readonly sha256: string
}

const FILE = 'api-keys.json'
const KEY_FORM = /^[\x21-\x7e]{16,256}$/

/** Hashes of the keys that open the API. Asking costs the same whether a key is unknown, wrong or right. */
export class ApiKeys {
  readonly #fixed: readonly Buffer[]
  readonly #folder: string | undefined
  #stored: readonly Buffer[] = []
  #version = ''

  /** `folder` is where `api-keys.json` lies; undefined: in memory only. */
  constructor(fixed: readonly string[], folder: string | undefined) {
    this.#fixed = fixed.map(hashOf)
    this.#folder = folder
  }

  /** Does `key` open the API? A key made by another process (`sluice api-key create`) counts at once. */
  async accepts(key: string): Promise<boolean> {
    const hash = hashOf(key)
    if (this.#matches(hash)) return true
    return (await this.refresh()) && this.#matches(hash)
  }

  /** Reads the file again when it is another than before; true when it was. Throws a CodedError `API_KEYS_UNREADABLE`. */
  async refresh(): Promise<boolean> {
    if (this.#folder === undefined) return false
    const path = join(this.#folder, FILE)
    const version = await versionOf(path)
    if (version === this.#version) return false
    this.#stored = (await readKeys(path)).map(({ sha256 }) => Buffer.from(sha256, 'hex'))
    this.#version = version
    return true
  }

  get count(): number {
    return this.#fixed.length + this.#stored.length
  }

  #matches(hash: Buffer): boolean {
    let found = false
    for (const known of [...this.#fixed, ...this.#stored]) found = timingSafeEqual(known, hash) || found
    return found
  }
}

export interface OpenedKeys {
  readonly keys: ApiKeys
  /** The key that was made because there was none; shown once, kept nowhere. */
  readonly created?: string
}

/**
 * The keys of a process that starts. `given` is the administrator's key of the environment; without it and without a
 * stored key one is made. `folder` undefined keeps everything in memory.
 * Throws a CodedError `API_KEY_INVALID` or `API_KEYS_UNREADABLE`.
 */
export async function openKeys(
  folder: string | undefined,
  given: string | undefined,
  clock: Clock
): Promise<OpenedKeys> {
  if (given !== undefined && !KEY_FORM.test(given)) {
    throw new CodedError('API_KEY_INVALID', 'SLUICE_API_KEY must have 16 to 256 visible ASCII characters and no spaces')
  }
  const keys = new ApiKeys(given === undefined ? [] : [given], folder)
  await keys.refresh()
  if (keys.count > 0) return { keys }
  if (folder === undefined) {
    const created = makeKey()
    return { keys: new ApiKeys([created], undefined), created }
  }
  const created = await createKey(folder, clock)
  await keys.refresh()
  return { keys, created }
}

/** Makes a key, stores its hash in `folder` (made when absent) and returns the key, which is kept nowhere. */
export async function createKey(folder: string, clock: Clock): Promise<string> {
  const path = join(folder, FILE)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const key = makeKey()
  const entry: StoredKey = {
    id: newId('ak', clock.wall()),
    created_at: new Date(clock.wall()).toISOString(),
    sha256: hashOf(key).toString('hex')
  }
  await writeKeys(path, [...(await readKeys(path)), entry])
  return key
}

function makeKey(): string {
  return `sluice_${randomBytes(32).toString('base64url')}`
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

async function versionOf(path: string): Promise<string> {
  try {
    const { ino, size, mtimeMs } = await stat(path)
    return `${ino}:${size}:${mtimeMs}`
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return ''
    throw error
  }
}

async function readKeys(path: string): Promise<StoredKey[]> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw unreadable(path, error)
  }
  try {
    const { keys } = JSON.parse(text) as { keys?: unknown }
    if (Array.isArray(keys) && keys.every(isStoredKey)) return keys
  } catch (error) {
    throw unreadable(path, error)
  }
  throw unreadable(path, undefined)
}

function unreadable(path: string, cause: unknown): CodedError {
  const why = codeOf(cause)
  return new CodedError(
    'API_KEYS_UNREADABLE',
    why === undefined
      ? `${path} is not a file of API keys; move it away to start with a new key`
      : `${path} cannot be read (${why})`
  )
}

function isStoredKey(value: unknown): value is StoredKey {
  return (
    typeof value === 'object' &&
    value !== null &&
    'sha256' in value &&
    typeof value.sha256 === 'string' &&
    /^[0-9a-f]{64}$/.test(value.sha256)
  )
}

async function writeKeys(path: string, keys: readonly StoredKey[]): Promise<void> {
  await replaceFile(path, `${JSON.stringify({ keys }, null, 2)}\n`)
}
