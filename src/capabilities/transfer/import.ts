import { USER, USER_NAMES } from '../../control/access.js'
import { ControlError } from '../../control/errors.js'
import { mustPassTests, TESTS_FIELD } from '../../control/policy-tests.js'
import { Catalogue, everyRecord } from '../../control/records.js'
import { MOST_CHANGES, type RecordedChange, recordedChange } from '../../control/revision-note.js'
import { newId } from '../../lib/id.js'
import { isObject } from '../../lib/json.js'
import { Slices } from '../../lib/slices.js'
import type { Resource } from '../../resources/resource.js'
import type { ResourceRecord } from '../../schema/field.js'
import type { StoreTransaction } from '../../store/store.js'
import {
  type AccountDocument,
  type ImportOptions,
  ImportRefused,
  type RecordEntry,
  type TransferPath,
  type TransferProblem
} from './document.js'
import { changedFields, readEntry } from './read-entry.js'
import { type Edit, writeEdits } from './write-edits.js'

/** A record that an import writes or deletes. */
export interface RecordDifference {
  readonly kind: string
  readonly id: string
  readonly name: string
  readonly change: 'created' | 'updated' | 'deleted'
  /** Names of changed fields, as in responses. */
  readonly fields: readonly string[]
}

/** Changes of an import. */
export interface ImportDifference {
  readonly records: readonly RecordDifference[]
  /** Number of unchanged records of each kind. */
  readonly unchanged: Readonly<Record<string, number>>
  /** Unexpected consequences for the user, as text. */
  readonly warnings: readonly string[]
}

export interface Imported {
  readonly difference: ImportDifference
  /** Written changes, for the caller that applies them. */
  readonly edits: readonly Edit[]
  /** Id of the importing user; '' if there is none yet. */
  readonly principal: string
}

const KEYS_AT_ONCE = 500

/**
 * Replaces the account by the document, as part of one transaction. Throws an `ImportRefused` with all errors; the
 * transaction must then be aborted.
 */
export async function importAccount(
  tx: StoreTransaction,
  document: AccountDocument,
  options: ImportOptions
): Promise<Imported> {
  const users = await importUsers(tx, document)
  const principal = options.principal ?? (await tx.keeperOf(USER_NAMES, 'administrator'))?.id ?? ''
  const { edits, unchanged } = await readRecords(tx, document, options, principal)
  const deleted = options.prune ? await absentRecords(tx, document, options) : []
  const all = [...edits, ...deleted]
  const warnings = await writeEdits(tx, all, document, options)
  const records = [...users.created, ...all.map(differenceOf)]
  return { difference: { records, unchanged, warnings: [...users.warnings, ...warnings] }, edits: all, principal }
}

/**
 * Returns the changes for the history, whose names include those of the records that contain them; one more than `MOST_CHANGES` at most, since the
 * note of more has none.
 */
export async function recordedEdits(
  tx: StoreTransaction,
  edits: readonly Edit[],
  { records, resources }: ImportOptions
): Promise<RecordedChange[]> {
  const catalogue = new Catalogue(resources)
  const recorded = edits.slice(0, MOST_CHANGES + 1)
  const parentKey = ({ resource, before, after }: Edit) => {
    const family = catalogue.parentOf(resource)
    const body = (after ?? before)?.body
    return family && body && { kind: family.parent.name, id: String(body[family.field]) }
  }
  const parents = new Map<string, ResourceRecord>()
  const keys = recorded.map(parentKey).filter((key) => key !== undefined)
  // A transaction sees what it has written; a deleted parent is only among the edits.
  for (const { before } of edits) if (before !== undefined) parents.set(before.id, before)
  for (const stored of await tx.getMany(keys)) parents.set(stored.id, records.open(stored).record)
  return recorded.map((edit) => {
    return recordedChange(edit.resource, edit.before, edit.after, parents.get(parentKey(edit)?.id ?? ''))
  })
}

/** Users that do not exist are created; names of other users are not taken, and none is deleted. */
async function importUsers(tx: StoreTransaction, { users }: AccountDocument) {
  const created: RecordDifference[] = []
  const warnings: string[] = []
  for (const { id, created_at, name, role } of users) {
    if ((await tx.get(USER, id)) !== undefined) continue
    await tx.insert({ kind: USER, id, body: { role }, createdAt: Date.parse(created_at) })
    const keeper = name === undefined ? undefined : await tx.keeperOf(USER_NAMES, name)
    if (name !== undefined && keeper === undefined) await tx.claim({ kind: USER, id }, USER_NAMES, name)
    if (keeper !== undefined) {
      warnings.push(
        `user ${id} comes without its name ${name}, which ${keeper.id} has here; what it owns stays its own`
      )
    }
    created.push({ kind: USER, id, name: name ?? '', change: 'created', fields: [] })
  }
  return { created, warnings }
}

