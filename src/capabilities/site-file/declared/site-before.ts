import type { Records } from '../../../control/records.js'
import type { StoredRecord } from '../../../store/records.js'
import type { StoreReader, StoreTransaction } from '../../../store/store.js'
import type { SiteBundle } from './site-request.js'

/** Kind of the record that keeps the site file which a revision has replaced, sealed as the applied file is. */
const KIND = 'site_file_before'

/** Number of replaced site files that the store keeps. */
export const KEPT_SITE_FILES = 10

/** Readable part of a stored file. A type, not an interface: it is JSON. */
type KeptBody = {
  /** The revision that has replaced the file. */
  readonly guarded: number
  /** False if that revision has applied the first file. */
  readonly had: boolean
}

/** Returns the file that an applied record has. Throws a CodedError of the sealer. */
export function bundleOf(records: Records, stored: StoredRecord): SiteBundle {
  const { record } = records.open(stored)
  return JSON.parse(record.secrets.bundle ?? 'null') as SiteBundle
}

/** Keeps the file that serves until the revision of `tx`, so that the revision can be reverted, and drops the oldest kept one. */
export async function keepBefore(
  tx: StoreTransaction,
  records: Records,
  stored: StoredRecord | undefined
): Promise<void> {
  const body: KeptBody = { guarded: tx.number, had: stored !== undefined }
  const secrets = stored === undefined ? {} : { bundle: JSON.stringify(bundleOf(records, stored)) }
  const key = { kind: KIND, id: idOf(tx.number) }
  const kept = (await tx.list(KIND, { limit: 2 * KEPT_SITE_FILES }))?.records ?? []
  await tx.deleteMany(kept.slice(KEPT_SITE_FILES - 1).map(({ kind, id }) => ({ kind, id })))
  await tx.insert({ ...key, ...records.stored({ ...key, createdAt: '', body, secrets }) })
}

/** Returns the file that a revision has replaced; `none` if the revision applied the first one; undefined if the file is not stored. */
export async function readBefore(
  store: StoreReader,
  records: Records,
  revision: number
): Promise<SiteBundle | 'none' | undefined> {
  // Older versions keep one file, under the name of its kind.
  for (const id of [idOf(revision), KIND]) {
    const kept = await store.get(KIND, id)
    if (kept === undefined || (kept.body as KeptBody).guarded !== revision) continue
    return (kept.body as KeptBody).had ? bundleOf(records, kept) : 'none'
  }
  return undefined
}

function idOf(revision: number): string {
  return `${KIND}_${revision}`
}
