import t from 'tap'
import { ManualClock } from '../helpers/clock.js'
import { BASE, make, openAccount } from './account.js'
import { word } from './asking.js'

t.test('each accepted write is a revision, with who made it, when, and how much it did', async (t) => {
  const clock = new ManualClock()
  const { ask } = await openAccount(t, { clock })
  const created = await ask('/ip_policies', { method: 'POST', body: { description: 'a' } })
  const number = Number(created.headers['service-revision'])
  clock.advance(60_000)
  const refused = await ask('/ip_policies', { method: 'POST', body: { odd: 1 } })
  t.equal(refused.status, 400)
  await ask('/ip_policies?dry_run=true', { method: 'POST', body: {} })
  const deleted = await ask(`/ip_policies/${created.json.id}`, { method: 'DELETE' })
  const { json } = await ask('/revisions')
  t.same(
    json.revisions.map(({ id }: { id: number }) => id),
    [number + 1, number, 1],
    'newest first; refusals and dry runs are none'
  )
  t.match(json, { uri: `${BASE}/revisions`, next_page_uri: null })
  const [last, first, start] = json.revisions
  t.same(first, {
    id: number,
    uri: `${BASE}/revisions/${number}`,
    created_at: created.json.created_at,
    operation_id: created.headers['service-operation-id'],
    principal: { id: first.principal.id, subject: 'administrator' },
    api_key: null,
    created: 1,
    updated: 0,
    deleted: 0,
    reverts: null,
    reason: null,
    guard: null
  })
  t.match(first.principal.id, /^usr_/)
  t.match(last, { operation_id: deleted.headers['service-operation-id'], created: 0, deleted: 1 })
  t.equal(Date.parse(last.created_at) - Date.parse(first.created_at), 60_000)
  t.match(start, { principal: null, created: 1 }, 'the first is the service itself')
  t.same((await ask(`/revisions/${number}`)).json, first)
  const whole = await ask('/revisions/1/diff')
  t.match(whole.json.changes, [{ resource: 'user', uri: null, change: 'created', fields: null, secrets: [] }])
})

t.test('the history names the key and the bot that were used', async (t) => {
  const { ask } = await openAccount(t)
  const bot = await make(ask, '/bot_users', { name: 'deployer' })
  const key = await make(ask, '/api_keys', { owner_id: bot.id })
  const { headers } = await ask('/ip_policies', { method: 'POST', body: {}, key: key.token })
  const { json } = await ask(`/revisions/${headers['service-revision']}`)
  t.same(json.principal, { id: bot.id, subject: 'deployer' })
  t.same(json.api_key, { id: key.id, uri: key.uri })
})

t.test('a difference shows what changed and nothing else', async (t) => {
  const { ask } = await openAccount(t)
  const policy = await make(ask, '/ip_policies', { description: 'before' })
  const edge = await make(ask, '/edges/https', { hostports: ['a.test:443'] })
  const route = await make(ask, `/edges/https/${edge.id}/routes`, { match: '/' })
  const path = `/edges/https/${edge.id}/routes/${route.id}`
  const diff = async (answer: { headers: Readonly<Record<string, unknown>> }) => {
    const found = await ask(`/revisions/${answer.headers['service-revision']}/diff`)
    t.equal(found.status, 200, found.text)
    return found.json.changes
  }
  const updated = await ask(`/ip_policies/${policy.id}`, { method: 'PATCH', body: { description: 'after' } })
  t.same(await diff(updated), [
    {
      resource: 'ip_policy',
      id: policy.id,
      name: null,
      uri: policy.uri,
      change: 'updated',
      description: 'after',
      fields: { description: { before: 'before', after: 'after' } },
      differences: [{ field: 'description', before: 'before', after: 'after' }],
      secrets: []
    }
  ])
  const attached = await ask(`${path}/ip_restriction`, { method: 'PUT', body: { ip_policy_ids: [policy.id] } })
  const module = { enabled: true, ip_policies: [{ id: policy.id, uri: `/ip_policies/${policy.id}` }] }
  t.match(await diff(attached), [
    { id: route.id, uri: `${BASE}${path}`, fields: { ip_restriction: { before: null, after: module } } }
  ])
  const gone = await ask(`/edges/https/${edge.id}`, { method: 'DELETE' })
  const changes = await diff(gone)
  t.match(changes, [
    { resource: 'https_edge', id: edge.id, change: 'deleted', fields: { hostports: { before: ['a.test:443'] } } },
    { resource: 'https_edge_route', id: route.id, change: 'deleted', fields: { match: { before: '/', after: null } } }
  ])
  t.equal(changes.length, 2, 'what goes along is told too')
  t.match((await ask(`/revisions/${gone.headers['service-revision']}`)).json, { created: 0, updated: 0, deleted: 2 })
})

