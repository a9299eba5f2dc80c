import { isDeepStrictEqual } from 'node:util'
import type { Json } from '../lib/json.js'
import { pathOf, present } from '../resources/present.js'
import type { Resource } from '../resources/resource.js'
import { noContext, type ResourceRecord } from '../schema/field.js'
import type { GuardNote } from './guard-note.js'

/** What became of a record, as events say it too. */
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
  /** Path of the record below the API's base URL. */
  readonly path: string
  readonly change: ChangeKind
  /** As answers of the API show them, with URLs below its base. Only what differs. */
  readonly fields: Readonly<Record<string, FieldChange>>
  /** Paths of the sealed values that differ. */
  readonly secrets: readonly string[]
  /** What is needed to undo the change. Absent in what older versions wrote. */
  readonly stored?: StoredChange
}

/** One side of a change, as the store has it. A field that is in neither was not set. */
type StoredSide = {
  /** Fields that are stored as answers show them: their values are in `fields`. */
  readonly shown: readonly string[]
  readonly values: Readonly<Record<string, Json>>
}

/** The fields that a change has changed, or all of a record that is gone. */
type StoredChange = {
  readonly names: readonly string[]
  /** Fields that no answer shows, such as hashes of keys: their values are not kept. */
  readonly hidden: readonly string[]
  readonly before: StoredSide
  readonly after: StoredSide
  /** Of a record that is gone: when it was made (RFC 3339). Absent in what older versions wrote. */
  readonly createdAt?: string
}

/** What the history says of who made a revision and what it did. */
export type RevisionNote = {
  readonly principal: string
  readonly subject: string
  /** The record of the API key; null for the operator's own keys. */
  readonly key: string | null
  /** Null for more than `MOST_CHANGES`: then the history knows which records changed, and not their fields. */
  readonly changes: readonly RecordedChange[] | null
  /** The revision that this one undid; absent: none. */
  readonly reverts?: number
  /** Why it was made, where the service made it by itself. */
  readonly reason?: string
  /** The conditions that it carries, and how they stand. */
  readonly guard?: GuardNote
}

/** Changes of one revision whose fields the history keeps: each reader of a page of it reads them. */
export const MOST_CHANGES = 2_000

/** The note of a write. */
export function revisionNote(
  by: Pick<RevisionNote, 'principal' | 'subject' | 'key'>,
  changes: readonly RecordedChange[],
  more: MoreNoted = {}
): RevisionNote {
  return { ...by, changes: changes.length > MOST_CHANGES ? null : changes, ...given(more) }
}

/** What few notes have. */
type MoreNoted = { readonly [Name in 'reverts' | 'reason' | 'guard']?: RevisionNote[Name] | undefined }

function given(members: MoreNoted): Pick<RevisionNote, keyof MoreNoted> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}

/**
 * How a record changed; undefined stands for not being there. What follows from live state or other records is not part of a
 * record's history, and neither are secrets of its owner.
 */
export function recordedChange(
  resource: Resource,
  before: ResourceRecord | undefined,
  after: ResourceRecord | undefined
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
  return { kind: record.kind, id: record.id, path: pathOf(resource, record), change, fields, secrets, stored }
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
  // Of a secret the body holds whether it is set, which is no secret.
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
