import t from 'tap'
import { account, create } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { freePort } from '../proxy/free-port.js'

const sluice = await startSluice(t)
const ask = account(sluice)

t.test('a reserved address stays while an edge uses it', async (t) => {
  const addr = `localhost:${await freePort()}`
  const address = await create(sluice, '/reserved_addrs', { addr })
  const edge = await create(sluice, '/edges/tcp', { hostports: [addr] })
  const remove = () => ask(`/reserved_addrs/${address.id}`, { method: 'DELETE' })
  t.match(await remove(), { status: 409, json: { details: { used_by: `tcp_edge ${edge.id}` } } })
  t.equal((await ask('/reserved_addrs', { method: 'POST', body: { addr } })).status, 409)
  await ask(`/edges/tcp/${edge.id}`, { method: 'DELETE' })
  t.equal((await remove()).status, 204)
  t.match((await create(sluice, '/reserved_addrs', {})).addr, /:(2|3)\d{4}$/)
})

t.test('bot users and service users are the same records', async (t) => {
  const made = await create(sluice, '/service_users', { name: 'deployer' })
  t.match(made.uri, /\/service_users\/bot_/)
  t.match((await ask(`/bot_users/${made.id}`)).json, { id: made.id, name: 'deployer' })
  const key = await create(sluice, '/api_keys', { owner_id: made.id })
  t.equal(key.owner_id, made.id)
  t.match((await ask('/service_users')).json, { service_users: [{ id: made.id }] })
  t.equal((await ask(`/service_users/${made.id}`, { method: 'DELETE' })).status, 204)
  t.equal((await ask(`/bot_users/${made.id}`)).status, 404)
})

t.test('an SSH key is checked', async (t) => {
  const answer = await ask('/ssh_credentials', { method: 'POST', body: { public_key: 'ssh-ed25519 AAAA' } })
  t.match(answer, { status: 400, json: { details: { field: 'public_key' } } })
})