t.test('changed records have the names that they had at the revision, also once they are gone', async (t) => {
  const { ask } = await openAccount(t)
  const edge = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const route = await make(ask, `/edges/https/${edge.id}/routes`, { match: '/api' })
  const path = `/edges/https/${edge.id}/routes/${route.id}`
  const backend = await make(ask, '/backends/static', { address: '127.0.0.1:81', metadata: '{"name": "orders"}' })
  const patched = async (at: string, body: object) =>
    Number((await ask(at, { method: 'PATCH', body })).headers['service-revision'])
  const described = await patched(path, { description: 'the API' })
  const moved = await patched(path, { match: '/v2' })
  const renamed = await patched(`/backends/static/${backend.id}`, { metadata: '{"name": "shop"}' })
  const hosted = await patched(`/edges/https/${edge.id}`, { hostports: ['app.test:8443'] })
  const bare = await make(ask, '/edges/https', {})
  const gone = Number((await ask(`/edges/https/${edge.id}`, { method: 'DELETE' })).headers['service-revision'])
  const names = async (revision: number, query = '') => {
    const { json } = await ask(`/revisions/${revision}/diff${query}`)
    return json.changes.map(({ resource, name }: { resource: string; name: string | null }) => [resource, name])
  }
  t.same(await names(described), [['https_edge_route', 'app.test/api/']])
  t.same(await names(moved), [['https_edge_route', 'app.test/v2/']])
  t.same(await names(renamed), [['static_backend', 'shop']])
  t.same(await names(hosted), [['https_edge', 'app.test:8443']])
  t.same(await names(gone - 1), [['https_edge', null]], `${bare.id} has no host`)
  const both = [
    ['https_edge', 'app.test:8443'],
    ['https_edge_route', 'app.test:8443/v2/']
  ]
  t.same(await names(gone), both)
  t.same(await names(moved, `?from=${described - 1}`), [['https_edge_route', 'app.test/v2/']])
  const text = await ask(`/revisions/${moved}/diff`, { headers: { accept: 'text/plain' } })
  t.match(text.text, `\n~ https_edge_route app.test/v2/ ${route.id}\n    match: "/api" → "/v2"\n`)
  const reverted = await ask(`/revisions/${gone}/revert`, { method: 'POST' })
  t.same(
    reverted.json.changes.map(({ resource, name }: { resource: string; name: string }) => [resource, name]),
    both,
    'a revert names what it restores'
  )
})

