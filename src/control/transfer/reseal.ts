import type { Clock } from '../../lib/clock.js'
import { CodedError } from '../../lib/coded-error.js'
import { newId } from '../../lib/id.js'
import { keyIdOf, type Sealer } from '../../lib/seal.js'
import type { RecordKey, Store } from '../../store/store.js'
import { everyRecord, Records } from '../records.js'

export interface ResealOptions {
  /** Opens what is not under the new key yet. */
  readonly old: Sealer
  readonly next: Sealer
  /** Every kind whose records may have sealed values. */
  readonly kinds: readonly string[]
  readonly clock: Clock
  /** Hears how many values are sealed anew, now and then. */
  readonly progress: (done: number) => void
  /** Hears of each record that stays as it is, because neither key opens it. */
  readonly left: (record: RecordKey, code: string) => void
}

const REPORT_EVERY = 1000

/**
 * Seals every sealed value of the store anew, in one transaction: whoever dies in the middle has changed nothing. What is
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
      throw new CodedError('SEAL_LEFT', message)
    }
  }
}
