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
  /** Decrypts values that are not under the new key yet. */
  readonly old: Sealer
  readonly next: Sealer
  /** Kinds of records with sealed values. */
  readonly kinds: readonly string[]
  readonly clock: Clock
  /** Called periodically with the number of resealed values. */
  readonly progress: (done: number) => void
  /** Called for each record that neither key decrypts; it is unchanged. */
  readonly left: (record: RecordKey, code: string) => void
}

const REPORT_EVERY = 1000

/**
 * Seals every sealed value of the store again, in one transaction: a crash changes nothing. Values under the new key, and
 * those that neither key decrypts, are unchanged. Returns the number of resealed values. Throws a CodedError of the sealer
 * if the old key is not that of the store, or `SEAL_LEFT` if another process has used the old key meanwhile.
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
    // No value could be decrypted: it is the wrong key.
    if (failure !== undefined && !opened) throw failure
    await tx.sealUnder(next.keyId)
    tx.note({ command: 'seal rotate' })
    return count
  })
  await mustBeUnder(store, next.keyId, kinds, lost)
  return done
}

/** Checks that every value is under the new key, before the old one is deleted. */
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

/** A change of the sealing key: both keys exist until `finish`. */
export interface KeyChange {
  readonly old: Sealer
  readonly next: Sealer
  /** Was it begun before and not finished? */
  readonly resumed: boolean
  /** Deletes the old key, which must no longer be in use. */
  finish(): Promise<void>
}

/**
 * Starts a change of the key in `folder`, or resumes an interrupted one. The new key is on disk before this resolves. Fails
 * with the CodedErrors of `openSealer`, and `SEAL_KEY_MISSING` if there is no key to change.
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
