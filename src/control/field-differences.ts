import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json } from '../lib/json.js'
import { unifiedDiff } from '../lib/text-diff.js'
import type { RecordedChange } from './revision-note.js'

/** One different value: both sides, or a text diff. A type, not an interface: it is JSON. */
export type FieldDifference = {
  /** Path in the record's response, such as `backend.id`. */
  readonly field: string
  /** Null where it was not set or there was no record. */
  readonly before?: Json
  readonly after?: Json
  /** A unified diff instead of both sides, for documents and other texts of several lines. */
  readonly text_diff?: string
}

/**
 * Returns the differences between fields in public form, value by value. Single-line JSON documents are formatted in several
 * lines. Lists are compared as a whole, unless they have equal lengths and contain objects.
 */
export function fieldDifferences(fields: RecordedChange['fields']): FieldDifference[] {
  return Object.entries(fields).flatMap(([name, { before, after }]) => [...differences(name, before, after)])
}

function* differences(field: string, before: Json, after: Json): Generator<FieldDifference> {
  if (isDeepStrictEqual(before, after)) return
  const [then, now] = [membersOf(before), membersOf(after)]
  const comparable =
    then !== undefined && now !== undefined && (isObject(before) || isObject(after) || bothLists(before, after))
  const names = comparable ? [...new Set([...Object.keys(then), ...Object.keys(now)])] : []
  if (comparable && names.length > 0) {
    // A reference shows its id and, following from it, its URL.
    const shown = names.includes('id') && names.includes('uri') ? names.filter((name) => name !== 'uri') : names
    for (const name of shown) yield* differences(`${field}.${name}`, then[name] ?? null, now[name] ?? null)
    return
  }
  if (isDocument(before) || isDocument(after)) {
    const text_diff = unifiedDiff(documentText(before), documentText(after))
    // Only the formatting of a JSON text has changed: show both sides unchanged.
    if (text_diff !== '') {
      yield { field, text_diff }
      return
    }
  }
  yield { field, before, after }
}

type Members = Readonly<Record<string, Json>>

/** Returns the members of a value; null has none, so that each member of the other side is added or removed. */
function membersOf(value: Json): Members | undefined {
  if (value === null) return {}
  return typeof value === 'object' ? (value as Members) : undefined
}

function bothLists(before: Json, after: Json): boolean {
  const hold = (value: Json) => Array.isArray(value) && value.every((item) => isObject(item))
  return hold(before) && hold(after) && (before as Json[]).length === (after as Json[]).length
}

/** A text of several lines, or a whole JSON document in one. */
function isDocument(value: Json): value is string {
  return typeof value === 'string' && (value.trimEnd().includes('\n') || asJson(value) !== undefined)
}

function documentText(value: Json): string {
  if (typeof value !== 'string') return ''
  const data = value.trimEnd().includes('\n') ? undefined : asJson(value)
  const text = data === undefined ? value : JSON.stringify(data, null, 2)
  return text === '' || text.endsWith('\n') ? text : `${text}\n`
}

function asJson(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text) as object
  } catch {
    return undefined
  }
}
