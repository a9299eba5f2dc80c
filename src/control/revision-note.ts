import { isDeepStrictEqual } from 'node:util'
import type { Json } from '../lib/json.js'
import { pathOf, present } from '../resources/present.js'
import type { Resource } from '../resources/resource.js'
import { named } from '../runtime/names.js'
import { noContext, type ResourceRecord } from '../schema/field.js'
import type { GuardNote } from './guard-note.js'
import { recordName } from './record-names.js'

/** Kinds of a record's change, as in events. */
export type ChangeKind = 'created' | 'updated' | 'deleted'

/** One field before and after; null where it was not set or there was no record. Types, not interfaces: these are JSON. */
type FieldChange = {
  readonly before: Json
  readonly after: Json
}

/** One record in the history. Holds no secret. */
export type RecordedChange = {
  readonly kind: string
  readonly id: string
  /** Name of the record after the change, or before its deletion; undefined if it has none, and in notes of older versions. */
  readonly name?: string
  /** Path of the record below the API's base URL. */
  readonly path: string
  readonly change: ChangeKind
  /** Different fields, as in API responses, with URLs relative to its base URL. */
  readonly fields: Readonly<Record<string, FieldChange>>
  /** Paths of the sealed values that differ. */
  readonly secrets: readonly string[]
  /** Data for undoing the change; undefined in notes of older versions. */
  readonly stored?: StoredChange
}

/** One side of a change, as the store has it. A field that is in neither was not set. */
type StoredSide = {
  /** Fields that are stored in the form of responses: their values are in `fields`. */
  readonly shown: readonly string[]
  readonly values: Readonly<Record<string, Json>>
}

/** The changed fields, or all fields of a deleted record. */
type StoredChange = {
  readonly names: readonly string[]
  /** Fields that no response contains, such as hashes of keys: their values are not kept. */
  readonly hidden: readonly string[]
  readonly before: StoredSide
  readonly after: StoredSide
  /** Creation time of a deleted record (RFC 3339); undefined in notes of older versions. */
  readonly createdAt?: string
}

/** Stored author and changes of a revision. */
export type RevisionNote = {
  readonly principal: string
  readonly subject: string
  /** The record of the API key; null for the operator's own keys. */
  readonly key: string | null
  /** Null for more than `MOST_CHANGES`: then the history knows which records changed, and not their fields. */
  readonly changes: readonly RecordedChange[] | null
  /** The reverted revision; undefined if it is no revert. */
  readonly reverts?: number
  /** Reason, if the service itself created the revision. */
  readonly reason?: string
  /** Its guard conditions and their state. */
  readonly guard?: GuardNote
}

/** Maximum number of changes per revision whose fields the history keeps, because reading a page of it loads them. */
export const MOST_CHANGES = 2_000

/** The note of a write. */
export function revisionNote(
  by: Pick<RevisionNote, 'principal' | 'subject' | 'key'>,
  changes: readonly RecordedChange[],
  more: MoreNoted = {}
): RevisionNote {
  return { ...by, changes: changes.length > MOST_CHANGES ? null : changes, ...given(more) }
}

/** Optional members of notes. */
type MoreNoted = { readonly [Name in 'reverts' | 'reason' | 'guard']?: RevisionNote[Name] | undefined }

function given(members: MoreNoted): Pick<RevisionNote, keyof MoreNoted> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}

/**
 * Returns the change of a record; undefined for a missing side. Values derived from live state or other records are not part
 * of the history, nor are secrets of its owner. `parent`: the record that contains it, for its name.
 */
