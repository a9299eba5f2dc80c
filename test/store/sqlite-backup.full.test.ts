import { readdir, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { SqliteHere } from '../../src/store/sqlite.js'
import { backUpSqlite, checkBackup, restoreSqlite, whileUnused } from '../../src/store/sqlite-backup.js'
import { folder, opened, operation, put } from './opened.js'
import { allWhole, startWriter } from './writing-process.js'

const ROUNDS = 25

t.test('a backup beside a process that writes is whole, each time', async (t) => {
  const at = await folder(t)
  const path = join(at, 'sluice.db')
  const writer = await startWriter(t, path)
  const writing = writer.killAfter(Number.POSITIVE_INFINITY)
  const revisions: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const to = join(at, `${round}.db`)
    const { revision } = backUpSqlite(path, to, [])
    const { store } = await opened(t, to)
    await allWhole(t, store, revision)
    await store.close()
    revisions.push(revision)
  }
  t.ok((revisions.at(-1) ?? 0) > (revisions[0] ?? 0), 'writes went on meanwhile')
  process.kill(writer.pid, 'SIGKILL')
  await writing
})

t.test('a store copies itself while it is used, a file and memory alike', async (t) => {
  const at = await folder(t)
  for (const address of [join(at, 'sluice.db'), ':memory:']) {
    const { store } = await opened(t, address)
    await put(store, 'edge', 'a')
    const to = join(at, `copy of ${address.slice(-4)}`)
    const copying = store.copyTo(to)
    const writing = put(store, 'edge', 'b')
    await Promise.all([copying, writing])
    t.equal((await stat(to)).mode & 0o777, 0o600)
    t.ok([1, 2].includes(checkBackup(to).revision))
    await t.rejects(store.copyTo(to), { code: 'STORE_UNAVAILABLE', message: /EEXIST/ }, 'nothing is replaced')
    await store.close()
    await t.rejects(store.copyTo(join(at, 'late')), { code: 'STORE_CLOSED' })
  }
})

t.test('what is restored is what was backed up, and nothing of the file before it', async (t) => {
  const at = await folder(t)
  const [path, backup] = [join(at, 'sluice.db'), join(at, 'backup.db')]
  const { store } = await opened(t, path)
  await put(store, 'edge', 'kept', { plain: 1 })
  await store.reportProcess({ id: 'proc_gone', appliedRevision: 1, lastError: null, divergedAt: null })
  const content = Buffer.from('key')
  t.match(backUpSqlite(path, backup, [{ name: 'seal.key', content }]), { revision: 1, files: [{ name: 'seal.key' }] })
  await put(store, 'edge', 'later')
  await t.rejects(
    whileUnused(path, async () => restoreSqlite(backup, path)),
    { code: 'STORE_LOCKED' }
  )
  await store.close()
  await whileUnused(path, async () => restoreSqlite(backup, path))
  const { store: restored } = await opened(t, path)
  t.equal(await restored.revision(), 1)
  t.match(await restored.list('edge', { limit: 9 }), { records: [{ id: 'kept', body: { plain: 1 } }], more: false })
  t.same(await restored.processes(), [], 'processes of the past are not there')
  await restored.close()
  t.notOk(checkBackup(path).files.length, 'no key stays in the database')
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.notOk((await readdir(at)).some((name) => name.includes('partial')))
})

t.test('a database that is damaged or not there can be replaced', async (t) => {
  const at = await folder(t)
  const [path, backup] = [join(at, 'sluice.db'), join(at, 'backup.db')]
  await (await opened(t, path)).store.close()
  backUpSqlite(path, backup, [])
  await writeFile(path, 'no database '.repeat(1000))
  await writeFile(`${path}-wal`, 'no journal '.repeat(1000))
  for (const target of [path, join(at, 'new', 'sluice.db')]) {
    await whileUnused(target, async () => restoreSqlite(backup, target))
    const { store } = await opened(t, target)
    t.equal(await store.revision(), 0)
    await store.close()
  }
})

t.test('what is no backup is refused', async (t) => {
  const at = await folder(t)
  const [path, half] = [join(at, 'sluice.db'), join(at, 'half.db')]
  const { store } = await opened(t, path)
  for (let round = 0; round < 20; round++) {
    await store.transact(operation(), (tx) => tx.insert({ kind: 'edge', id: `${round}`, body: 'x'.repeat(5000) }))
  }
  await store.close()
  backUpSqlite(path, half, [])
  await truncate(half, 60_000)
  t.throws(() => checkBackup(half), { code: 'STORE_FAILED', message: /half\.db/ })
  await writeFile(join(at, 'text'), 'text')
  t.throws(() => checkBackup(join(at, 'text')), {
    code: 'STORE_FAILED',
    message: /text is damaged, or no backup \(SQLITE_NOTADB\)/
  })
  await SqliteHere.open(join(at, 'empty.db')).close()
  t.throws(() => checkBackup(join(at, 'empty.db')), { code: 'STORE_FAILED', message: /holds no records of Sluice/ })
  t.throws(() => backUpSqlite(join(at, 'empty.db'), join(at, 'to.db'), []), { code: 'STORE_FAILED' })
  t.throws(() => backUpSqlite(path, join(at, 'missing', 'to.db'), []), { code: 'STORE_UNAVAILABLE' })
  t.notOk(
    (await readdir(at)).some((name) => name.includes('partial') || name === 'to.db'),
    'nothing half is left'
  )
})
