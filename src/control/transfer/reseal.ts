import type { Clock } from '../../lib/clock.js'
import { CodedError } from '../../lib/coded-error.js'
import { newId } from '../../lib/id.js'
import { type Sealer, sealedBy } from '../../lib/seal.js'
import type { Store } from '../../store/store.js'
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
}

const REPORT_EVERY = 1000

/**
 * Seals every sealed value of the store anew, in one transaction: whoever dies in the middle has changed nothing. What is
 * under the new key already stays. Answers how many values were sealed anew. Throws a CodedError of the sealer, or
 * `SEAL_LEFT` when another process has written with the old key meanwhile.
 */
export async function resealAll(store: Store, options: ResealOptions): Promise<number> {
  const { old, next, kinds, clock, progress } = options
  const [opening, sealing] = [new Records(old), new Records(next)]
  const { value: done } = await store.transact(newId('op', clock.wall()), async (tx) => {
    let count = 0
    for (const kind of kinds) {
      for await (const page of everyRecord(tx, kind)) {
        for (const stored of page) {
          if (stored.sealed === null || sealedBy(stored.sealed) === next.keyId) continue
          const { sealed } = sealing.stored(opening.open(stored).record)
          await tx.update(kind, stored.id, { sealed })
          if (++count % REPORT_EVERY === 0) progress(count)
        }
      }
    }
    tx.note({ command: 'seal rotate' })
    return count
  })
  await mustBeUnder(store, next.keyId, kinds)
  return done
}

/** Asked before the old key goes. */
async function mustBeUnder(store: Store, keyId: string, kinds: readonly string[]): Promise<void> {
  for (const kind of kinds) {
    for await (const page of everyRecord(store, kind)) {
      const left = page.find(({ sealed }) => sealed !== null && sealedBy(sealed) !== keyId)
      if (left === undefined) continue
      const message = `${kind} ${left.id} was written with the old key meanwhile; run it again while nothing else writes`
      throw new CodedError('SEAL_LEFT', message)
    }
  }
}
