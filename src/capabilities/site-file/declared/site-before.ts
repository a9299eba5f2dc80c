import type { Records } from '../../../control/records.js'
import type { StoredRecord } from '../../../store/records.js'
import type { StoreReader, StoreTransaction } from '../../../store/store.js'
import type { SiteBundle } from './site-request.js'

/** The file before the last one that was applied with a guard; sealed as that one is. */
const SITE_BEFORE = { kind: 'site_file_before', id: 'site_file_before' } as const

/** What the store keeps of it in the clear. A type, not an interface: it is JSON. */
type KeptBody = {
  /** The revision that has taken its place. */
  readonly guarded: number
  /** Was there one? */
  readonly had: boolean
}

/** The file that an applied record has. Throws a CodedError of the sealer. */
export function bundleOf(records: Records, stored: StoredRecord): SiteBundle {
  const { record } = records.open(stored)
  return JSON.parse(record.secrets.bundle ?? 'null') as SiteBundle
}

/** Keeps the file that serves until now, if any does, for the revert of the write that `tx` is. */
export async function keepBefore(
  tx: StoreTransaction,
  records: Records,
  stored: StoredRecord | undefined
): Promise<void> {
  const body: KeptBody = { guarded: tx.number, had: stored !== undefined }
  const secrets = stored === undefined ? {} : { bundle: JSON.stringify(bundleOf(records, stored)) }
  const kept = records.stored({ ...SITE_BEFORE, createdAt: '', body, secrets })
  const there = await tx.get(SITE_BEFORE.kind, SITE_BEFORE.id)
  if (there === undefined) await tx.insert({ ...SITE_BEFORE, ...kept })
  else await tx.update(SITE_BEFORE.kind, SITE_BEFORE.id, kept)
}

/** The file whose place a revision has taken; `none`: there was none before. Undefined: it is not kept. */
export async function readBefore(
  store: StoreReader,
  records: Records,
  revision: number
): Promise<SiteBundle | 'none' | undefined> {
  const kept = await store.get(SITE_BEFORE.kind, SITE_BEFORE.id)
  if (kept === undefined) return undefined
  const { guarded, had } = kept.body as KeptBody
  if (guarded !== revision) return undefined
  return had ? bundleOf(records, kept) : 'none'
}
