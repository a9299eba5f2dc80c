import { join } from 'node:path'
import { CodedError } from '../lib/coded-error.js'
import { keyIdOf, type Sealer } from '../lib/seal.js'
import type { SealedRecord, Store, StoreLog } from '../store/store.js'
import { type StoredSeal, toDo } from './seal-key-file.js'

const PAGE = 1000

export interface SettleOptions {
  /** Where the key file lies, for people. */
  readonly folder: string | undefined
  /** The key of the store is lost for good. */
  readonly lost: boolean
  readonly log: Pick<StoreLog, 'warn'>
}

/** What a store says of its key. It is closed again. */
export async function peekSeal(open: () => Promise<Store>): Promise<StoredSeal> {
  const store = await open()
  try {
    return await storedSeal(store)
  } finally {
    await store.close()
  }
}

export async function storedSeal(store: Store): Promise<StoredSeal> {
  return { key: await store.sealKey(), secrets: (await store.sealedRecords({ limit: 1 })).length > 0 }
}

/**
 * Makes the key of a process the one that the store is written under, where it is that already, where nothing is sealed yet,
 * or where the other one is lost. A record that does not open is no reason to refuse as long as the key is right. Otherwise
 * fails with a CodedError `SEAL_KEY_WRONG` and closes the store.
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
      throw new CodedError('SEAL_KEY_WRONG', message)
    }
    log.warn({ lost: key, key: seal.keyId, records: count }, 'the store goes on with another sealing key')
  }
  return await store.writeUnder(seal.keyId, stored)
}

/** The key of the store when it is another one, with how many records need it; undefined when this one will do. */
async function keyOfSecrets(
  store: Store,
  seal: Sealer,
  stored: string | null
): Promise<{ key: string; count: number } | undefined> {
  const counts = new Map<string, number>()
  for await (const { sealed } of everySealed(store)) {
    const key = keyIdOf(sealed)
    if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1)
    // An earlier version did not write down what the key of the store is: one value that opens tells.
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
