import { sql } from 'kysely'
import type { Test as TapTest } from 'tap'
import { migrate, SCHEMA_VERSION } from '../../src/store/migrations.js'
import type { Database } from '../../src/store/tables.js'
import { over, put } from './opened.js'

/** What every database does on its way to the present schema. `open` makes one that holds nothing. */
export function migrationSuite(t: TapTest, open: (t: TapTest) => Promise<Database>): void {
  t.test('every earlier schema becomes the present one and keeps its records', async (t) => {
    const model = await open(t)
    await migrate(model)
    const shape = await shapeOf(model)
    t.ok(JSON.stringify(shape).includes('history_from'))
    for (let version = 1; version < SCHEMA_VERSION; version++) {
      const database = await open(t)
      t.same(await migrate(database, version), { from: 0, to: version })
      const old = sql`insert into records (kind, id, sequence, revision, created_at, body) values ('edge', 'old', 7, 9, 5, '1')`
      await old.execute(database.writes)
      await sql`update meta set revision = 9, sequence = 7`.execute(database.writes)
      t.same(await migrate(database), { from: version, to: SCHEMA_VERSION })
      t.same(await shapeOf(database), shape)
      t.same(await migrate(database), { from: SCHEMA_VERSION, to: SCHEMA_VERSION }, 'a second start changes nothing')
      const { store } = over(database)
      t.equal(await put(store, 'edge', 'new'), 10)
      t.match((await store.list('edge', { limit: 9 }))?.records, [{ sequence: 8 }, { id: 'old', body: 1 }])
    }
  })

  t.test('a newer schema is refused, at the start and when it comes later', async (t) => {
    const database = await open(t)
    await migrate(database)
    const { store } = over(database)
    await put(store, 'edge', 'a')
    await database.writes
      .updateTable('meta')
      .set({ schema_version: SCHEMA_VERSION + 1 })
      .execute()
    const newer = { code: 'STORE_SCHEMA_NEWER', message: new RegExp(`version ${SCHEMA_VERSION + 1}`) }
    await t.rejects(migrate(database), newer)
    await t.rejects(put(store, 'edge', 'b'), newer)
    t.same(
      (await store.list('edge', { limit: 9 }))?.records.map(({ id }) => id),
      ['a'],
      'nothing was touched'
    )
  })

  t.test('a migration that fails leaves the schema that was', async (t) => {
    const database = await open(t)
    await migrate(database, 1)
    const before = await shapeOf(database)
    await sql`create table processes (mine integer)`.execute(database.writes)
    await t.rejects(migrate(database), { code: 'STORE_FAILED' })
    await sql`drop table processes`.execute(database.writes)
    t.same(await shapeOf(database), before)
    t.same(await migrate(database), { from: 1, to: SCHEMA_VERSION })
  })
}

async function shapeOf(database: Database) {
  const tables = await database.writes.introspection.getTables()
  const shape = tables.map(({ name, columns }) => [
    name,
    columns.map((column) => [column.name, column.dataType, column.isNullable]).sort()
  ])
  return shape.sort()
}
