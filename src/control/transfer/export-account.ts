import type { Clock } from '../../lib/clock.js'
import { newId } from '../../lib/id.js'
import type { Json } from '../../lib/json.js'
import type { Sealer } from '../../lib/seal.js'
import type { Resource } from '../../resources/resource.js'
import type { ResourceRecord } from '../../schema/field.js'
import type { Store, StoredRecord, StoreReader } from '../../store/store.js'
import { USER, USER_NAMES } from '../principals.js'
import { everyRecord, type Records } from '../records.js'
import { ACCOUNT_FORMAT, type AccountDocument, type RecordEntry, type UserEntry } from './account-document.js'
import { madeValues } from './made-values.js'
import type { PassphraseParameters } from './passphrase.js'
import { requestForm } from './request-form.js'

export interface ExportOptions {
  readonly resources: readonly Resource[]
  readonly records: Records
  /** Of this program. */
  readonly version: string
  /** Seals the write-only values of the document; absent: they are left out. */
  readonly secrets?: { readonly parameters: PassphraseParameters; readonly sealer: Sealer }
}

/**
 * The whole account at one revision. It is read as the writer's turn, which nothing is written in: other writers wait so
 * long, and no record is of another revision than the next.
 */
export async function exportAccount(store: Store, clock: Clock, options: ExportOptions): Promise<AccountDocument> {
  const { value } = await store.transact(newId('op', clock.wall()), async (tx) => {
    tx.abandon()
    return await readAccount(tx, options)
  })
  return value
}

async function readAccount(reader: StoreReader, options: ExportOptions): Promise<AccountDocument> {
  const { resources, version, secrets } = options
  const users: UserEntry[] = []
  for (const stored of await oldestFirst(reader, USER)) users.push(await userEntry(reader, stored))
  const records: Record<string, RecordEntry[]> = {}
  for (const resource of resources) {
    if (!resource.operations.includes('create')) continue
    const entries = (await oldestFirst(reader, resource.name)).map((stored) => recordEntry(resource, stored, options))
    if (entries.length > 0) records[resource.name] = entries
  }
  const header = { format: ACCOUNT_FORMAT, version } as const
  return { ...header, ...(secrets === undefined ? {} : { secrets: secrets.parameters }), users, records }
}

async function oldestFirst(reader: StoreReader, kind: string): Promise<StoredRecord[]> {
  const all: StoredRecord[] = []
  for await (const page of everyRecord(reader, kind)) all.push(...page)
  return all.reverse()
}

async function userEntry(reader: StoreReader, { id, createdAt, body }: StoredRecord): Promise<UserEntry> {
  const name = (await reader.claimsOf(USER, id)).find(({ space }) => space === USER_NAMES)?.value
  const { role } = body as unknown as Pick<UserEntry, 'role'>
  return { id, created_at: exactTime(createdAt), ...(name === undefined ? {} : { name }), role }
}

function recordEntry(resource: Resource, stored: StoredRecord, { records, secrets }: ExportOptions): RecordEntry {
  const { record } = records.open(stored)
  const { fields } = requestForm(resource, record)
  const { shown, hidden } = madeValues(resource, record)
  return {
    id: record.id,
    created_at: exactTime(stored.createdAt),
    fields,
    ...(Object.keys(shown).length === 0 ? {} : { made: shown }),
    ...writeOnly(record, hidden, secrets?.sealer)
  }
}

function writeOnly(
  { kind, id, secrets }: ResourceRecord,
  hidden: Readonly<Record<string, Json>>,
  sealer: Sealer | undefined
): Pick<RecordEntry, 'sealed' | 'withheld'> {
  const names = [...Object.keys(secrets), ...Object.keys(hidden)]
  if (names.length === 0) return {}
  if (sealer === undefined) return { withheld: names.sort() }
  const plain = Buffer.from(JSON.stringify({ secrets, made: hidden } satisfies WriteOnlyValues))
  return { sealed: Buffer.from(sealer.seal(plain, sealedFor(kind, id))).toString('base64') }
}

/** What a document seals of one record. */
export interface WriteOnlyValues {
  readonly secrets: Readonly<Record<string, string>>
  readonly made: Readonly<Record<string, Json>>
}

/** What the sealed values of a document belong to: they open nowhere else. */
export function sealedFor(kind: string, id: string): string {
  return `export ${kind}/${id}`
}

/** RFC 3339 with milliseconds: the order of records hangs on them. */
function exactTime(wall: number): string {
  return new Date(wall).toISOString()
}
