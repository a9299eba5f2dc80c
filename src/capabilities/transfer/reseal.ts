import { readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { everyRecord, Records } from '../../control/records.js'
import { openSealer, sealKeyErrors } from '../../control/seal-key.js'
import type { Clock } from '../../lib/clock.js'
import { CodedError, codeOf } from '../../lib/errors.js'
import { makeFolder, replaceFile, syncFolder } from '../../lib/files.js'
import { newId } from '../../lib/id.js'
import { keyIdOf, type Sealer } from '../../lib/seal.js'
import type { RecordKey } from '../../store/records.js'
import type { Store } from '../../store/store.js'

interface ResealOptions {
  /** Opens what is not under the new key yet. */
  readonly old: Sealer
  readonly next: Sealer
  /** Every kind whose records may have sealed values. */
  readonly kinds: readonly string[]
  readonly clock: Clock
  /** Called now and then with the number of values that are sealed anew. */
  readonly progress: (done: number) => void
  /** Called for each record that stays as it is, because neither key opens it. */
  readonly left: (record: RecordKey, code: string) => void
}

const REPORT_EVERY = 1000

/**
 * Seals every sealed value of the store anew, in one transaction: a process that dies in the middle has changed nothing. What is
 * under the new key already stays, and so does what neither key opens. Answers how many values were sealed anew. Throws a
 * CodedError of the sealer when the old key is not the one of the store, or `SEAL_LEFT` when another process has written with the old key meanwhile.
 */
export async function resealAll(store: Store, options: ResealOptions): Promise<number> {
  const { old, next, kinds, clock, progress } = options
  const right = [old.keyId, next.keyId].includes((await store.sealKey()) ?? '')
  const lost = new Set<string>()
  const [opening, sealing] = [new Records(old), new Records(next)]
  const { value: done } = await store.transact(newId('op', clock.wall()), async (tx) => {
    let count = 0
    let failure: CodedError | undefined
    let opened = right
    for (const kind of kinds) {
      for await (const page of everyRecord(tx, kind)) {
        for (const stored of page) {
          const under = stored.sealed === null ? undefined : keyIdOf(stored.sealed)
          opened ||= under === next.keyId
          if (stored.sealed === null || under === next.keyId) continue
          const { record, unopened } = opening.openAny(stored)
          if (unopened !== undefined) {
            failure ??= unopened
            lost.add(stored.id)
            options.left(stored, unopened.code)
            continue
          }
          opened = true
          await tx.update(kind, stored.id, { sealed: sealing.stored(record).sealed })
          if (++count % REPORT_EVERY === 0) progress(count)
        }
      }
    }
    // Nothing of the store opens: the key is another one's.
    if (failure !== undefined && !opened) throw failure
    await tx.sealUnder(next.keyId)
    tx.note({ command: 'seal rotate' })
    return count
  })
  await mustBeUnder(store, next.keyId, kinds, lost)
  return done
}

/** Asked before the old key goes. */
async function mustBeUnder(
  store: Store,
  keyId: string,
  kinds: readonly string[],
  lost: ReadonlySet<string>
): Promise<void> {
  for (const kind of kinds) {
    for await (const page of everyRecord(store, kind)) {
      const left = page.find(({ id, sealed }) => sealed !== null && !lost.has(id) && keyIdOf(sealed) !== keyId)
      if (left === undefined) continue
      const message = `${kind} ${left.id} was written with the old key meanwhile; run it again while nothing else writes`
      throw new CodedError(sealKeyErrors.SEAL_LEFT, message)
    }
  }
}

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
    throw new CodedError(sealKeyErrors.SEAL_KEY_MISSING, `there is no sealing key ${path}; name the folder with --data`)
  }
  const resumed = await isThere(join(beside, FILE))
  const old = await openSealer({ given: undefined, folder, lasting: true })
  makeFolder(beside)
  const next = await openSealer({ given: undefined, folder: beside, lasting: true })
  await syncFolder(beside)
  await syncFolder(folder)
  return {
    old,
    next,
    resumed,
    async finish() {
      await replaceFile(path, await readFile(join(beside, FILE)))
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
  if (old.keyId === sealer.keyId)
    throw new CodedError(sealKeyErrors.SEAL_KEY_SAME, 'the new sealing key is the old one')
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