async function readRecords(tx: StoreTransaction, document: AccountDocument, options: ImportOptions, principal: string) {
  const edits: Edit[] = []
  const unchanged: Record<string, number> = {}
  const problems: TransferProblem[] = []
  const slices = new Slices()
  const pending = new Map<string, ResourceRecord>()
  const { checkPolicy, clock, records, random, sealer, zone } = options
  const find = async (kind: string, id: string) =>
    pending.get(`${kind} ${id}`) ?? (await records.find(tx, kind, id))?.record
  const makers = { clock, zone, random, principal, newId: (prefix: string) => newId(prefix, clock.wall()), find }
  for (const resource of options.resources) {
    const entries = document.records[resource.name] ?? []
    let current: ReadonlyMap<string, ResourceRecord> = new Map()
    for (const [index, entry] of entries.entries()) {
      if (slices.due) await slices.rest()
      // In small batches: a transaction that is idle for long is aborted.
      if (index % KEYS_AT_ONCE === 0) {
        current = await currentRecords(tx, resource, entries.slice(index, index + KEYS_AT_ONCE), options)
      }
      const path = ['records', resource.name, index]
      const before = current.get(entry.id)
      const read = await readEntry(resource, entry, before, path, { checkPolicy, sealer, makers })
      if (!read.ok) {
        problems.push(...read.problems)
        continue
      }
      const refused = await testProblems(before, read.record, path, options)
      if (refused !== undefined) {
        problems.push(...refused)
        continue
      }
      pending.set(`${resource.name} ${entry.id}`, read.record)
      if (read.record === before) unchanged[resource.name] = (unchanged[resource.name] ?? 0) + 1
      else {
        const createdAt = entry.created_at === undefined ? tx.at : Date.parse(entry.created_at)
        edits.push({ resource, before, after: read.record, createdAt, path })
      }
    }
  }
  if (problems.length > 0) throw new ImportRefused(problems)
  return { edits, unchanged }
}

/** Runs the tests of a changed policy; returns their failures, or undefined. */
async function testProblems(
  before: ResourceRecord | undefined,
  after: ResourceRecord,
  path: TransferPath,
  { testPolicy }: ImportOptions
): Promise<TransferProblem[] | undefined> {
  try {
    await mustPassTests(before, after, testPolicy)
    return undefined
  } catch (error) {
    if (!(error instanceof ControlError)) throw error
    const place = [...path, 'fields', TESTS_FIELD]
    const found = error.problems.map(({ code, message, details = {} }) => {
      return { path: place, code, message, within: { line: Number(details.line), column: Number(details.column) } }
    })
    return found.length > 0 ? found : [{ path: place, code: error.code, message: error.message }]
  }
}

async function currentRecords(
  tx: StoreTransaction,
  { name: kind }: Resource,
  entries: readonly RecordEntry[],
  { records }: ImportOptions
): Promise<Map<string, ResourceRecord>> {
  const found = await tx.getMany(entries.map(({ id }) => ({ kind, id })))
  return new Map(found.map((stored) => [stored.id, records.open(stored).record]))
}

/** Returns deletions of records missing in the document, referring records first. */
async function absentRecords(tx: StoreTransaction, document: AccountDocument, options: ImportOptions): Promise<Edit[]> {
  const absent: Edit[] = []
  for (const resource of [...options.resources].reverse()) {
    if (!resource.operations.includes('delete')) continue
    const there = new Set((document.records[resource.name] ?? []).map(({ id }) => id))
    for await (const page of everyRecord(tx, resource.name)) {
      for (const stored of page) {
        if (there.has(stored.id)) continue
        const before = options.records.open(stored).record
        absent.push({ resource, before, after: undefined, createdAt: undefined, path: undefined })
      }
    }
  }
  return absent
}

function differenceOf({ resource, before, after }: Edit): RecordDifference {
  const record = (after ?? before) as ResourceRecord
  const { kind, id } = record
  const change = before === undefined ? 'created' : after === undefined ? 'deleted' : 'updated'
  const fields = before === undefined || after === undefined ? [] : changedFields(resource, before, after)
  return { kind, id, name: labelOf(record), change, fields }
}

const LABELS = ['name', 'domain', 'hostports', 'match', 'address', 'cidr', 'subject_common_name', 'description']

/** Returns the display name of a record; '' if it has none. */
function labelOf({ body }: ResourceRecord): string {
  for (const field of LABELS) {
    const value = body[field]
    const text = Array.isArray(value) ? value.filter((one) => !isObject(one)).join(', ') : value
    if (typeof text === 'string' && text !== '') return text
  }
  return ''
}
