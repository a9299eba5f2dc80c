import { join } from 'node:path'
import t from 'tap'
import { openSqlite } from '../../src/store/sqlite.js'
import { manySecrets, sealerIn, withStore } from '../capabilities/transfer/transfer-stand.js'
import { idOf } from '../resources/bench.js'
import { started } from './keyed-process.js'

t.test('one record that does not open is named, and everything else works', async (t) => {
  const cwd = t.testdir()
  const data = join(cwd, 'data')
  const path = join(data, 'sluice.db')
  await withStore(t, path, async (store) => manySecrets(store, await sealerIn(data), 3))
  const made = await started(t, cwd)
  const target = { webhook: { url: 'http://127.0.0.1:9/', secret: 'hush' } }
  const destination = (await made.ask('/event_destinations', { method: 'POST', body: { target } })).json
  t.ok(destination.id)
  await made.stop()
  const broken = [idOf('secret', 0), idOf('secret', 1), destination.id]
  const database = await openSqlite(path)
  const rows = await database.reads.selectFrom('records').selectAll().where('id', 'in', broken).execute()
  for (const [number, { id, sealed }] of rows.entries()) {
    const bytes = Buffer.from(sealed as Uint8Array)
    // Of another key, changed, and cut: the three ways not to open.
    const spoilt = number === 0 ? Buffer.concat([bytes.subarray(0, 1), Buffer.alloc(8), bytes.subarray(9)]) : bytes
    if (number === 1) spoilt[40] = (spoilt[40] ?? 0) ^ 1
    const cut = number === 2 ? Buffer.from('x') : spoilt
    await database.writes.updateTable('records').set({ sealed: cut }).where('id', '=', id).execute()
  }
  await database.close()

  const { ask, stop } = await started(t, cwd)
  const { processes } = (await ask('/processes')).json
  t.match(processes[0].last_error, /the secrets of \w+\/\w+ do not open: SEAL_/)
  for (const [list, member] of [
    ['/vault_secrets', 'secrets'],
    ['/event_destinations', 'event_destinations']
  ] as const) {
    const { status, json } = await ask(list)
    t.equal(status, 200, list)
    t.ok(json[member].length > 0)
    for (const { id } of json[member]) {
      const one = await ask(`${list}/${id}`)
      if (broken.includes(id)) t.match(one, { status: 503, json: { error_code: /SEAL_(KEY_LOST|BROKEN)/ } }, id)
      else t.equal(one.status, 200, id)
    }
  }
  const [first, second] = broken
  const described = await ask(`/vault_secrets/${first}`, { method: 'PATCH', body: { description: 'still lost' } })
  t.match(described, { status: 503 }, 'what may come back is not overwritten')
  t.match(await ask(`/vault_secrets/${first}`, { method: 'PATCH', body: { value: 'anew' } }), { status: 200 })
  t.equal((await ask(`/vault_secrets/${second}`, { method: 'DELETE' })).status, 204)
  const anew = { target: { webhook: { url: 'http://127.0.0.1:9/', secret: 'hush again' } } }
  t.equal((await ask(`/event_destinations/${destination.id}`, { method: 'PATCH', body: anew })).status, 200)
  t.equal((await ask('/vaults', { method: 'POST', body: { name: 'other' } })).status, 201)
  await stop()
  const healed = await started(t, cwd)
  const all = (await healed.ask('/processes')).json.processes as { self: boolean; last_error: string | null }[]
  t.match(
    all.find(({ self }) => self),
    { last_error: null }
  )
  await healed.stop()
})
