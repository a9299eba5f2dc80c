import type { Kysely, Selectable } from 'kysely'
import type { Json } from '../lib/json.js'
import { addTo } from '../lib/lists.js'
import type { Change, Claim, RecordKey, Reference, StoredRecord } from './records.js'
import type { ChangeFeed, Page, PageRequest, Place, Position, StoreReader, WantedChanges } from './store.js'
import type { RecordsTable, ReferencesTable, Tables } from './tables.js'

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
 * Returns true if both databases store the text unchanged. SQLite's driver truncates at NUL, PostgreSQL rejects it, and a lone surrogate
 * has no UTF-8 form. An id that is not storable does not exist.
 */
export function storable(text: string): boolean {
  return !text.includes('\0') && !HALF_PAIR.test(text)
}

/** Makes a text for people storable. */
export function printable(text: string): string {
  return text.replaceAll('\0', '\u{fffd}').replaceAll(HALF_PAIRS, '\u{fffd}')
}

/** Encodes a claimed value for the table: JSON escapes exactly the characters that the databases would change. */
export function claimText(value: string): string {
  return JSON.stringify(value)
}

/** Returns a unique text for a key, for maps and sets. */
export function keyText(key: RecordKey): string {
  return JSON.stringify([key.kind, key.id])
}

/** Splits a list, because the parameters of a statement are limited. */
export function* pieces<T>(list: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < list.length; start += size) yield list.slice(start, start + size)
}

/** Groups ids by kind, each once, in the given order. */
export function idsByKind(keys: Iterable<RecordKey>): Map<string, string[]> {
  const sets = new Map<string, Set<string>>()
  for (const { kind, id } of keys) addTo(sets, kind, id)
  return new Map([...sets].map(([kind, ids]) => [kind, [...ids]]))
}

/** Ids per statement, few enough not to block the event loop. */
export const KEYS_PER_STATEMENT = 500
/** Changes per statement, few enough not to block the event loop. */
const CHANGES_PER_STATEMENT = 500

/** End of one part of the changes. */
interface End {
  readonly revision: number
  readonly position: number
}

/** Read queries on any connection, of the store or of a transaction. */
export class Queries implements StoreReader {
  readonly #connection: () => Kysely<Tables>

  /** `connection` is called before each read, so that it can refuse. */
  constructor(connection: () => Kysely<Tables>) {
    this.#connection = connection
  }

  async get(kind: string, id: string): Promise<StoredRecord | undefined> {
    if (!storable(id)) return undefined
    const row = await this.#connection()
      .selectFrom('records')
      .selectAll()
      .where('kind', '=', kind)
      .where('id', '=', id)
      .executeTakeFirst()
    return row === undefined ? undefined : toRecord(row)
  }

  async kinds(): Promise<string[]> {
    const rows = await this.#connection().selectFrom('records').select('kind').distinct().orderBy('kind').execute()
    return rows.map(({ kind }) => kind)
  }

