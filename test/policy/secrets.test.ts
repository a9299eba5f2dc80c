import { join } from 'node:path'
import t from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'

const HOST = 'shop.example.com'
const POLICY = `
on_http_request:
  - expressions:
      - "getReqHeader('x-key') == [secrets.get('main', 'key')]"
    actions:
      - type: custom-response
        config: { status_code: 200, body: welcome }
  - actions:
      - type: deny
        config: { status_code: 403 }
`

t.test('an expression reads a secret of a vault, and a change of it counts at once', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const vault = await create(sluice, '/vaults', { name: 'main' })
  const secret = await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'key', value: 'first value' })
  await site(sluice, HOST, { traffic_policy: { value: POLICY } })
  const statusWith = async (key: string) => (await visit(sluice, HOST, { headers: { 'x-key': key } })).status
  t.equal(await statusWith('first value'), 200)
  t.equal(await statusWith('another'), 403)
  const change = (path: string, body: object) => ask(path, { method: 'PATCH', body })
  t.equal((await change(`/vault_secrets/${secret.id}`, { value: 'second value' })).status, 200)
  t.equal(await statusWith('first value'), 403)
  t.equal(await statusWith('second value'), 200)
  t.equal((await change(`/vaults/${vault.id}`, { name: 'other' })).status, 200)
  t.equal(await statusWith('second value'), 500, 'a secret that is not there fails closed')
  t.equal((await change(`/vaults/${vault.id}`, { name: 'main' })).status, 200)
  t.equal((await change(`/vault_secrets/${secret.id}`, { name: 'key2' })).status, 200)
  t.equal(await statusWith('second value'), 500)
  t.equal((await change(`/vault_secrets/${secret.id}`, { name: 'key' })).status, 200)
  t.equal(await statusWith('second value'), 200)
  t.equal((await ask(`/vault_secrets/${secret.id}`, { method: 'DELETE' })).status, 204)
  t.equal(await statusWith('second value'), 500)
  t.notMatch(JSON.stringify(sluice.log), /first value|second value/, 'nothing logs a value')
})

t.test('secrets survive a restart sealed, and serve again', async (t) => {
  const data = join(t.testdir(), 'data')
  const first = await startSluice(t, { options: { DATA: data } })
  const vault = await create(first, '/vaults', { name: 'main' })
  await create(first, '/vault_secrets', { vault_id: vault.id, name: 'key', value: 'kept value' })
  await site(first, HOST, { traffic_policy: { value: POLICY } })
  await first.stop()
  const second = await startSluice(t, { options: { DATA: data } })
  t.equal((await visit(second, HOST, { headers: { 'x-key': 'kept value' } })).status, 200)
})
