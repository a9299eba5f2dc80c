import type { Selectable } from 'kysely'
import type { Json } from '../lib/json.js'
import type { RecordKey, Reference, StoredRecord } from './store.js'
import type { RecordsTable, ReferencesTable } from './tables.js'

const HALF_PAIR = /\p{Surrogate}/u
const HALF_PAIRS = /\p{Surrogate}/gu

export function toRecord(row: Selectable<RecordsTable>): StoredRecord {
  return {
    kind: row.kind,
    id: row.id,
    sequence: row.sequence,
    revision: row.revision,
    createdAt: row.created_at,
    body: JSON.parse(row.body) as Json,
    sealed: row.sealed === null ? null : new Uint8Array(row.sealed)
  }
}

export function toReference(row: Selectable<ReferencesTable>): Reference {
  return {
    from: { kind: row.from_kind, id: row.from_id },
    field: row.field,
    to: { kind: row.to_kind, id: row.to_id },
    position: row.position
  }
}

/**
 * Whether both databases keep this text as it is. SQLite's driver cuts it at a NUL, PostgreSQL refuses one, and half a
 * surrogate pair has no UTF-8. An id that is not storable was never stored.
 */
export function storable(text: string): boolean {
  return !text.includes('\0') && !HALF_PAIR.test(text)
}

/** Text for people, made storable. */
export function printable(text: string): string {
  return text.replaceAll('\0', '\u{fffd}').replaceAll(HALF_PAIRS, '\u{fffd}')
}

/** A claimed value as it stands in the table: JSON text escapes exactly what the databases would alter. */
export function claimText(value: string): string {
  return JSON.stringify(value)
}

export function keyText(key: RecordKey): string {
  return JSON.stringify([key.kind, key.id])
}

/** Lists in pieces, because a statement takes a limited number of parameters. */
export function* pieces<T>(list: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < list.length; start += size) yield list.slice(start, start + size)
}

/** Ids by kind, each once, in the order of asking. */
export function idsByKind(keys: Iterable<RecordKey>): Map<string, string[]> {
  const sets = new Map<string, Set<string>>()
  for (const { kind, id } of keys) {
    const ids = sets.get(kind)
    if (ids === undefined) sets.set(kind, new Set([id]))
    else ids.add(id)
  }
  return new Map([...sets].map(([kind, ids]) => [kind, [...ids]]))
}
