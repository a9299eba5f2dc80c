import { isDeepStrictEqual } from 'node:util'
import type { Json } from '../lib/json.js'
import { pathOf, present } from '../resources/present.js'
import type { Resource } from '../resources/resource.js'
import { noContext, type ResourceRecord } from '../schema/field.js'

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
}

/** What the history says of who made a revision and what it did. */
export type RevisionNote = {
  readonly principal: string
  readonly subject: string
  /** The record of the API key; null for the operator's own keys. */
  readonly key: string | null
  /** Null for more than `MOST_CHANGES`: then the history knows which records changed, and not their fields. */
  readonly changes: readonly RecordedChange[] | null
}

/** Changes of one revision whose fields the history keeps: each reader of a page of it reads them. */
export const MOST_CHANGES = 2_000

/** The note of a write. */
export function revisionNote(
  by: Pick<RevisionNote, 'principal' | 'subject' | 'key'>,
  changes: readonly RecordedChange[]
): RevisionNote {
  return { ...by, changes: changes.length > MOST_CHANGES ? null : changes }
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
  return { kind: record.kind, id: record.id, path: pathOf(resource, record), change, fields, secrets }
}

function shownFields(resource: Resource, record: ResourceRecord | undefined): Record<string, Json> | undefined {
  if (record === undefined) return undefined
  const shown = present(resource, record, noContext)
  return Object.fromEntries(Object.entries(shown).filter(([name]) => resource.fields[name]?.kept === true))
}

/** The note of a revision as the store gives it back; undefined for revisions that the service made without a caller. */
export function readNote(detail: unknown): RevisionNote | undefined {
  if (typeof detail !== 'object' || detail === null || !('principal' in detail)) return undefined
  const { principal, subject = '', key = null, changes } = detail as Partial<RevisionNote>
  if (typeof principal !== 'string' || (changes !== null && !Array.isArray(changes))) return undefined
  return { principal, subject, key, changes }
}
