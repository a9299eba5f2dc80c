import type { Kysely } from 'kysely'
import { idsByKind, keyText, pieces, storable, toRecord, toReference } from './queries.js'
import type { Claim, RecordKey, Reference, WholeRecord, WholeRequest } from './store.js'
import type { RecordsTable, Tables } from './tables.js'

const KEYS_PER_STATEMENT = 500

type Row = {
  [Column in keyof RecordsTable]: Column extends 'sealed' ? Uint8Array | ArrayBuffer | null : RecordsTable[Column]
}

/** Records with their references and claims, each of the three read by statements of its own. */
export async function wholeRecords(connection: Kysely<Tables>, request: WholeRequest): Promise<WholeRecord[]> {
  const rows = 'keys' in request ? await rowsOf(connection, request.keys) : await rowsAfter(connection, request)
  const references = new Map<string, Reference[]>()
  const claims = new Map<string, Claim[]>()
  for (const [kind, ids] of idsByKind(rows)) {
    for (const some of pieces(ids, KEYS_PER_STATEMENT)) {
      const held = await connection
        .selectFrom('references')
        .selectAll()
        .where('from_kind', '=', kind)
        .where('from_id', 'in', some)
        .orderBy('field')
        .orderBy('position')
        .execute()
      for (const row of held) add(references, keyText({ kind, id: row.from_id }), toReference(row))
      const taken = await connection
        .selectFrom('claims')
        .select(['space', 'value', 'id'])
        .where('kind', '=', kind)
        .where('id', 'in', some)
        .execute()
      for (const { id, space, value } of taken) {
        add(claims, keyText({ kind, id }), { space, value: JSON.parse(value) as string })
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
): Promise<Row[]> {
  let query = connection.selectFrom('records').selectAll()
  if (after !== undefined) {
    query = query.where(({ eb, refTuple, tuple }) => eb(refTuple('kind', 'id'), '>', tuple(after.kind, after.id)))
  }
  return await query.orderBy('kind').orderBy('id').limit(limit).execute()
}

async function rowsOf(connection: Kysely<Tables>, keys: readonly RecordKey[]): Promise<Row[]> {
  const rows: Row[] = []
  for (const [kind, ids] of idsByKind(keys)) {
    for (const some of pieces(ids.filter(storable), KEYS_PER_STATEMENT)) {
      const query = connection.selectFrom('records').selectAll().where('kind', '=', kind).where('id', 'in', some)
      rows.push(...(await query.execute()))
    }
  }
  return rows
}

function add<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}
