import { setTimeout as sleep } from 'node:timers/promises'
import { commandErrors } from '../../app/errors.js'
import { ExitCode } from '../../cli/process.js'
import { explained, openPlace, type StoreFlags, type StorePlace, storePlace } from '../../cli/store-place.js'
import { type Heartbeat, Heartbeats } from '../../control/cluster/membership.js'
import { sealKeyErrors } from '../../control/seal-key.js'
import { systemClock } from '../../lib/clock.js'
import { CodedError } from '../../lib/errors.js'
import type { Store } from '../../store/store.js'
import { changeGivenKey, changeKeyFile, type KeyChange, resealAll } from './reseal.js'

/** Processes report each second: one that has been silent for longer has ended. Milliseconds. */
const SILENT = 8_000
/** Interval between checks of the reports (ms). */
const LOOK_EVERY = 500

/** Changes the sealing key of a store; resolves with the exit code. */
export async function rotateSeal(flags: StoreFlags): Promise<number> {
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  const given = process.env.SLUICE_SEAL_KEY ?? ''
  const next = process.env.SLUICE_SEAL_KEY_NEW ?? ''
  if ((given === '') !== (next === '')) {
    console.error('set both SLUICE_SEAL_KEY (current key) and SLUICE_SEAL_KEY_NEW (new key)')
    return ExitCode.usage
  }
  try {
    const store = await openPlace(place, { make: false })
    try {
      // A file has one process, which the lock has kept out.
      if (!place.isFile) await mustBeAlone(store)
      const change = given === '' ? await changeKeyFile(folderOf(place)) : await changeGivenKey(given, next)
      await rotate(store, change)
    } finally {
      await store.close()
    }
    if (given !== '') console.log('from now on, start with SLUICE_SEAL_KEY set to the new key')
    return ExitCode.ok
  } catch (error) {
    return explained(error, 'the sealing key was not changed')
  }
}

async function rotate(store: Store, change: KeyChange): Promise<void> {
  if (change.resumed) console.log('resuming an interrupted key rotation')
  const done = await resealAll(store, {
    old: change.old,
    next: change.next,
    kinds: await store.kinds(),
    clock: systemClock,
    left: ({ kind, id }, code) => console.error(`${kind} ${id} is skipped: its secrets cannot be decrypted (${code})`),
    progress: (count) => console.log(`${count} encrypted again`)
  })
  await change.finish()
  console.log(`${done} ${done === 1 ? 'value' : 'values'} encrypted again; the key is now ${change.next.keyId}`)
}

/**
 * Ensures that no process uses the store: a running process would continue with the old key in memory. Watches the heartbeats, whose times are
 * those of other machines, and deletes those of ended processes. Fails with a CodedError `STORE_IN_USE`.
 */
async function mustBeAlone(store: Store): Promise<void> {
  const signs = new Heartbeats(systemClock)
  const first = await store.processes()
  if (first.length === 0) return
  console.log(`waiting ${SILENT / 1000} s for heartbeats of ${first.map(({ id }) => id).join(', ')}`)
  const known = new Map(first.map(({ id, seenAt }) => [id, seenAt]))
  signs.look(first)
  let silent: readonly Heartbeat[] = []
  let all = first
  while (silent.length < all.length) {
    await sleep(LOOK_EVERY)
    all = await store.processes()
    signs.look(all)
    const alive = all.filter(({ id, seenAt }) => known.get(id) !== seenAt)
    if (alive.length > 0) {
      const message = `${alive.map(({ id }) => id).join(', ')} runs on this store; stop every process on it first`
      throw new CodedError(commandErrors.STORE_IN_USE, message)
    }
    silent = signs.silentFor(SILENT)
  }
  await store.forgetProcesses(silent)
}

function folderOf({ folder }: StorePlace): string {
  if (folder !== undefined) return folder
  throw new CodedError(sealKeyErrors.SEAL_KEY_MISSING, 'there is no folder with a sealing key: name it with --data')
}
