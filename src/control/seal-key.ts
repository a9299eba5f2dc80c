import { join } from 'node:path'
import { CodedError, defineErrors } from '../lib/errors.js'
import { createFile, makeFolder, readPrivateFile } from '../lib/files.js'
import { keyIdOf, newSealKey, parseSealKey, Sealer, type SealKey } from '../lib/seal.js'
import type { SealedRecord } from '../store/records.js'
import { errorOf, failureOf } from '../store/sqlite-file.js'
import type { Store, StoreLog } from '../store/store.js'
import { controlErrors } from './errors.js'

/** Codes of the sealing key of a process and of its change. */
export const sealKeyErrors = defineErrors({
  SEAL_KEY_WRONG: {
    text: 'The sealing key is not the one of the store.',
    help: 'Give the key of the store, by SLUICE_SEAL_KEY or as the key file of the data folder.'
  },
  SEAL_KEY_MISSING: {
    text: 'There is no sealing key where one is needed.',
    help: 'Give SLUICE_SEAL_KEY, or name the folder with the key file by --data.'
  },
  SEAL_KEY_UNREADABLE: {
    text: 'The file of the sealing key cannot be read.',
    help: 'Let the user of the process read it, and only that one.'
  },
  SEAL_KEY_EXPOSED: {
    text: 'The file of the sealing key may be read by other users.',
    help: 'Run chmod 600 on the file, and change the key if others may have seen it.'
  },
  SEAL_KEY_SAME: { text: 'The new sealing key is the old one.', help: 'Give another key as SLUICE_SEAL_KEY_NEW.' },
  SEAL_LEFT: {
    text: 'A record was written with the old sealing key while the key was changed.',
    help: 'Run the change again while nothing else writes.'
  }
})

const FILE = 'seal.key'
/** Folder for the new key of a rotation. */
const NEXT_FOLDER = 'seal.next'

interface SealKeySource {
  /** The key of the environment; it wins. */
  readonly given: string | undefined
  /** Folder of `seal.key`, which is created if missing; undefined if it is not stored on disk. */
  readonly folder: string | undefined
  /** Is the sealed data stored permanently? */
  readonly lasting: boolean
  /** Returns the store's facts about its key, called if the folder alone does not decide. Undefined if there is no store yet. */
  readonly stored?: () => Promise<StoredSeal>
  /** True if the store's key is lost: its secrets cannot be decrypted any more. */
  readonly lost?: boolean | undefined
  /**
   * Called with a function that writes a new key to the folder, for use once the store exists; a failed start then leaves no
   * key. @default the key is written immediately
   */
  readonly whenStored?: (write: () => Promise<void>) => void
}

/** A store's facts about its sealing key. */
interface StoredSeal {
  /** Id of the key; null if unknown. */
  readonly key: string | null
  /** Has the store anything sealed? */
  readonly secrets: boolean
}

/**
 * Returns the sealer at start. Fails with a CodedError: `SEAL_KEY_INVALID`, `SEAL_KEY_MISSING` (no place for the key is as
 * durable as the store), `SEAL_KEY_LOST` (the store has secrets, and there is no key), `SEAL_KEY_EXPOSED` (other users may
 * read the file), `SEAL_KEY_UNREADABLE` or `STORE_UNAVAILABLE` (no key can be written).
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
  throw new CodedError(sealKeyErrors.SEAL_KEY_MISSING, message)
}

async function keyIn(folder: string, { stored, lost, whenStored }: SealKeySource): Promise<SealKey> {
  const path = join(folder, FILE)
  const there = await readKey(path)
  if (there !== undefined) return there
  const known = await stored?.()
  if (known?.secrets !== true || lost === true) {
    const text = newSealKey()
    const write = () => writeKey(folder, path, text)
    if (whenStored === undefined) await write()
    else whenStored(write)
    return named(text, path)
  }
  const which = known.key === null ? 'the sealing key' : `the sealing key ${known.key}`
  const message = `there is no ${path}, and the store has secrets that ${which} has sealed: ${toDo(path)}`
  throw new CodedError(controlErrors.SEAL_KEY_LOST, message)
}

/** Returns the advice for a key that is not the store's. */
function toDo(path: string | undefined): string {
  const place =
    path === undefined
      ? 'set SLUICE_SEAL_KEY to it'
      : `put it back as ${path} (from a backup), or set SLUICE_SEAL_KEY to it`
  return `${place}; when it is lost for good, start once with --new-seal-key: what it sealed then has to be given anew`
}

