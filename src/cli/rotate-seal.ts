import { resealAll } from '../control/transfer/reseal.js'
import { changeGivenKey, changeKeyFile, type KeyChange } from '../control/transfer/seal-key-change.js'
import { systemClock } from '../lib/clock.js'
import { CodedError } from '../lib/coded-error.js'
import type { Store } from '../store/store.js'
import { explained, openPlace, type StoreFlags, type StorePlace, storePlace } from './account-store.js'
import { ExitCode } from './exit-code.js'

/** A process that reported itself so long ago, or later, is taken for alive. Milliseconds; they report each second. */
const ALIVE = 10_000

/** Changes the sealing key of a store; resolves with the exit code. */
export async function rotateSeal(flags: StoreFlags): Promise<number> {
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  const given = process.env.SLUICE_SEAL_KEY ?? ''
  const next = process.env.SLUICE_SEAL_KEY_NEW ?? ''
  if ((given === '') !== (next === '')) {
    console.error('SLUICE_SEAL_KEY and SLUICE_SEAL_KEY_NEW go together: the key in use and the one to come')
    return ExitCode.usage
  }
  try {
    const store = await openPlace(place, { make: false })
    try {
      await mustBeAlone(store)
      const change = given === '' ? await changeKeyFile(folderOf(place)) : await changeGivenKey(given, next)
      await rotate(store, change)
    } finally {
      await store.close()
    }
    if (given !== '') console.log('start with SLUICE_SEAL_KEY set to the new key from now on')
    return ExitCode.ok
  } catch (error) {
    return explained(error, 'the sealing key was not changed')
  }
}

async function rotate(store: Store, change: KeyChange): Promise<void> {
  if (change.resumed) console.log('going on with a change of the key that was interrupted')
  const done = await resealAll(store, {
    old: change.old,
    next: change.next,
    kinds: await store.kinds(),
    clock: systemClock,
    progress: (count) => console.log(`${count} sealed anew`)
  })
  await change.finish()
  console.log(`${done} ${done === 1 ? 'value' : 'values'} sealed anew; the key is now ${change.next.keyId}`)
}

/** Processes that run would go on with the old key, in their memory. Fails with a CodedError `STORE_IN_USE`. */
async function mustBeAlone(store: Store): Promise<void> {
  const since = systemClock.wall() - ALIVE
  const alive = (await store.processes()).filter(({ seenAt }) => seenAt >= since)
  if (alive.length === 0) return
  const message = `${alive.map(({ id }) => id).join(', ')} ran on this store within the last ${ALIVE / 1000} s; stop every process on it first`
  throw new CodedError('STORE_IN_USE', message)
}

function folderOf({ folder }: StorePlace): string {
  if (folder !== undefined) return folder
  throw new CodedError('SEAL_KEY_MISSING', 'there is no folder with a sealing key: name it with --data')
}
