import t from 'tap'
import { create, site } from '../../helpers/account.js'
import { freePort } from '../../proxy/free-port.js'
import { receiver } from '../events/receiver.js'
import { DENY, GUARD, guarded, HOST, shop } from './guarded.js'

/** Seconds of traffic after which a fault must be undone. */
const SOON = 9

t.test('a policy that denies all is reverted, with the reason in revision, log, event and metrics', async (t) => {
  const { sluice, ask, route, traffic, write, ended, revision, visit } = await guarded(t)
  const sink = await receiver(t)
  const destination = (await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })).id
  const sources = [{ type: 'guard_broken.v0' }, { type: 'guard_ended.v0' }]
  await create(sluice, '/event_subscriptions', { sources, destination_ids: [destination] })
  await traffic(10)
  const id = await write('PATCH', route, { traffic_policy: DENY })
  t.equal(await visit(), 403)
  t.match((await revision(id)).guard, { conditions: GUARD, state: 'baking', reason: null, ended_at: null, by: null })
  await traffic(SOON)
  const guard = await ended(id)
  t.match(guard, {
    state: 'broken',
    reason: /^refusal-rate: 100% of \d+ requests were refused, before/,
    ended_at: /Z$/
  })
  t.equal(guard.by.id, id + 1)
  t.match(await revision(id + 1), {
    reverts: { id },
    reason: `the guard of revision ${id} broke: ${guard.reason}`,
    principal: { id: 'guard' },
    guard: null
  })
  t.equal(await visit(), 200)
  t.equal((await ask(route)).json.traffic_policy, null)
  const line = await sluice.line(({ msg }) => msg === 'the guard of a write broke: the write is reverted')
  t.match(line, { revision: id, reverted_by: id + 1, state: 'broken', reason: guard.reason })
  await sink.until(() => sink.taken.length === 1)
  t.match(sink.taken, [
    {
      event_type: 'guard_broken.v0',
      object: { revision: { id }, state: 'broken', reason: guard.reason, by: { id: id + 1 } }
    }
  ])
  t.match((await ask('/metrics')).text, /sluice_guards_total\{outcome="broken"\} 1/)
})

t.test('an upstream that is gone, answers that fail and a limit that is too small are reverted', async (t) => {
  const { upstream, backend, route, traffic, write, ended, visit } = await guarded(t)
  await traffic(20)
  const gone = await write('PATCH', `/backends/static/${backend.id}`, { address: `127.0.0.1:${await freePort()}` })
  t.equal(await visit(), 502)
  await traffic(SOON)
  t.match(await ended(gone), { state: 'broken', reason: /^error-rate: .* failed/ })
  t.equal(await visit(), 200)
  const limit =
    'on_http_request: [{ actions: [{ type: rate-limit, config: { name: all, algorithm: sliding_window, capacity: 5, rate: 60s, bucket_key: [req.host] } }] }]'
  const small = await write('PATCH', route, { traffic_policy: { value: limit } })
  await traffic(SOON)
  t.match(await ended(small), { state: 'broken', reason: /^refusal-rate: / })
  t.equal(await visit(), 200)
  let count = 0
  const broken = 'on_http_request: [{ actions: [{ type: add-headers, config: { headers: { x-new: "1" } } }] }]'
  const failing = await write('PATCH', route, { traffic_policy: { value: broken } })
  upstream.status = () => (count++ % 4 === 0 ? 500 : 200)
  await traffic(SOON)
  t.match(await ended(failing), { state: 'broken', reason: /^error-rate: / })
})

t.test('a healthy write passes, and stays', async (t) => {
  const { sluice, upstream, route, traffic, write, ended, ask, clock } = await guarded(t)
  let count = 0
  upstream.status = () => (count++ % 10 === 0 ? 503 : 200)
  await traffic(20)
  const policy = {
    value: 'on_http_request: [{ actions: [{ type: add-headers, config: { headers: { x-new: "1" } } }] }]'
  }
  const id = await write('PATCH', route, { traffic_policy: policy })
  await traffic(31)
  t.match(await ended(id), { state: 'passed', reason: null, by: null })
  t.match((await ask(route)).json.traffic_policy, policy)
  t.match(await sluice.line(({ msg }) => msg === 'the guard of a write has ended'), { revision: id, state: 'passed' })
  const quiet = await write('PATCH', route, { traffic_policy: DENY })
  clock.advance(36_000)
  t.match(await ended(quiet), { state: 'inconclusive', reason: /0 requests came while it baked, fewer than 50/ })
  t.match((await ask('/metrics')).text, /sluice_guards_total\{outcome="passed"\} 1/)
})

