import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../src/lib/clock.js'
import { openStore } from '../../src/store/open-store.js'
import { openDatabase } from '../../src/store/sqlite-driver.js'

const QUIET = { info: () => undefined, warn: () => undefined }
const open = (path: string) => openStore(path, { log: QUIET, clock: systemClock, onRevision: () => undefined })

t.test('another process has the file for a while; what needs it waits', async (t) => {
  const path = join(t.testdir(), 'sluice.db')
  const store = await open(path)
  t.teardown(() => store.close())
  await t.rejects(open(path), { code: 'STORE_LOCKED' })
  const away = await store.giveAway()
  const other = await open(path)
  const write = store.transact('op_1', async (tx) => void (await tx.insert({ ...RECORD, id: 'v_1' })))
  const read = store.revision()
  await other.transact('op_2', async (tx) => void (await tx.insert({ ...RECORD, id: 'v_2' })))
  await t.rejects(away?.back() as Promise<void>, { code: 'STORE_LOCKED' })
  await other.close()
  await away?.back()
  t.ok((await read) >= 1)
  t.equal((await write).revision, 2)
  t.ok(await store.get('vault', 'v_2'))
})

t.test('a store that is closed while another process has it fails what waits', async (t) => {
  const path = join(t.testdir(), 'sluice.db')
  const store = await open(path)
  await store.giveAway()
  const waiting: Promise<unknown>[] = [store.revision(), store.transact('op_1', async () => undefined)]
  const failed = Promise.all(waiting.map((one) => t.rejects(one, { code: 'STORE_CLOSED' })))
  await store.close()
  await failed
  await (await open(path)).close()
})

t.test('what a newer version has made of the schema is undone', async (t) => {
  const folder = t.testdir()
  const path = join(folder, 'sluice.db')
  const store = await open(path)
  t.teardown(() => store.close())
  await store.transact('op_1', async (tx) => void (await tx.insert({ ...RECORD, id: 'v_1' })))
  const copy = join(folder, 'before')
  await store.copyTo(copy)
  const away = await store.giveAway()
  const database = openDatabase(path)
  database.pragma('busy_timeout = 5000')
  database.exec('create table something_new (one integer); update meta set schema_version = 1000')
  database.close()
  await t.rejects(open(path), { code: 'STORE_SCHEMA_NEWER' })
  await away?.back(copy)
  t.ok(await store.get('vault', 'v_1'))
  t.equal((await store.transact('op_2', async (tx) => void (await tx.insert({ ...RECORD, id: 'v_2' })))).revision, 2)
})

const RECORD = { kind: 'vault', body: {} }
