import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../lib/clock.js'
import { CodedError, codeOf, defineErrors } from '../lib/errors.js'
import { makeFolder, replaceFile, withFileLock } from '../lib/files.js'
import { newId } from '../lib/id.js'
import type { Sealer } from '../lib/seal.js'

/** Codes of the API keys of the operator. */
export const operatorKeyErrors = defineErrors({
  API_KEY_INVALID: {
    text: 'SLUICE_API_KEY has a form that no client could send.',
    help: 'Give 16 to 256 visible ASCII characters without spaces.'
  },
  API_KEY_NAME: {
    text: 'The name of a key is too long or has characters that no terminal shows.',
    help: 'Give at most 100 visible characters.'
  },
  API_KEY_UNKNOWN: {
    text: 'The data folder has no such key.',
    help: 'Look at the ids with "sluice api-key list".'
  },
  API_KEYS_UNREADABLE: {
    text: 'The file of the API keys cannot be read or understood.',
    help: 'Restore it, or move it away to start with a new key.'
  }
})

/**
 * A stored key: only its hash. It has 256 random bits, so a plain hash is safe. `unused` is the sealed key, so that it can
 * be shown again; it is deleted on first use.
 */
interface StoredKey {
  readonly id: string
  readonly created_at: string
  /** Purpose given by its creator. */
  readonly name?: string
  readonly sha256: string
  readonly unused?: string
}

/** A key that was made because there was none, and has not opened the API yet. */
interface UnusedKey {
  readonly hash: Buffer
  readonly entry: StoredKey
  /** Does the file hold it? */
  stored: boolean
  used: boolean
}

const FILE = 'api-keys.json'
const KEY_NAME = /^[^\p{C}\p{Z}](?:[^\p{C}\p{Zl}\p{Zp}]{0,99})$/u
const KEY_FORM = /^[\x21-\x7e]{16,256}$/

/** Hashes of the keys that open the API. Asking costs the same whether a key is unknown, wrong or right. */
export class ApiKeys {
  readonly #fixed: readonly Buffer[]
  readonly #folder: string | undefined
  readonly #unused: UnusedKey | undefined
  #stored: readonly Buffer[] = []
  #version = ''

  /**
   * Creates the keys. `folder` is the folder of `api-keys.json`; undefined for keys in memory only. `unused` is valid immediately, stored or not.
   */
  constructor(fixed: readonly string[], folder: string | undefined, unused?: UnusedKey) {
    this.#fixed = fixed.map(hashOf)
    this.#folder = folder
    this.#unused = unused
  }

