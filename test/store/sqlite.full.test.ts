import { link, mkdir, open, readFile, rename, stat, symlink, truncate, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sql } from 'kysely'
import Libsql from 'libsql'
import t from 'tap'
import { migrate } from '../../src/store/migrations.js'
import { openSqlite, SqliteHere, sqliteDatabase } from '../../src/store/sqlite.js'
import { migrationSuite } from './migration-suite.js'
import { folder, opened, operation, over, put, type Test } from './opened.js'
import { storeSuite } from './suite.js'
import { allWhole, startWriter } from './writing-process.js'

const place = async (t: Test) => join(await folder(t), 'made', 'sluice.db')

/** A file on this thread: the store thread takes seconds to start where sources run as they are. */
const fileHere = async (t: Test) => {
  const path = await place(t)
  const database = sqliteDatabase(path, SqliteHere.open(path))
  t.teardown(() => database.close())
  return database
}

t.test('a file that ends before its last page, and one of another program, are no stores', async (t) => {
  const path = await place(t)
  const { store } = await opened(t, path)
  await put(store, 'edge', 'a')
  await store.close()
  const folded = new Libsql(path)
  folded.pragma('wal_checkpoint(TRUNCATE)')
  folded.pragma('journal_mode = DELETE')
  folded.close()
  const whole = await readFile(path)
  t.ok(whole.length > 3 * 4096)
  for (const size of [whole.length - 1, whole.length - 4096, 4096, 100]) {
    await writeFile(path, whole.subarray(0, size))
    await t.rejects(openSqlite(path), {
      code: 'STORE_FAILED',
      message: /the file is damaged.*sluice restore/
    })
    t.equal((await readFile(path)).length, size, 'it stays as it is')
  }
  for (const size of [1, 99]) {
    await writeFile(path, whole.subarray(0, size))
    await t.rejects(openSqlite(path), { code: 'STORE_FAILED' }, `${size}`)
  }
  await writeFile(path, 'x'.repeat(whole.length))
  await t.rejects(openSqlite(path), { code: 'STORE_FAILED', message: /no SQLite database/ })
  await writeFile(path, whole)
  const again = await opened(t, path)
  t.equal(await again.store.revision(), 1, 'a whole one is')

  const foreign = join(dirname(path), 'other.db')
  const other = new Libsql(foreign)
  other.exec('create table customers (id integer)')
  other.close()
  await t.rejects(openSqlite(foreign), { code: 'STORE_FAILED', message: /a database of another program/ })
})

t.test('nothing is acknowledged into a file that was deleted, emptied or replaced', async (t) => {
  const others: Record<string, (path: string) => Promise<void>> = {
    deleted: (path) => unlink(path),
    emptied: (path) => truncate(path),
    replaced: async (path) => {
      await writeFile(`${path}.new`, 'x')
      await rename(`${path}.new`, path)
    }
  }
  for (const [what, damage] of Object.entries(others)) {
    const path = await place(t)
    await (await opened(t, path)).store.close()
    const { store } = await opened(t, path)
    await put(store, 'edge', 'a')
    const gone = { code: 'STORE_UNAVAILABLE', trouble: 'gone', message: new RegExp(`sluice\\.db was ${what} while`) }
    // Between the beginning of a transaction and its end: what counts is the file at the commit.
    await t.rejects(
      store.transact(operation(), async (tx) => {
        await tx.insert({ kind: 'edge', id: 'b', body: {} })
        await damage(path)
      }),
      gone
    )
    await t.rejects(put(store, 'edge', 'c'), gone)
    await t.rejects(store.revision(), gone)
  }
})

t.test('a file that is damaged while it is open is known as that', async (t) => {
  const path = await place(t)
  await (await opened(t, path)).store.close()
  const { store } = await opened(t, path)
  const file = await open(path, 'r+')
  await file.write(Buffer.alloc(200_000, 'x'), 0, 200_000, 0)
  await file.close()
  const damaged = { code: 'STORE_FAILED', message: /the file is damaged/ }
  await t.rejects(store.wholeRecords({ after: undefined, limit: 10 }), Object.assign(damaged, { trouble: 'damaged' }))
})

t.test('a file in the store thread', async (t) => {
  const path = await place(t)
  const database = await openSqlite(path)
  t.teardown(() => database.close())
  await migrate(database)

  t.test('only this user reads the file', async (t) => {
    for (const name of [path, `${path}-wal`]) t.equal((await stat(name)).mode & 0o777, 0o600, name)
  })

  t.test('a second opening is refused, and names who has it', async (t) => {
    const refusal = { code: 'STORE_LOCKED', message: new RegExp(`${path}.*process ${process.pid} on`) }
    await t.rejects(openSqlite(path), refusal)
    t.throws(() => SqliteHere.open(path), refusal)
  })

  t.test('whatever name leads to the file', async (t) => {
    const beside = await folder(t)
    await symlink(path, join(beside, 'link.db'))
    await symlink(dirname(path), join(beside, 'folder'))
    for (const name of ['link.db', join('folder', 'sluice.db')]) {
      const refusal = { code: 'STORE_LOCKED', message: new RegExp(`process ${process.pid} on`) }
      t.throws(() => SqliteHere.open(join(beside, name)), refusal, name)
    }
  })

  t.test('the main thread goes on while the file is busy', async (t) => {
    const { store } = over(database)
    const other = new Libsql(path)
    other.exec('begin immediate')
    const write = put(store, 'edge', 'a')
    // The store thread now waits for this very thread: a write that ran here could only fail.
    await new Promise((resolve) => setImmediate(resolve))
    other.exec('rollback')
    other.close()
    t.equal(await write, 1)
  })

  t.test('what goes wrong in the thread arrives here', async (t) => {
    await t.rejects(sql`select nonsense`.execute(database.reads), { code: 'STORE_FAILED', message: /no such column/ })
    await t.rejects(
      database.reads.transaction().execute(() => Promise.resolve()),
      /no transactions/
    )
  })

  await storeSuite(t, database, true)

  t.test('closed, the file is free', async (t) => {
    const again = SqliteHere.open(path)
    await again.close()
    t.pass()
  })
})