t.test('what a write does not touch does not break it', async (t) => {
  const { sluice, upstream, route, traffic, write, ended, visit } = await guarded(t)
  const other = await create(sluice, '/edges/https', { hostports: ['other.example.com:443'] })
  const elsewhere = await create(sluice, '/backends/static', { address: `127.0.0.1:${await freePort()}` })
  await traffic(10)
  t.equal(upstream.status(), 200)
  const id = await write('PATCH', route, { traffic_policy: { value: 'on_http_request: []' } })
  await create(sluice, `/edges/https/${other.id}/routes`, { match: '/', backend: { backend_id: elsewhere.id } })
  const both = async () => [await visit(), await visit('other.example.com')]
  await traffic(31, 30, both)
  t.equal(await visit('other.example.com'), 502)
  t.match(await ended(id), { state: 'passed' })
})

t.test('an edge that is deleted comes back when its clients still ask for it', async (t) => {
  const { ask, edge, traffic, write, ended, visit } = await guarded(t)
  await traffic(10)
  const id = await write('DELETE', edge, undefined)
  t.equal((await ask(edge)).status, 404)
  await traffic(SOON)
  t.match(await ended(id), { state: 'broken', reason: /^refusal-rate: / })
  t.equal(await visit(), 200)
})

t.test('a later write of the same fields takes the place of the guard, one of others does not', async (t) => {
  const { ask, route, edge, traffic, write, ended, revision, visit } = await guarded(t)
  await traffic(10)
  const first = await write('PATCH', route, { traffic_policy: DENY })
  await ask(route, { method: 'PATCH', body: { description: 'a note' } })
  await ask(edge, { method: 'PATCH', body: { description: 'a note' } })
  t.match((await revision(first)).guard.state, 'baking')
  const second = await write('DELETE', `${route}/traffic_policy`, undefined)
  t.match(await ended(first), { state: 'superseded', by: { id: second } })
  t.equal((await revision(second)).guard.state, 'baking')
  const third = await write('PATCH', route, { traffic_policy: DENY })
  await traffic(SOON)
  t.match(await ended(third), { state: 'broken' })
  t.equal((await ask(route)).json.description, 'a note', 'other fields stay')
  t.equal(await visit(), 200)
})

t.test('a revert that conflicts is told, and nothing changes', async (t) => {
  const { sluice, ask, traffic, write, ended } = await guarded(t)
  await traffic(10)
  const id = await write('POST', '/backends/static', { address: `127.0.0.1:${await freePort()}` })
  const made = (await ask('/backends/static?limit=1')).json.backends[0]
  // The route needs what a revert would take away.
  const path = (await ask(`/edges/https`)).json.https_edges[0]
  const route = path.routes[0]
  await ask(`/edges/https/${path.id}/routes/${route.id}`, {
    method: 'PATCH',
    body: { backend: { backend_id: made.id } }
  })
  await traffic(SOON)
  t.match(await ended(id), { state: 'conflict', reason: /^error-rate: .*; it cannot be reverted: /, by: null })
  await sluice.line(({ msg }) => msg === 'the guard of a write broke, and the write cannot be reverted')
  t.equal((await ask(`/backends/static/${made.id}`)).status, 200)
})