export function recordedChange(
  resource: Resource,
  before: ResourceRecord | undefined,
  after: ResourceRecord | undefined,
  parent?: ResourceRecord
): RecordedChange {
  const record = after ?? before
  if (record === undefined) throw new RangeError('a change of nothing')
  const change = before === undefined ? 'created' : after === undefined ? 'deleted' : 'updated'
  const [then, now] = [shownFields(resource, before), shownFields(resource, after)]
  const fields: Record<string, FieldChange> = {}
  for (const name of Object.keys(now ?? then ?? {})) {
    const pair = { before: then?.[name] ?? null, after: now?.[name] ?? null }
    if (!isDeepStrictEqual(pair.before, pair.after)) fields[name] = pair
  }
  const paths = new Set([...Object.keys(before?.secrets ?? {}), ...Object.keys(after?.secrets ?? {})])
  const secrets = [...paths].filter((path) => before?.secrets[path] !== after?.secrets[path]).sort()
  const stored = storedChange(before, after, fields, (one) => present(resource, one, noContext))
  const name = recordName(record, parent)
  const { kind, id } = record
  return { kind, id, ...named(name), path: pathOf(resource, record), change, fields, secrets, stored }
}

function storedChange(
  before: ResourceRecord | undefined,
  after: ResourceRecord | undefined,
  fields: RecordedChange['fields'],
  shownOf: (record: ResourceRecord) => Readonly<Record<string, Json>>
): StoredChange {
  // To undo that a record was made needs its id alone.
  if (before === undefined) return { names: [], hidden: [], before: NOT_SET, after: NOT_SET }
  const differing = [...new Set([...Object.keys(before.body), ...Object.keys(after?.body ?? {})])].filter(
    (name) => after === undefined || !isDeepStrictEqual(before.body[name], after.body[name])
  )
  const shown = [before, after].map((record) => (record === undefined ? undefined : shownOf(record)))
  // The body only states whether a secret is set, which is not secret.
  const isHidden = (name: string) =>
    [before, after].some((record, i) => {
      const value = record?.body[name] ?? null
      return value !== null && typeof value !== 'boolean' && (shown[i]?.[name] ?? null) === null
    })
  const hidden = differing.filter(isHidden)
  const names = differing.filter((name) => !isHidden(name))
  return {
    names,
    hidden,
    before: sideOf(before, 'before', names, fields),
    after: sideOf(after, 'after', names, fields),
    ...(after === undefined ? { createdAt: before.createdAt } : {})
  }
}

const NOT_SET: StoredSide = { shown: [], values: {} }

function sideOf(
  record: ResourceRecord | undefined,
  side: 'before' | 'after',
  names: readonly string[],
  fields: RecordedChange['fields']
): StoredSide {
  if (record === undefined) return NOT_SET
  const set = names.filter((name) => Object.hasOwn(record.body, name))
  const shown = set.filter((name) => isDeepStrictEqual(fields[name]?.[side], record.body[name]))
  const rest = set.filter((name) => !shown.includes(name))
  return { shown, values: Object.fromEntries(rest.map((name) => [name, record.body[name] as Json])) }
}

/** The fields that a change has changed as they were stored on one side of it, undefined for one that was not set; undefined when they were not kept. */
export function storedFields(
  { fields, stored }: RecordedChange,
  side: 'before' | 'after'
): ReadonlyMap<string, Json | undefined> | undefined {
  if (stored === undefined) return undefined
  const { shown, values } = stored[side]
  return new Map(stored.names.map((name) => [name, shown.includes(name) ? fields[name]?.[side] : values[name]]))
}

function shownFields(resource: Resource, record: ResourceRecord | undefined): Record<string, Json> | undefined {
  if (record === undefined) return undefined
  const shown = present(resource, record, noContext)
  return Object.fromEntries(Object.entries(shown).filter(([name]) => resource.fields[name]?.kept === true))
}

/** The note of a revision as the store gives it back; undefined for revisions that the service made without a caller. */
export function readNote(detail: unknown): RevisionNote | undefined {
  if (typeof detail !== 'object' || detail === null || !('principal' in detail)) return undefined
  const { principal, subject = '', key = null, changes, reverts, reason, guard } = detail as Partial<RevisionNote>
  if (typeof principal !== 'string' || (changes !== null && !Array.isArray(changes))) return undefined
  return { principal, subject, key, changes, ...given({ reverts, reason, guard }) }
}