t.test('memory', async (t) => {
  const database = sqliteDatabase(':memory:', SqliteHere.open(':memory:'))
  await migrate(database)
  await storeSuite(t, database, false)
})

t.test('migrations', async (t) => migrationSuite(t, fileHere))

t.test('opening by path and in memory', async (t) => {
  const first = await opened(t, ':memory:')
  const second = await opened(t, ':memory:')
  await put(first.store, 'edge', 'a')
  t.equal(await second.store.revision(), 0, 'each memory is its own')
  t.match(first.log.texts, [/"from":0/])
})

t.test('what cannot be opened says why and leaves no lock', async (t) => {
  const path = join(await folder(t), 'text.db')
  await writeFile(path, 'this is no database, and it is long enough to be read as the head of one '.repeat(20))
  const damaged = { code: 'STORE_FAILED', message: /text\.db: .*SQLITE_NOTADB/ }
  t.throws(() => SqliteHere.open(path), damaged)
  t.throws(() => SqliteHere.open(path), damaged, 'the lock is free again')
  t.throws(() => SqliteHere.open(join(path, 'below.db')), { code: 'STORE_UNAVAILABLE' })
})

t.test('a link to a file that is to come makes that file', async (t) => {
  const at = await folder(t)
  await mkdir(join(at, 'there'))
  await symlink(join('there', 'sluice.db'), join(at, 'link.db'))
  const executor = SqliteHere.open(join(at, 'link.db'))
  t.throws(() => SqliteHere.open(join(at, 'there', 'sluice.db')), { code: 'STORE_LOCKED' })
  await executor.close()
})

t.test('a file with two names is refused, because only one of them leads to its journal', async (t) => {
  const at = await folder(t)
  const [path, second] = [join(at, 'sluice.db'), join(at, 'second.db')]
  await SqliteHere.open(path).close()
  await link(path, second)
  for (const name of [path, second]) {
    t.throws(() => SqliteHere.open(name), { code: 'STORE_FAILED', message: /hard link.*make a copy/ })
  }
  await unlink(second)
  await SqliteHere.open(path).close()
})

t.test('a full disk fails the write, keeps the rest, and heals', async (t) => {
  const database = await fileHere(t)
  await migrate(database)
  const { store } = over(database)
  await put(store, 'edge', 'a')
  const pages = await sql<{ page_count: number }>`pragma page_count`.execute(database.writes)
  await sql.raw(`pragma max_page_count = ${(pages.rows[0]?.page_count ?? 0) + 2}`).execute(database.writes)
  const large = { kind: 'edge', id: 'large', body: 'x'.repeat(100_000) }
  await t.rejects(
    store.transact(operation(), (transaction) => transaction.insert(large)),
    { code: 'STORE_UNAVAILABLE' }
  )
  const careless = store.transact(operation(), async (transaction) => {
    await transaction.insert({ kind: 'edge', id: 'half', body: 0 })
    await t.rejects(transaction.insert(large), { code: 'STORE_UNAVAILABLE', message: /SQLITE_FULL/ })
    await transaction.insert({ kind: 'edge', id: 'other half', body: 0 })
  })
  await t.rejects(careless, { code: 'STORE_UNAVAILABLE' }, 'work that looks away from the failure cannot commit')
  t.same(
    (await store.list('edge', { limit: 9 }))?.records.map(({ id }) => id),
    ['a']
  )
  await sql.raw('pragma max_page_count = 100000').execute(database.writes)
  await store.transact(operation(), (transaction) => transaction.insert(large))
  t.equal((await store.list('edge', { limit: 9 }))?.records.length, 2)
  t.equal(await store.revision(), 2)
})

t.test('kill -9 in the middle of writing keeps what was acknowledged', async (t) => {
  const path = await place(t)
  const writer = await startWriter(t, path)
  t.throws(() => SqliteHere.open(path), { code: 'STORE_LOCKED', message: new RegExp(`process ${writer.pid} on`) })
  const acknowledged = await writer.killAfter(60)
  const executor = SqliteHere.open(path)
  t.teardown(() => executor.close())
  const { store } = over(sqliteDatabase(path, executor))
  await allWhole(t, store, acknowledged)
  const check = new Libsql(path)
  t.match(check.pragma('integrity_check'), [{ integrity_check: 'ok' }])
  check.close()
})
