import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { checkBackup } from '../../../src/store/sqlite-backup.js'
import { asker } from '../../api/asking.js'
import { API_KEY, startSluice } from '../../helpers/sluice.js'
import { opened } from '../../store/opened.js'
import { startPostgres } from '../../store/postgres-server.js'

const get = (port: number, key: string) =>
  fetch(`http://127.0.0.1:${port}/backup`, {
    headers: { authorization: `Bearer ${key}`, 'service-version': '2', connection: 'close' }
  })

t.test('administrators get a consistent copy while others write', async (t) => {
  const at = t.testdir()
  const data = join(at, 'data')
  const sluice = await startSluice(t, { options: { DATA: data, API_RATE_LIMIT: 'off' } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  let stopped = false
  let made = 0
  const writing = (async () => {
    while (!stopped) {
      const { status } = await ask('/edges/https', { key: API_KEY, method: 'POST', body: {} })
      if (status === 201) made++
    }
  })()
  for (let round = 0; round < 10; round++) {
    const before = made
    const answer = await get(sluice.apiPort, API_KEY)
    t.equal(answer.status, 200)
    const bytes = Buffer.from(await answer.arrayBuffer())
    t.equal(answer.headers.get('content-length'), String(bytes.length))
    t.match(answer.headers.get('content-disposition'), /attachment; filename=".*\.db"/)
    const file = join(at, `${round}.db`)
    await writeFile(file, bytes)
    t.same(checkBackup(file).files, [], 'without any key')
    const { store } = await opened(t, file)
    let edges = 0
    for (const { kind, operation } of (await store.changesAfter(0)).changes) {
      if (kind === 'https_edge' && operation === 'insert') edges++
    }
    const kept = (await store.list('https_edge', { limit: 10_000 }))?.records.length
    t.equal(kept, edges, 'records and history are of one moment')
    t.ok(edges >= before, 'what was acknowledged before is in it')
    await store.close()
  }
  stopped = true
  await writing
  t.ok(made > 0)
  t.notOk(
    (await readdir(data)).some((name) => name.includes('partial')),
    'no copy stays behind'
  )
})

t.test('nobody else does', async (t) => {
  const { apiPort } = await startSluice(t)
  const ask = asker('127.0.0.1', apiPort)
  const bot = (await ask('/bot_users', { key: API_KEY, method: 'POST', body: { name: 'b' } })).json
  const key = (await ask('/api_keys', { key: API_KEY, method: 'POST', body: { owner_id: bot.id } })).json
  t.match(await ask('/backup', { key: key.token }), { status: 403, json: { error_code: 'ERR_SLUICE_ADMIN_REQUIRED' } })
  t.equal((await ask('/backup', { key: 'no-key-of-anybody' })).status, 401)
  t.equal((await ask('/backup?with_keys=true', { key: API_KEY })).status, 400)
  const inMemory = await get(apiPort, API_KEY)
  t.match(await inMemory.text(), /^SQLite format 3/, 'a store in memory has a backup too')
})

t.test('on PostgreSQL it says what to use', async (t) => {
  const server = await startPostgres(t)
  const { apiPort } = await startSluice(t, { options: { STORE: await server.database(), DATA: t.testdir() } })
  t.match(await asker('127.0.0.1', apiPort)('/backup', { key: API_KEY }), {
    status: 409,
    json: { error_code: 'ERR_SLUICE_BACKUP_UNSUPPORTED', msg: /pg_dump/ }
  })
})