  /**
   * Does `key` open the API? Keys that another process creates or revokes (`sluice api-key`) take effect immediately. While
   * the file cannot be read, known keys stay valid.
   */
  async accepts(key: string): Promise<boolean> {
    const hash = hashOf(key)
    const known = this.#matches(hash)
    try {
      await this.refresh()
    } catch (error) {
      if (!known) throw error
    }
    if (!this.#matches(hash)) return false
    const unused = this.#unused
    if (unused !== undefined && !unused.used && unused.hash.equals(hash)) await this.#firstUse(unused)
    return true
  }

  /** Keeps the unused key, now that it has been shown: the next start knows it. Fails with the system's error, or `API_KEYS_UNREADABLE`. */
  async keepShown(): Promise<void> {
    const unused = this.#unused
    if (unused === undefined || unused.stored) return
    const { used } = unused
    await this.#write(unused)
    // Its first use came while it was written.
    if (unused.used !== used) await this.#write(unused)
  }

  /** Reads the file if it has changed; returns true if it was. Throws a CodedError `API_KEYS_UNREADABLE`. */
  async refresh(): Promise<boolean> {
    if (this.#folder === undefined) return false
    const path = join(this.#folder, FILE)
    const version = await versionOf(path)
    if (version === this.#version) return false
    this.#stored = (await readKeys(path)).map(({ sha256 }) => Buffer.from(sha256, 'hex'))
    this.#version = version
    return true
  }

  async #firstUse(unused: UnusedKey): Promise<void> {
    unused.used = true
    // The code that displays the key stores it as used.
    if (!unused.stored) return
    // The key is good all the same; the next start shows it once more.
    await this.#write(unused).catch(() => undefined)
  }

  /** Adds the key to the current file. */
  async #write(unused: UnusedKey): Promise<void> {
    const folder = this.#folder
    if (folder === undefined) return
    await changeKeys(folder, (there) => {
      const { unused: sealed, ...entry } = unused.entry
      const others = there.filter(({ id }) => id !== entry.id)
      // It was revoked.
      if (unused.stored && others.length === there.length) return there
      return [...others, unused.used ? entry : { ...entry, unused: sealed as string }]
    })
    unused.stored = true
  }

  #matches(hash: Buffer): boolean {
    let found = false
    // Keys in the file may be revoked there.
    const shown = this.#unused?.stored === false ? [this.#unused.hash] : []
    for (const known of [...this.#fixed, ...shown, ...this.#stored]) found = timingSafeEqual(known, hash) || found
    return found
  }
}

export interface OpenedKeys {
  readonly keys: ApiKeys
  /** The key that was made because there was none, as long as it has not been used: to be shown, then kept by `keepShown`. */
  readonly unused?: string
}

/**
 * Opens the keys at start. `given` is the administrator's key of the environment; without it and without a stored key one is
 * created, and returned by every start until its first use: the output of one start may have been missed, and a failed start
 * prints none. `folder` undefined keeps all keys in memory. Throws a CodedError `API_KEY_INVALID` or `API_KEYS_UNREADABLE`.
 */
export async function openKeys(
  folder: string | undefined,
  given: string | undefined,
  { clock, seal }: { readonly clock: Clock; readonly seal: () => Promise<Sealer> }
): Promise<OpenedKeys> {
  if (given !== undefined && !KEY_FORM.test(given)) {
    throw new CodedError(
      operatorKeyErrors.API_KEY_INVALID,
      'SLUICE_API_KEY must have 16 to 256 visible ASCII characters and no spaces'
    )
  }
  if (given !== undefined || folder === undefined) {
    const key = given ?? makeKey()
    const keys = new ApiKeys([key], folder)
    await keys.refresh()
    return given === undefined ? { keys, unused: key } : { keys }
  }
  const path = join(folder, FILE)
  const stored = (await versionOf(path)) === '' ? [] : await readKeys(path)
  const waiting = stored.findLast((entry) => entry.unused !== undefined)
  if (waiting === undefined && stored.length > 0) return await opened(folder)
  const sealer = await seal()
  const known = waiting === undefined ? undefined : openUnused(waiting, sealer)
  if (waiting !== undefined && known !== undefined) return await opened(folder, known, waiting, true)
  const key = makeKey()
  const bare = storedKey(key, clock)
  const sealed = Buffer.from(sealer.seal(Buffer.from(key), ownerOf(bare))).toString('base64url')
  return await opened(folder, key, { ...bare, unused: sealed })
}

async function opened(folder: string, key?: string, entry?: StoredKey, stored = false): Promise<OpenedKeys> {
  const waits = key !== undefined && entry !== undefined
  const keys = new ApiKeys([], folder, waits ? { hash: hashOf(key), entry, stored, used: false } : undefined)
  await keys.refresh()
  return waits ? { keys, unused: key } : { keys }
}

/** Opens an unused key; undefined if it was sealed by a key that is lost, so that another one has to be made. */
function openUnused(entry: StoredKey, seal: Sealer): string | undefined {
  try {
    return Buffer.from(seal.open(Buffer.from(entry.unused ?? '', 'base64url'), ownerOf(entry))).toString()
  } catch (error) {
    if (error instanceof CodedError) return undefined
    throw error
  }
}

function ownerOf({ id }: StoredKey): string {
  return `api key ${id}`
}

function storedKey(key: string, clock: Clock): StoredKey {
  return {
    id: newId('ak', clock.wall()),
    created_at: new Date(clock.wall()).toISOString(),
    sha256: hashOf(key).toString('hex')
  }
}

/** Creates a key, stores its hash in `folder` (created if missing) and returns the key, which is not stored. */
export async function createKey(folder: string, clock: Clock, name?: string): Promise<string> {
  if (name !== undefined && !KEY_NAME.test(name)) {
    throw new CodedError(operatorKeyErrors.API_KEY_NAME, 'a name has 1 to 100 visible characters')
  }
  const key = makeKey()
  const made = { ...storedKey(key, clock), ...(name === undefined ? {} : { name }) }
  await changeKeys(folder, (there) => [...there, made])
  return key
}

/** Public data of a key, which does not reveal it. */
export interface ListedKey {
  readonly id: string
  /** RFC 3339. */
  readonly created_at: string
  /** Purpose; null if not given. */
  readonly name: string | null
  /** False if a start created it, and it was never used. */
  readonly used: boolean
}

/** The keys of a folder, the oldest first; none where there is no file. Fails with a CodedError `API_KEYS_UNREADABLE`. */
export async function listKeys(folder: string): Promise<ListedKey[]> {
  const keys = await readKeys(join(folder, FILE))
  return keys.map(({ id, created_at, name = null, unused }) => ({ id, created_at, name, used: unused === undefined }))
}

/**
 * Deletes the key with this id from `folder`, which takes effect in running processes, too. Resolves with the number of
 * remaining keys. Fails with a CodedError `API_KEY_UNKNOWN` or `API_KEYS_UNREADABLE`.
 */
export async function revokeKey(folder: string, id: string): Promise<number> {
  const left = await changeKeys(folder, (there) => {
    const others = there.filter((key) => key.id !== id)
    if (others.length < there.length) return others
    const message = `${folder} has no key ${id}; "sluice api-key list" shows the ids`
    throw new CodedError(operatorKeyErrors.API_KEY_UNKNOWN, message)
  })
  return left.length
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
    operatorKeyErrors.API_KEYS_UNREADABLE,
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
    /^[0-9a-f]{64}$/.test(value.sha256) &&
    (!('unused' in value) || typeof value.unused === 'string')
  )
}

/**
 * Replaces the keys by the result of `change`, under a lock; if it returns the same list, nothing is written. Resolves with
 * the resulting keys. `change` is called twice.
 */
async function changeKeys(
  folder: string,
  change: (there: readonly StoredKey[]) => readonly StoredKey[]
): Promise<readonly StoredKey[]> {
  const path = join(folder, FILE)
  // Fail before a folder or a lock is created.
  change(await readKeys(path))
  makeFolder(folder)
  return await withFileLock(path, async () => {
    const there = await readKeys(path)
    const keys = change(there)
    if (keys !== there) await replaceFile(path, `${JSON.stringify({ keys }, null, 2)}\n`)
    return keys
  })
}
