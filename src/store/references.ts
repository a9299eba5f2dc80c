import type { Kysely, Selectable } from 'kysely'
import { appendTo } from '../lib/lists.js'
import {
  claimText,
  idsByKind,
  KEYS_PER_STATEMENT,
  keyText,
  pieces,
  referencesOf,
  rowsOf,
  toRecord,
  toReference
} from './queries.js'
import type { Claim, KeptClaim, RecordKey, Reference, WholeRecord, WholeRequest } from './records.js'
import type { RecordsTable, Tables } from './tables.js'

/** Rows per statement, few enough that building it does not block the event loop. */
export const ROWS_PER_STATEMENT = 250
/** Claims per statement: SQLite accepts up to 1,000 nested conditions, one per claim. */
const CLAIMS_PER_RELEASE = 100

/** Deletes the references from these records. */
export async function clearReferences(trx: Kysely<Tables>, from: readonly RecordKey[]): Promise<void> {
  for (const [kind, ids] of idsByKind(from)) {
    for (const some of pieces(ids, ROWS_PER_STATEMENT)) {
      await trx.deleteFrom('references').where('from_kind', '=', kind).where('from_id', 'in', some).execute()
    }
  }
}

/** Adds references from records that have none in these fields; the order of each field is kept. */
export async function addReferences(
  trx: Kysely<Tables>,
  references: readonly Omit<Reference, 'position'>[]
): Promise<void> {
  const counts = new Map<string, number>()
  const rows = references.map(({ from, field, to }) => {
    const place = `${keyText(from)} ${field}`
    const position = counts.get(place) ?? 0
    counts.set(place, position + 1)
    return { from_kind: from.kind, from_id: from.id, field, position, to_kind: to.kind, to_id: to.id }
  })
  for (const some of pieces(rows, ROWS_PER_STATEMENT)) await trx.insertInto('references').values(some).execute()
}

/** Claims the free values. Returns the claims of pieces that were not completely free; the caller looks up the owners. */
export async function takeClaims(trx: Kysely<Tables>, claims: readonly KeptClaim[]): Promise<KeptClaim[]> {
  const untaken: KeptClaim[] = []
  for (const some of pieces(claims, ROWS_PER_STATEMENT)) {
    const rows = some.map(({ keeper: { kind, id }, space, value }) => ({ space, value: claimText(value), kind, id }))
    const result = await trx
      .insertInto('claims')
      .values(rows)
      .onConflict((conflict) => conflict.columns(['space', 'value']).doNothing())
      .executeTakeFirst()
    if (Number(result.numInsertedOrUpdatedRows) !== rows.length) untaken.push(...some)
  }
  return untaken
}

/** Releases values that their keepers hold. */
export async function releaseClaims(trx: Kysely<Tables>, claims: readonly KeptClaim[]): Promise<void> {
  for (const some of pieces(claims, CLAIMS_PER_RELEASE)) {
    await trx
      .deleteFrom('claims')
      .where(({ eb, and, or }) =>
        or(
          some.map(({ keeper: { kind, id }, space, value }) =>
            and([eb('space', '=', space), eb('value', '=', claimText(value)), eb('kind', '=', kind), eb('id', '=', id)])
          )
        )
      )
      .execute()
  }
}

/** Returns records with their references and claims, each read by separate statements. */
export async function wholeRecords(connection: Kysely<Tables>, request: WholeRequest): Promise<WholeRecord[]> {
  const rows = 'keys' in request ? await rowsOf(connection, request.keys) : await rowsAfter(connection, request)
  const references = new Map<string, Reference[]>()
  const claims = new Map<string, Claim[]>()
  for (const [kind, ids] of idsByKind(rows)) {
    for (const some of pieces(ids, KEYS_PER_STATEMENT)) {
      const held = referencesOf(connection, 'from', kind, some).orderBy('field').orderBy('position')
      for (const row of await held.execute()) appendTo(references, keyText({ kind, id: row.from_id }), toReference(row))
      const taken = await connection
        .selectFrom('claims')
        .select(['space', 'value', 'id'])
        .where('kind', '=', kind)
        .where('id', 'in', some)
        .execute()
      for (const { id, space, value } of taken) {
        appendTo(claims, keyText({ kind, id }), { space, value: JSON.parse(value) as string })
      }
    }
  }
  return rows.map((row) => ({
    ...toRecord({ ...row, body: 'null' }),
    body: row.body,
    references: (references.get(keyText(row)) ?? []).map(({ field, position, to }) => ({ field, position, to })),
    claims: claims.get(keyText(row)) ?? []
  }))
}

async function rowsAfter(
  connection: Kysely<Tables>,
  { after, limit }: Exclude<WholeRequest, { readonly keys: unknown }>
): Promise<Selectable<RecordsTable>[]> {
  let query = connection.selectFrom('records').selectAll()
  if (after !== undefined) {
    query = query.where(({ eb, refTuple, tuple }) => eb(refTuple('kind', 'id'), '>', tuple(after.kind, after.id)))
  }
  return await query.orderBy('kind').orderBy('id').limit(limit).execute()
}