t.test('secrets are told to have changed, and never shown', async (t) => {
  const { ask } = await openAccount(t)
  const secrets = ['planted-one', 'planted-two', 'planted-hook', 'planted-client', 'planted-key', 'planted-target']
  const vault = await make(ask, '/vaults', { name: 'v' })
  const made = await make(ask, '/vault_secrets', { vault_id: vault.id, name: 'n', value: secrets[0] })
  const changed = await ask(`/vault_secrets/${made.id}`, { method: 'PATCH', body: { value: secrets[1] } })
  const { json } = await ask(`/revisions/${changed.headers['service-revision']}/diff`)
  t.same(json.changes[0].secrets, ['value'])
  t.notOk('value' in json.changes[0].fields)
  const same = await ask(`/vault_secrets/${made.id}`, { method: 'PATCH', body: { description: 'd' } })
  const again = await ask(`/revisions/${same.headers['service-revision']}/diff`)
  t.same(again.json.changes[0].secrets, [])
  const edge = await make(ask, '/edges/https')
  await make(ask, `/edges/https/${edge.id}/routes`, {
    match: '/',
    webhook_verification: { provider: 'github', secret: secrets[2] },
    oauth: { provider: { github: { client_id: 'c', client_secret: secrets[3], scopes: ['read:user'] } } }
  })
  const target = { webhook: { url: 'https://a.test/', secret: secrets[5] } }
  const destination = await make(ask, '/event_destinations', { target })
  const tokens = [(await make(ask, '/api_keys')).token, (await make(ask, '/credentials')).token]
  await make(ask, '/ssh_certificate_authorities')
  await ask(`/event_destinations/${destination.id}`, { method: 'DELETE' })
  const { revisions } = (await ask('/revisions')).json
  let paths = 0
  for (const { id } of revisions) {
    for (const path of [`/revisions/${id}`, `/revisions/${id}/diff`]) {
      const { text, json: shown } = await ask(path)
      for (const secret of [...secrets, ...tokens]) t.notMatch(text, secret, path)
      t.notMatch(text, /PRIVATE KEY|[0-9a-f]{64}/, 'nor a key or a hash')
      for (const change of shown.changes ?? []) paths += change.secrets.length
    }
  }
  t.ok(paths >= 6, 'they are all named')
})

t.test('the history is paged as other lists are', async (t) => {
  const { ask } = await openAccount(t)
  for (let count = 0; count < 12; count++) await make(ask, '/ip_policies')
  const seen: number[] = []
  let next = '/revisions?limit=5'
  while (next !== '') {
    const { json, status } = await ask(next)
    t.equal(status, 200)
    seen.push(...json.revisions.map(({ id }: { id: number }) => id))
    next = json.next_page_uri === null ? '' : json.next_page_uri.slice(BASE.length)
  }
  t.same(
    seen,
    Array.from({ length: 13 }, (_, at) => 13 - at)
  )
  for (const cursor of ['0', '-1', 'ipp_1', '1.5', '1e3', '']) {
    t.equal(word(t, await ask(`/revisions?before_id=${cursor}`)), 'QUERY_INVALID', cursor)
  }
  t.equal(word(t, await ask('/revisions?limit=0')), 'PAGE_LIMIT')
  t.same((await ask('/revisions?before_id=1')).json.revisions, [])
})

t.test('what is not there is 404, and what is forgotten says so', async (t) => {
  const { ask, control } = await openAccount(t)
  for (let count = 0; count < 5; count++) await make(ask, '/ip_policies')
  for (const id of ['0', '99', 'abc', '01', '1e1', '999999999999999']) {
    t.equal((await ask(`/revisions/${id}`)).status, 404, id)
    t.equal(word(t, await ask(`/revisions/${id}/diff`)), 'NOT_FOUND', id)
  }
  await control.revisions.forget(2)
  const { json } = await ask('/revisions')
  t.same(
    json.revisions.map(({ id }: { id: number }) => id),
    [6, 5]
  )
  t.equal(json.next_page_uri, null)
  const forgotten = await ask('/revisions/4/diff')
  t.equal(word(t, forgotten), 'NOT_FOUND')
  t.match(forgotten.json.msg, /older than what the history keeps/)
  t.notMatch((await ask('/revisions/7')).json.msg, /older/)
  t.equal((await ask('/ip_policies')).json.ip_policies.length, 5, 'what they made stays')
  await control.revisions.forget(100)
  t.equal((await ask('/revisions')).json.revisions.length, 2)
})

t.test('the history needs a key, and changes by writes only', async (t) => {
  const { ask } = await openAccount(t)
  t.equal((await ask('/revisions', { key: 'wrong-key-of-nobody' })).status, 401)
  for (const method of ['POST', 'PATCH', 'DELETE']) t.equal((await ask('/revisions', { method })).status, 405)
})