async function readKey(path: string): Promise<SealKey | undefined> {
  const content = await readPrivateFile(path).catch((cause: unknown) => {
    throw new CodedError(sealKeyErrors.SEAL_KEY_UNREADABLE, `cannot read the sealing key ${path}`, { cause })
  })
  if (content !== 'exposed') return content === undefined ? undefined : named(content.toString(), path)
  throw new CodedError(
    sealKeyErrors.SEAL_KEY_EXPOSED,
    `${path} may be read by others than its owner; chmod 600 ends that`
  )
}

/**
 * Writes a new key to the folder, which is created. Fails with a StoreError `STORE_UNAVAILABLE` if writing fails, and with a
 * CodedError `SEAL_KEY_WRONG` if another process has written a different key meanwhile.
 */
async function writeKey(folder: string, path: string, text: string): Promise<void> {
  try {
    makeFolder(folder)
    await createFile(path, `${text}\n`)
  } catch (cause) {
    throw errorOf(path, failureOf(cause))
  }
  const there = await readKey(path)
  if (there?.id === parseSealKey(text).id) return
  throw new CodedError(sealKeyErrors.SEAL_KEY_WRONG, `another process has just written ${path}: start again`)
}

/** The message names where the key came from and never the key. */
function named(text: string, source: string): SealKey {
  try {
    return parseSealKey(text)
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    throw new CodedError(error, `${source}: ${error.message}`)
  }
}

const PAGE = 1000

interface SettleOptions {
  /** Folder of the key file, for messages. */
  readonly folder: string | undefined
  /** The key of the store is lost for good. */
  readonly lost: boolean
  readonly log: Pick<StoreLog, 'warn'>
}

/** Opens a store, reads the facts about its key, and closes it. */
export async function peekSeal(open: () => Promise<Store>): Promise<StoredSeal> {
  const store = await open()
  try {
    return await storedSeal(store)
  } finally {
    await store.close()
  }
}

/** Reads the facts about the key of the store's secrets. Rejects with a `StoreError`. */
export async function storedSeal(store: Store): Promise<StoredSeal> {
  return { key: await store.sealKey(), secrets: (await store.sealedRecords({ limit: 1 })).length > 0 }
}

/**
 * Makes the process's key the store's key, if it is that already, if there are no secrets yet, or if the other key is lost.
 * A record that cannot be decrypted is no error while the key is right. Otherwise fails with a CodedError `SEAL_KEY_WRONG`
 * and closes the store.
 */
export async function settleSealKey(store: Store, seal: Sealer, options: SettleOptions): Promise<void> {
  try {
    while (!(await settle(store, seal, options))) {
      // Another process has settled its key meanwhile: is it the same?
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

async function settle(store: Store, seal: Sealer, { folder, lost, log }: SettleOptions): Promise<boolean> {
  const stored = await store.sealKey()
  if (stored === seal.keyId) return await store.writeUnder(seal.keyId, stored)
  const other = await keyOfSecrets(store, seal, stored)
  if (other !== undefined) {
    const { count, key } = other
    const secrets = `the secrets of ${count} ${count === 1 ? 'record' : 'records'}`
    if (!lost) {
      const path = folder === undefined ? undefined : join(folder, 'seal.key')
      const message = `${secrets} are sealed by the key ${key}, and the key here is ${seal.keyId}: ${toDo(path)}`
      throw new CodedError(sealKeyErrors.SEAL_KEY_WRONG, message)
    }
    log.warn({ lost: key, key: seal.keyId, records: count }, 'the store goes on with another sealing key')
  }
  return await store.writeUnder(seal.keyId, stored)
}

/** Returns the store's key if it is a different one, with the number of records that need it; undefined if this key suffices. */
async function keyOfSecrets(
  store: Store,
  seal: Sealer,
  stored: string | null
): Promise<{ key: string; count: number } | undefined> {
  const counts = new Map<string, number>()
  for await (const { sealed } of everySealed(store)) {
    const key = keyIdOf(sealed)
    if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1)
    // An earlier version did not store the id of the key: one decryptable value shows it.
    if (stored === null && key !== undefined && seal.knows(key)) return undefined
  }
  const count = stored === null ? undefined : counts.get(stored)
  if (stored !== null && count !== undefined && !seal.knows(stored)) return { key: stored, count }
  if ([...counts.keys()].some((key) => seal.knows(key))) return undefined
  const [most] = [...counts].sort(([, a], [, b]) => b - a)
  return most === undefined ? undefined : { key: most[0], count: most[1] }
}

async function* everySealed(store: Store): AsyncGenerator<SealedRecord> {
  let page = await store.sealedRecords({ limit: PAGE })
  while (page.length > 0) {
    yield* page
    const after = page.at(-1)
    page = after === undefined ? [] : await store.sealedRecords({ limit: PAGE, after })
  }
}