  async getMany(keys: readonly RecordKey[]): Promise<StoredRecord[]> {
    return (await rowsOf(this.#connection(), keys)).map(toRecord)
  }

  async list(kind: string, request: PageRequest): Promise<Page | undefined> {
    const { limit, before, referring } = request
    const place = typeof before === 'string' ? await this.#placeOf(kind, before) : before
    if (before !== undefined && place === undefined) return undefined
    if (referring !== undefined && !storable(referring.to.id)) return { records: [], more: false }
    let query = this.#rows(kind, referring)
    if (place !== undefined) {
      query = query.where(({ eb, refTuple, tuple }) =>
        eb(refTuple('created_at', 'sequence'), '<', tuple(place.createdAt, place.sequence))
      )
    }
    const ordered = query.orderBy('created_at', 'desc').orderBy('sequence', 'desc')
    const rows = await ordered.limit(limit + 1).execute()
    const page = { records: rows.slice(0, limit).map(toRecord), more: rows.length > limit }
    return typeof before === 'string' && place !== undefined ? { ...page, before: place } : page
  }

  async referencesTo(kind: string, id: string, limit?: number): Promise<Reference[]> {
    if (!storable(id)) return []
    let query = referencesOf(this.#connection(), 'to', kind, [id])
    if (limit !== undefined) query = query.limit(limit)
    return (await query.execute()).map(toReference)
  }

  async referencesToAny(kind: string, ids: readonly string[]): Promise<Reference[]> {
    const found: Reference[] = []
    for (const some of pieces([...new Set(ids.filter(storable))], KEYS_PER_STATEMENT)) {
      const query = referencesOf(this.#connection(), 'to', kind, some)
      for (const row of await query.execute()) found.push(toReference(row))
    }
    return found
  }

  async referencesFrom(kind: string, id: string): Promise<Reference[]> {
    if (!storable(id)) return []
    const query = referencesOf(this.#connection(), 'from', kind, [id])
    return (await query.orderBy('field').orderBy('position').execute()).map(toReference)
  }

  async keeperOf(space: string, value: string): Promise<RecordKey | undefined> {
    return await this.#connection()
      .selectFrom('claims')
      .select(['kind', 'id'])
      .where('space', '=', space)
      .where('value', '=', claimText(value))
      .executeTakeFirst()
  }

  async keeperIn(space: string): Promise<RecordKey | undefined> {
    return await this.#connection()
      .selectFrom('claims')
      .select(['kind', 'id'])
      .where('space', '=', space)
      .orderBy('value')
      .limit(1)
      .executeTakeFirst()
  }

  async claimsOf(kind: string, id: string): Promise<Claim[]> {
    if (!storable(id)) return []
    const query = this.#connection()
      .selectFrom('claims')
      .select(['space', 'value'])
      .where('kind', '=', kind)
      .where('id', '=', id)
    const rows = await query.execute()
    return rows.map(({ space, value }) => ({ space, value: JSON.parse(value) as string }))
  }

  async changesAfter(after: Place | number, { limit, kinds }: WantedChanges = {}): Promise<ChangeFeed> {
    const { revision, mark } = typeof after === 'number' ? { revision: after, mark: undefined } : after
    const first = await this.#firstChanges(revision, limit ?? CHANGES_PER_STATEMENT, kinds)
    const diverged =
      revision > first.place.revision || (mark !== undefined && first.mark !== undefined && first.mark !== mark)
    const { place, changes, more, from, end } = first
    const feed = { diverged, revision: place.revision, place }
    if (diverged || revision + 1 < from || (more && limit !== undefined))
      return { ...feed, complete: false, changes: [] }
    if (!more) return { ...feed, complete: true, changes }
    for await (const some of this.#changesFrom(end, place.revision, kinds))
      for (const change of some) changes.push(change)
    // Several statements do not share one snapshot: the history must still be the one at the start.
    const now = await this.#firstChanges(place.revision, 1)
    const same =
      now.from <= revision + 1 && (now.mark ?? place.mark) === place.mark && now.place.revision >= place.revision
    return same ? { ...feed, complete: true, changes } : { ...feed, complete: false, changes: [] }
  }

  /**
   * Returns what the history has about a revision, and the first changes after it. One statement, so that it sees one state: complete
   * revisions only. Two ranges instead of a join of revisions with changes, for which SQLite would index all changes each time.
   */
  async #firstChanges(revision: number, limit: number, kinds?: readonly string[]) {
    const rows = await this.#connection()
      .selectFrom('meta')
      .leftJoin(
        (of) =>
          of
            .selectFrom('changes')
            .selectAll()
            .where('revision', '>', revision)
            .$if(kinds !== undefined, (some) => some.where('kind', 'in', kinds ?? []))
            .orderBy('revision')
            .orderBy('position')
            .limit(limit + 1)
            .as('next'),
        (join) => join.onTrue()
      )
      .select((of) => [
        'meta.history_from',
        of.selectFrom('revisions').select(of.fn.max('revision').as('last')).as('last'),
        of.selectFrom('revisions').select('operation_id').orderBy('revision', 'desc').limit(1).as('last_mark'),
        of.selectFrom('revisions').select('operation_id').where('revision', '=', revision).as('known_mark'),
        'next.revision',
        'next.position',
        'next.kind',
        'next.id',
        'next.operation'
      ])
      .orderBy('next.revision')
      .orderBy('next.position')
      .execute()
    const [first] = rows
    const changes: Change[] = []
    let end: End | undefined
    for (const { revision: at, position, kind, id, operation } of rows.slice(0, limit)) {
      if (at !== null && position !== null && kind !== null && id !== null && operation !== null) {
        changes.push({ revision: at, kind, id, operation })
        end = { revision: at, position }
      }
    }
    const from = first?.history_from ?? 0
    // A last revision without a row is the last of the deleted ones.
    const place: Place = { revision: first?.last ?? Math.max(0, from - 1), mark: first?.last_mark ?? undefined }
    return { place, from, mark: first?.known_mark ?? undefined, changes, end, more: rows.length > limit }
  }

  /** Yields the changes between a place and a revision in parts. */
  async *#changesFrom(
    start: End | undefined,
    last: number,
    kinds: readonly string[] | undefined
  ): AsyncGenerator<readonly Change[]> {
    for (let end = start; end !== undefined; ) {
      const { revision, position } = end
      const rows = await this.#connection()
        .selectFrom('changes')
        .select(['revision', 'position', 'kind', 'id', 'operation'])
        .where(({ eb, refTuple, tuple }) => eb(refTuple('revision', 'position'), '>', tuple(revision, position)))
        .where('revision', '<=', last)
        .$if(kinds !== undefined, (some) => some.where('kind', 'in', kinds ?? []))
        .orderBy('revision')
        .orderBy('position')
        .limit(CHANGES_PER_STATEMENT)
        .execute()
      yield rows.map(({ position: _, ...change }) => change)
      end = rows.length < CHANGES_PER_STATEMENT ? undefined : rows.at(-1)
    }
  }

  async placeOf(revision: number): Promise<Place> {
    const query = this.#connection().selectFrom('revisions').select('operation_id').where('revision', '=', revision)
    return { revision, mark: (await query.executeTakeFirst())?.operation_id }
  }

  /** Returns the place of the last committed revision in one statement. Not for transactions, whose own revision has no place yet. */
  async lastPlace(): Promise<Place> {
    const row = await this.#connection()
      .selectFrom('meta')
      .leftJoin('revisions', 'revisions.revision', 'meta.revision')
      .select(['meta.revision', 'revisions.operation_id'])
      .executeTakeFirstOrThrow()
    return { revision: row.revision, mark: row.operation_id ?? undefined }
  }

  async revision(): Promise<number> {
    const row = await this.#connection().selectFrom('meta').select('revision').executeTakeFirstOrThrow()
    return row.revision
  }

  /**
   * Returns records, optionally only those that refer to one. These are looked up by their keys before sorting; otherwise both databases
   * would scan all records of the kind because of the order.
   */
  #rows(kind: string, referring: PageRequest['referring']) {
    const connection = this.#connection()
    if (referring === undefined) return connection.selectFrom('records as shown').selectAll().where('kind', '=', kind)
    const { field, to } = referring
    return connection
      .with(
        (name) => name('found').materialized(),
        (db) =>
          db
            .selectFrom((of) =>
              of
                .selectFrom('references')
                .select('from_id')
                .distinct()
                .where('to_kind', '=', to.kind)
                .where('to_id', '=', to.id)
                .where('from_kind', '=', kind)
                .where('field', '=', field)
                .as('named')
            )
            // SQLite preserves the order of a cross join.
            .crossJoin('records')
            .where('records.kind', '=', kind)
            .whereRef('records.id', '=', 'named.from_id')
            .selectAll('records')
      )
      .selectFrom('found as shown')
      .selectAll()
  }

  async #placeOf(kind: string, id: string): Promise<Position | undefined> {
    if (!storable(id)) return undefined
    for (const table of ['records', 'tombstones'] as const) {
      const row = await this.#connection()
        .selectFrom(table)
        .select(['created_at', 'sequence'])
        .where('kind', '=', kind)
        .where('id', '=', id)
        .executeTakeFirst()
      if (row !== undefined) return { createdAt: row.created_at, sequence: row.sequence }
    }
    return undefined
  }
}

/** Rows of these records, whatever their order; ids that cannot be stored have none. */
export async function rowsOf(
  connection: Kysely<Tables>,
  keys: readonly RecordKey[]
): Promise<Selectable<RecordsTable>[]> {
  const rows: Selectable<RecordsTable>[] = []
  for (const [kind, ids] of idsByKind(keys)) {
    for (const some of pieces(ids.filter(storable), KEYS_PER_STATEMENT)) {
      const query = connection.selectFrom('records').selectAll().where('kind', '=', kind).where('id', 'in', some)
      rows.push(...(await query.execute()))
    }
  }
  return rows
}

/** References with one of these records, at most KEYS_PER_STATEMENT, at this end. */
export function referencesOf(connection: Kysely<Tables>, end: 'from' | 'to', kind: string, ids: readonly string[]) {
  return connection.selectFrom('references').selectAll().where(`${end}_kind`, '=', kind).where(`${end}_id`, 'in', ids)
}
