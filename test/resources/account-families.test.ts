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

t.test('a domain resolves to every place where Sluice listens, and to no other', async (t) => {
  const domain = await create(sluice, '/reserved_domains', { domain: 'place.example.com' })
  t.equal(domain.resolves_to, null)
  const path = `/reserved_domains/${domain.id}`
  const change = (resolves_to: unknown) => ask(path, { method: 'PATCH', body: { resolves_to } })
  const refused = async (resolves_to: unknown, field: string, msg: RegExp) => {
    t.match(await change(resolves_to), { status: 400, json: { msg, details: { field } } }, JSON.stringify(resolves_to))
    t.same((await ask(path)).json.resolves_to, [{ value: 'global' }])
  }
  t.same((await change([{ value: 'global' }])).json.resolves_to, [{ value: 'global' }])
  await refused(
    [{ value: 'us' }],
    'resolves_to[0].value',
    /must be "global": there are no points of presence.*run Sluice there/
  )
  await refused([{ value: 'global' }, { value: 'eu' }], 'resolves_to[1].value', /must be "global"/)
  await refused([{ value: 'global' }, { value: 'global' }], 'resolves_to', /one entry/)
  await refused([{ place: 'global' }], 'resolves_to[0].place', /is not a field here/)
  await refused([{}], 'resolves_to[0].value', /is required/)
  await refused('global', 'resolves_to', /must be a list/)
  for (const unset of [[], null]) {
    await change([{ value: 'global' }])
    t.equal((await change(unset)).json.resolves_to, null, JSON.stringify(unset))
  }
})
