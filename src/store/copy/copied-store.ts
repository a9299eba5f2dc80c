import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../lib/clock.js'
import { KyselyStore } from '../kysely-store.js'
import { migrate } from '../migrations.js'
import { claimText, keyText, pieces } from '../queries.js'
import type { WholeRecord } from '../records.js'
import { SqliteHere, sqliteDatabase } from '../sqlite.js'
import { IN_MEMORY } from '../sqlite-protocol.js'
import type { Place, Store, StoreLog } from '../store.js'
import type { Database } from '../tables.js'
import { type CopyEnd, type CopyPlace, readCopy } from './copy-file.js'

/** Rows per statement, few enough not to block the event loop. */
const ROWS_PER_STATEMENT = 200

/** Copy opened as an in-memory store with a single revision. */
export interface CopiedStore {
  readonly store: Store
  readonly place: Place
}

/** Opens a copy. Fails as `readCopy` does. */
export async function openCopy(
  at: CopyPlace,
  parts: { readonly log: StoreLog; readonly clock: Clock }
): Promise<CopiedStore> {
  const { records, end } = await readWhole(at)
  const database = sqliteDatabase(IN_MEMORY, SqliteHere.open(IN_MEMORY))
  await migrate(database)
  await fill(database, records, end)
  const store = new KyselyStore(database, {
    ...parts,
    onCommit: () => undefined,
    onClose: () => Promise.resolve()
  })
  return { store, place: end.place }
}

async function readWhole(at: CopyPlace): Promise<{ records: WholeRecord[]; end: CopyEnd }> {
  const records = new Map<string, WholeRecord>()
  for await (const part of readCopy(at)) {
    if ('end' in part) return { records: [...records.values()], end: part.end }
    if ('gone' in part) for (const key of part.gone) records.delete(keyText(key))
    else for (const record of part.records) records.set(keyText(record), record)
  }
  throw new RangeError('a copy without an end')
}

async function fill({ writes }: Database, records: readonly WholeRecord[], end: CopyEnd): Promise<void> {
  const { place, at, detail, account } = end
  await writes.transaction().execute(async (trx) => {
    for (const some of pieces(records, ROWS_PER_STATEMENT)) {
      const rows = some.map(({ kind, id, sequence, revision, createdAt, body, sealed }) => {
        return { kind, id, sequence, revision, created_at: createdAt, body, sealed }
      })
      await trx.insertInto('records').values(rows).execute()
      await nextTurn()
    }
    for (const some of pieces(records, ROWS_PER_STATEMENT)) {
      const references = some.flatMap(({ kind, id, references }) =>
        references.map(({ field, position, to }) => {
          return { from_kind: kind, from_id: id, field, position, to_kind: to.kind, to_id: to.id }
        })
      )
      for (const rows of pieces(references, ROWS_PER_STATEMENT)) {
        await trx.insertInto('references').values(rows).execute()
      }
      const claims = some.flatMap(({ kind, id, claims }) =>
        claims.map(({ space, value }) => ({ space, value: claimText(value), kind, id }))
      )
      for (const rows of pieces(claims, ROWS_PER_STATEMENT)) await trx.insertInto('claims').values(rows).execute()
      await nextTurn()
    }
    const { revision, mark } = place
    if (mark !== undefined) {
      const row = { revision, operation_id: mark, at, detail: JSON.stringify(detail) }
      await trx.insertInto('revisions').values(row).execute()
    }
    const history_from = mark === undefined ? revision + 1 : revision
    await trx.updateTable('meta').set({ revision, history_from, account_id: account }).execute()
  })
}
