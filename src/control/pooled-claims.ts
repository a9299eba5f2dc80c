import { type Claim, poolSpace } from '../resources/resource.js'
import type { KeptClaim, RecordKey } from '../store/records.js'
import type { StoreReader, StoreTransaction } from '../store/store.js'

/** Text that is equal for equal claims of one record: a value that is shared and one that is not are different claims. */
export function claimText({ space, value, pool }: Pick<Claim, 'space' | 'value' | 'pool'>): string {
  return JSON.stringify([space, value, pool ?? null])
}

/** Returns true if `keeper`, which holds the claimed value, shares it with the claimant: it is a member of the same pool. */
export async function isShared(
  reader: Pick<StoreReader, 'keeperOf'>,
  { pool }: Pick<Claim, 'pool'>,
  keeper: RecordKey
): Promise<boolean> {
  if (pool === undefined) return false
  const member = await reader.keeperOf(poolSpace(pool), keeper.id)
  return member?.kind === keeper.kind
}

/** Gives each shared value whose holder has left to another member of its pool, so that a pool always holds its value. */
export async function passOn(
  tx: Pick<StoreTransaction, 'keeperOf' | 'keeperIn' | 'claimMany'>,
  left: readonly Pick<Claim, 'space' | 'value' | 'pool'>[]
): Promise<void> {
  const claims: KeptClaim[] = []
  for (const { space, value, pool } of left) {
    if (pool === undefined || (await tx.keeperOf(space, value)) !== undefined) continue
    const keeper = await tx.keeperIn(poolSpace(pool))
    if (keeper !== undefined) claims.push({ keeper, space, value })
  }
  if (claims.length > 0) await tx.claimMany(claims)
}