t.test('a write that decides too many requests otherwise is reverted, one that decides few does not', async (t) => {
  const { route, traffic, write, ended, visit } = await guarded(t)
  const half =
    'on_http_request: [{ expressions: ["req.url.path == \'/half\'"], actions: [{ type: custom-response, config: { status_code: 204 } }] }]'
  const visits = (path: string) => async () => {
    await visit()
    await visit(HOST, path)
  }
  const guard = 'bake=20s; changed-decisions=10%; min-requests=50'
  await traffic(2, 25, visits('/half'))
  const id = await write('PATCH', route, { traffic_policy: { value: half } }, guard)
  await traffic(SOON, 25, visits('/half'))
  t.match(await ended(id), {
    state: 'broken',
    reason: /^changed-decisions: [\d.]+% of \d+ requests are decided otherwise/
  })
  t.equal(await visit(HOST, '/half'), 200)
  const harmless = await write('PATCH', route, { traffic_policy: { value: half } }, guard)
  await traffic(22, 25, visits('/other'))
  t.match(await ended(harmless), { state: 'passed' })
  t.equal(await visit(HOST, '/half'), 204)
})

t.test('a guard brings nothing back that sends secrets where its writer may not', async (t) => {
  const { sluice, upstream, ask, traffic, ended, backend, route } = await guarded(t)
  const bot = await create(sluice, '/bot_users', { name: 'bea' })
  const { token: key } = await create(sluice, '/api_keys', { owner_id: bot.id })
  const vault = await create(sluice, '/vaults', { name: 'prod' })
  await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'db', value: 'hunter2' })
  const value = JSON.stringify({
    on_http_request: [
      { actions: [{ type: 'add-headers', config: { headers: { 'x-a': "${secrets.get('prod', 'db')}" } } }] }
    ]
  })
  const { route: reading } = await site(sluice, 'api.example.com', {
    backend: { backend_id: backend.id },
    traffic_policy: { value }
  })
  const as = (path: string, method: string, body?: object) =>
    ask(path, { method, key, headers: { guard: GUARD }, ...(body === undefined ? {} : { body }) })
  const gone = await as(`${reading}/traffic_policy`, 'DELETE')
  t.match(gone, { status: 403, json: { error_code: 'ERR_SLUICE_VAULT_NOT_ALLOWED', msg: /^if its guard breaks, / } })

  const elsewhere = await shop(t)
  const own = await create(sluice, '/backends/static', { address: elsewhere.address })
  await ask(`${route}/backend`, { method: 'PUT', body: { backend_id: own.id } })
  await traffic(10)
  const written = await as(`/backends/static/${own.id}`, 'PATCH', { address: upstream.address })
  t.equal(written.status, 200, written.text)
  t.equal((await ask(`${reading}/backend`, { method: 'PUT', body: { backend_id: own.id } })).status, 200)
  upstream.status = () => 500
  await traffic(SOON)
  t.match(await ended(Number(written.headers['service-revision'])), {
    state: 'conflict',
    reason: /^error-rate: .*; it cannot be reverted: .*vault "prod"/
  })
  t.equal((await ask(`/backends/static/${own.id}`)).json.address, upstream.address)
})

t.test('a guard that is wrong, or could not be kept, refuses the write', async (t) => {
  const { sluice, ask, route } = await guarded(t)
  const patch = (guard: string, body: unknown = { traffic_policy: DENY }, query = '') =>
    ask(`${route}${query}`, { method: 'PATCH', body, headers: { guard } })
  t.match(await patch('error-rate=2'), { status: 400, json: { error_code: 'ERR_SLUICE_GUARD_INVALID' } })
  t.match(await patch('error-rate=2', {}, '?dry_run=true'), { status: 400 })
  const dry = await patch(GUARD, undefined, '?dry_run=true')
  t.match(dry, { status: 200, json: { dry_run: true } })
  t.equal((await ask(route)).json.traffic_policy, null)
  const vault = await create(sluice, '/vaults', { name: 'keys' })
  const secret = await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'a', value: 's3cret' })
  t.match(
    await ask(`/vault_secrets/${secret.id}`, { method: 'PATCH', body: { value: 'other' }, headers: { guard: GUARD } }),
    { status: 409, json: { error_code: 'ERR_SLUICE_GUARD_IMPOSSIBLE', msg: /value of vault_secret/ } }
  )
  const none = await ask(route, { method: 'PATCH', body: { description: '' }, headers: { guard: GUARD } })
  t.equal(none.status, 200, 'nothing changes, so there is nothing to guard')
  t.match(await patch(GUARD, { traffic_policy: DENY }), { status: 200 })
  t.equal(HOST, 'shop.example.com')
})
