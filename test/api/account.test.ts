import t from 'tap'
import { make, openAccount, pathIn } from './account.js'
import { type Ask, asker, word } from './asking.js'

const policy = (...actions: object[]) => JSON.stringify({ on_http_request: [{ name: 'first', actions }] })
const rule = (id: string, action: string, cidr: string) => ({ ip_policy_id: id, action, cidr })

t.test('an unknown key and a wrong one get the same answer', async (t) => {
  const { ask } = await openAccount(t)
  const { token } = await make(ask, '/api_keys')
  t.equal((await ask('/vaults', { key: token })).status, 200)
  const [id, secret] = token.split('_')
  const wrong = [
    `${id}_${secret.replace(/^./, (digit: string) => (digit === '0' ? '1' : '0'))}`,
    `${id}_${secret.slice(1)}`,
    `${'0'.repeat(27)}_${secret}`,
    token.toUpperCase(),
    'nothing-of-this-kind'
  ]
  const seen = new Set<string>()
  for (const key of wrong) {
    const answer = await ask('/vaults', { key })
    t.equal(word(t, answer), 'AUTH_INVALID')
    t.notMatch(answer.text, key)
    const { 'service-operation-id': operation, date: _, ...headers } = answer.headers
    seen.add(JSON.stringify([answer.status, headers, answer.text.replace(String(operation), '')]))
  }
  t.equal(seen.size, 1)
  t.equal((await ask('/vaults/nothing_1', { key: 'nothing-of-this-kind' })).status, 401, 'nor is existence told')
})

const skip = process.env.SLUICE_TEST_LONG === '1' ? false : 'a measurement of the long suite'
t.test('an unknown key and a wrong one take the same time', { skip }, async (t) => {
  const { ask, control } = await openAccount(t)
  const { token } = await make(ask, '/api_keys')
  const [id, secret] = token.split('_')
  const wrong = `${id}_${secret.slice(1)}0`
  const unknown = `${'0'.repeat(27)}_${secret.slice(1)}1`
  const times = new Map<string, number[]>([
    [wrong, []],
    [unknown, []]
  ])
  const SAMPLES = 10_000
  for (let sample = -500; sample < SAMPLES; sample++) {
    // In turns, so that whatever else the machine does meets both.
    for (const key of sample % 2 === 0 ? [wrong, unknown] : [unknown, wrong]) {
      const start = process.hrtime.bigint()
      if ((await control.access.authenticate(key)) !== undefined) t.fail('it opens something')
      if (sample >= 0) times.get(key)?.push(Number(process.hrtime.bigint() - start))
    }
  }
  // The slowest tenth is the machine's, not ours.
  const [a, b] = [...times.values()].map((all) => statistics(all.sort((x, y) => x - y).slice(0, SAMPLES * 0.9)))
  if (a === undefined || b === undefined) return t.fail('nothing was measured')
  const score = Math.abs(a.mean - b.mean) / Math.sqrt(a.variance / a.count + b.variance / b.count)
  t.ok(score < 4.5, `Welch's t is ${score.toFixed(2)}`)
  return undefined
})

function statistics(values: readonly number[]) {
  const count = values.length
  const mean = values.reduce((sum, value) => sum + value, 0) / count
  return { count, mean, variance: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1) }
}

t.test('a bot has the rights of a member while it is active', async (t) => {
  const { ask } = await openAccount(t)
  const bot = await make(ask, '/bot_users', { name: 'deployer' })
  const { token, id } = await make(ask, '/api_keys', { owner_id: bot.id })
  const asBot: Ask = (path, asked) => ask(path, { ...asked, key: token })
  t.equal((await make(asBot, '/credentials')).owner_id, bot.id)
  const admin = (await make(ask, '/credentials')).owner_id
  for (const [method, path, body] of [
    ['POST', '/bot_users', { name: 'another' }],
    ['PATCH', `/bot_users/${bot.id}`, { name: 'renamed' }],
    ['DELETE', `/bot_users/${bot.id}`, undefined],
    ['POST', '/credentials', { owner_id: admin }],
    ['POST', '/api_keys', { owner_id: admin }]
  ] as const) {
    const refused = await asBot(path, { method, body })
    t.equal(refused.status, 403, `${method} ${path}`)
    t.equal(word(t, refused), 'ADMIN_REQUIRED')
  }
  t.equal((await ask('/bot_users')).json.bot_users.length, 1, 'nothing of it has happened')
  t.equal((await ask('/credentials')).json.credentials.length, 2)
  const off = await ask(`/bot_users/${bot.id}`, { method: 'PATCH', body: { active: false } })
  t.equal(off.status, 200, off.text)
  t.equal(off.json.active, false)
  const idle = await asBot('/vaults')
  t.equal(idle.status, 403)
  t.equal(word(t, idle), 'FORBIDDEN')
  await ask(`/bot_users/${bot.id}`, { method: 'PATCH', body: { active: true } })
  t.equal((await asBot('/vaults')).status, 200)
  await ask(`/api_keys/${id}`, { method: 'DELETE' })
  t.equal((await asBot('/vaults')).status, 401, 'a key that is deleted opens nothing')
})

t.test('an IP restriction of this API warns or refuses, and does not shut its author out by accident', async (t) => {
  const { ask, logged } = await openAccount(t)
  const policy = await make(ask, '/ip_policies')
  const elsewhere = await make(ask, '/ip_policy_rules', rule(policy.id, 'allow', '192.0.2.0/24'))
  const restriction = await make(ask, '/ip_restrictions', { type: 'api', ip_policy_ids: [policy.id] })
  t.equal((await ask('/vaults')).status, 200)
  t.match(logged.at(-1), { fields: { client: '127.0.0.1' } }, 'it would have been refused')
  const path = `/ip_restrictions/${restriction.id}`
  const enforce = { method: 'PATCH', body: { enforced: true } }
  const locked = await ask(path, enforce)
  t.equal(locked.status, 409)
  t.equal(word(t, locked), 'LOCKOUT')
  t.equal((await ask(path)).json.enforced, false)
  const allowed = await make(ask, '/ip_policy_rules', rule(policy.id, 'allow', '127.0.0.0/8'))
  t.equal((await ask(path, enforce)).status, 200)
  t.equal((await ask('/vaults')).status, 200)
  t.equal(
    (await ask(`/ip_policy_rules/${allowed.id}`, { method: 'DELETE' })).status,
    409,
    'the rule keeps the door open'
  )
  await ask(`/ip_policy_rules/${elsewhere.id}`, { method: 'DELETE' })
  t.equal((await ask(`/ip_policy_rules/${allowed.id}?force=true`, { method: 'DELETE' })).status, 204)
  const refused = await ask('/vaults')
  t.equal(refused.status, 403)
  t.equal(word(t, refused), 'IP_NOT_ALLOWED')
  t.equal((await ask('/healthz')).status, 200)
})

t.test('of two updates that know the same version one wins', async (t) => {
  const { ask } = await openAccount(t)
  const { uri } = await make(ask, '/ip_policies', { description: 'first' })
  const path = pathIn(uri)
  const tag = String((await ask(path)).headers.etag)
  const update = (description: string, headers = {}) => ask(path, { method: 'PATCH', body: { description }, headers })
  const answers = await Promise.all(['a', 'b', 'c'].map((text) => update(text, { 'if-match': tag })))
  t.same(answers.map(({ status }) => status).sort(), [200, 412, 412])
  const winner = answers.find(({ status }) => status === 200)
  t.equal((await ask(path)).json.description, winner?.json.description)
  const either = await Promise.all(['d', 'e'].map((text) => update(text)))
  t.same(
    either.map(({ status }) => status),
    [200, 200],
    'without If-Match the last writer wins'
  )
  const newest = either.sort((a, b) => Number(a.headers['service-revision']) - Number(b.headers['service-revision']))
  t.equal((await ask(path)).json.description, newest.at(-1)?.json.description)
})

t.test('paging shows each record once while others come and go', async (t) => {
  const { ask } = await openAccount(t)
  const ids: string[] = []
  for (let count = 0; count < 60; count++) ids.push((await make(ask, '/ip_policies')).id)
  const seen: string[] = []
  const doomed = new Set<string>()
  let next: string | null = '/ip_policies?limit=7'
  while (next !== null) {
    const { json }: { json: { ip_policies: { id: string }[]; uri: string; next_page_uri: string | null } } =
      await ask(next)
    t.ok(json.ip_policies.length <= 7)
    t.notMatch(json.uri, /\?/)
    seen.push(...json.ip_policies.map(({ id }) => id))
    // The last one of the page, which is the cursor, and one that has not been shown yet.
    const later = ids.findLast((id) => !seen.includes(id) && !doomed.has(id))
    const gone = [json.ip_policies.at(-1)?.id, later].filter((id) => id !== undefined)
    if (later !== undefined) doomed.add(later)
    await Promise.all([
      ...gone.map((id) => ask(`/ip_policies/${id}`, { method: 'DELETE' })),
      make(ask, '/ip_policies'),
      make(ask, '/ip_policies')
    ])
    next = json.next_page_uri === null ? null : pathIn(json.next_page_uri)
  }
  const expected = ids.filter((id) => !doomed.has(id)).reverse()
  t.same(seen, expected, 'newest first, none twice, none missed')
  t.ok(doomed.size > 3)
  const whole = await ask('/ip_policies')
  const all = whole.json.ip_policies.map(({ id }: { id: string }) => id)
  t.equal(new Set(all).size, all.length)
})

t.test('concurrent creations are all there, once', async (t) => {
  const { ask } = await openAccount(t)
  const policies = await Promise.all(Array.from({ length: 150 }, () => make(ask, '/ip_policies')))
  const first = await ask('/ip_policies')
  const second = await ask(pathIn(first.json.next_page_uri))
  const listed = [...first.json.ip_policies, ...second.json.ip_policies].map(({ id }) => id)
  t.equal(first.json.ip_policies.length, 100)
  t.equal(second.json.next_page_uri, null)
  t.same([...listed].sort(), policies.map(({ id }) => id).sort())
})

t.test('cursors: deleted ids work, foreign and unknown ones do not', async (t) => {
  const { ask } = await openAccount(t)
  const [older, cursor] = [await make(ask, '/ip_policies'), await make(ask, '/ip_policies')]
  const vault = await make(ask, '/vaults', { name: 'v' })
  await ask(`/ip_policies/${cursor.id}`, { method: 'DELETE' })
  const page = await ask(`/ip_policies?before_id=${cursor.id}`)
  t.match(page.json.ip_policies, [{ id: older.id }])
  for (const id of [vault.id, `ipp_${'0'.repeat(27)}`, 'nothing']) {
    const answer = await ask(`/ip_policies?before_id=${id}`)
    t.equal(answer.status, 400, id)
    t.match(answer.json.details, { field: 'before_id' })
    t.equal(word(t, answer), 'QUERY_INVALID')
  }
})

t.test('what is taken is 409 with its keeper, what is in use is 409 with its users', async (t) => {
  const { ask } = await openAccount(t)
  const vault = await make(ask, '/vaults', { name: 'main' })
  const taken = await ask('/vaults', { method: 'POST', body: { name: 'main' } })
  t.equal(taken.status, 409)
  t.equal(word(t, taken), 'ALREADY_EXISTS')
  t.match(JSON.stringify(taken.json), vault.id)
  const secret = await make(ask, '/vault_secrets', { name: 's', value: 'v', vault_id: vault.id })
  const used = await ask(`/vaults/${vault.id}`, { method: 'DELETE' })
  t.equal(used.status, 409)
  t.equal(word(t, used), 'IN_USE')
  t.match(JSON.stringify(used.json), secret.id)
  const backend = await make(ask, '/backends/tunnel_group', { labels: { app: 'web' } })
  const edge = await make(ask, '/edges/tcp', { backend: { backend_id: backend.id } })
  t.equal((await ask(`/backends/tunnel_group/${backend.id}`, { method: 'DELETE' })).status, 409)
  await ask(`/edges/tcp/${edge.id}`, { method: 'DELETE' })
  t.equal((await ask(`/backends/tunnel_group/${backend.id}`, { method: 'DELETE' })).status, 204)
  const policy = await make(ask, '/ip_policies')
  const { id } = await make(ask, '/edges/tcp', { ip_restriction: { ip_policy_ids: [policy.id] } })
  t.equal((await ask(`/ip_policies/${policy.id}`, { method: 'DELETE' })).status, 204, 'policies are never in the way')
  t.match((await ask(`/edges/tcp/${id}/ip_restriction`)).json, { ip_policies: [{ id: policy.id }] })
})

t.test('references must have the right kind and exist', async (t) => {
  const { ask } = await openAccount(t)
  const vault = await make(ask, '/vaults', { name: 'main' })
  const post = (ip_policy_id: unknown) =>
    ask('/ip_policy_rules', { method: 'POST', body: { ip_policy_id, action: 'allow', cidr: '192.0.2.0/24' } })
  for (const [id, expected] of [
    [vault.id, 'REF_INVALID'],
    ['x', 'REF_INVALID'],
    ['', 'REF_INVALID'],
    [7, 'FIELD_INVALID'],
    [`ipp_${'0'.repeat(27)}`, 'REF_NOT_FOUND']
  ]) {
    const answer = await post(id)
    t.equal(answer.status, 400)
    t.equal(word(t, answer), expected, String(id))
    t.equal(answer.json.details.field, 'ip_policy_id')
  }
  const { id } = await make(ask, '/edges/https')
  const other = await make(ask, '/edges/https')
  const route = await make(ask, `/edges/https/${id}/routes`, { match: '/' })
  t.equal((await ask(`/edges/https/${other.id}/routes/${route.id}`)).status, 404, 'a route of another edge is not here')
  t.equal((await ask('/edges/https/nothing_1/routes', { method: 'POST', body: { match: '/' } })).status, 404)
  t.same((await ask(`/edges/https/${id}`)).json.routes, [(await ask(`/edges/https/${id}/routes/${route.id}`)).json])
  await ask(`/edges/https/${id}`, { method: 'DELETE' })
  t.equal((await ask(`/edges/https/${id}/routes/${route.id}`)).status, 404, 'routes go with their edge')
})

t.test('a policy document that is wrong is refused at its place, and what runs stays', async (t) => {
  const { ask, holder } = await openAccount(t)
  const { id } = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const value = policy({ type: 'deny', config: { status_code: 404 } })
  const path = `/edges/https/${id}/routes`
  const { id: route } = await make(ask, path, { match: '/', traffic_policy: { value } })
  const running = holder.current()
  const wrong =
    'on_http_request:\n  - name: broken\n    expressions: ["req.url.path ==="]\n    actions:\n      - type: deny\n'
  const cases: [string, RegExp][] = [
    [wrong, /^POLICY_/],
    ['[', /^POLICY_/],
    [policy({ type: 'no-such-action' }), /^POLICY_/],
    [policy({ type: 'rate-limit', config: { name: 'x' } }), /^POLICY_/],
    ['{"on_tcp_connect":[{"actions":[{"type":"deny"}]}]}', /^POLICY_/]
  ]
  for (const [text, code] of cases) {
    for (const asked of [
      { method: 'PUT', path: `${path}/${route}/traffic_policy`, body: { value: text } },
      { method: 'PATCH', path: `${path}/${route}`, body: { traffic_policy: { value: text } } },
      { method: 'POST', path, body: { match: '/other', traffic_policy: { value: text } } }
    ]) {
      const answer = await ask(asked.path, asked)
      t.equal(answer.status, 400, text)
      t.match(word(t, answer), code)
      const field = asked.method === 'PUT' ? 'value' : 'traffic_policy.value'
      t.match(answer.json.details, { field, line: /^\d+$/, column: /^\d+$/, path: String })
    }
  }
  const placed = await ask(`${path}/${route}/traffic_policy`, { method: 'PUT', body: { value: wrong } })
  t.match(placed.json.details, { line: '3' })
  t.equal((await ask(`${path}/${route}/traffic_policy`)).json.value, value)
  t.equal(holder.current(), running, 'not even the snapshot is another')
})

t.test('secrets are shown to nobody but their owner, and there only where they belong', async (t) => {
  const canary = 'canary-that-must-not-sing'
  const { ask, logged, faults } = await openAccount(t)
  const vault = await make(ask, '/vaults', { name: 'main' })
  const secret = await make(ask, '/vault_secrets', { name: 's', value: canary, vault_id: vault.id })
  const edge = await make(ask, '/edges/https')
  const webhook = { provider: 'github', secret: canary }
  const oauth = { provider: { github: { client_id: 'app', client_secret: canary } } }
  const routes = `/edges/https/${edge.id}/routes`
  const route = await make(ask, routes, { match: '/', webhook_verification: webhook, oauth })
  t.equal(route.webhook_verification.secret, canary)
  t.equal((await ask(`${routes}/${route.id}/oauth`)).json.provider.github.client_secret, canary)
  const texts = await Promise.all(
    ['/vault_secrets', `/vault_secrets/${secret.id}`, `/vaults/${vault.id}/secrets`, '/edges/https', '/processes'].map(
      async (path) => (await ask(path)).text
    )
  )
  const refusals = [
    await ask('/vault_secrets', { method: 'POST', body: { name: 's', value: canary, vault_id: vault.id } }),
    await ask('/vault_secrets', { method: 'POST', body: { name: '?', value: canary, vault_id: vault.id } }),
    await ask('/vault_secrets', { method: 'POST', body: `{"value":"${canary}"` }),
    await ask(`${routes}/${route.id}`, {
      method: 'PATCH',
      body: { webhook_verification: { provider: canary, secret: canary } }
    }),
    await ask(`/vault_secrets?value=${canary}`),
    await ask(`/vault_secrets?limit=${canary}`),
    await ask('/vault_secrets', { key: canary })
  ]
  for (const { status, text } of refusals) {
    t.ok(status >= 400)
    texts.push(text)
  }
  texts.push(JSON.stringify(logged))
  for (const text of texts) t.notMatch(text, canary)
  t.same(faults, [])
})

t.test('the secrets of a vault are listed below it', async (t) => {
  const { ask } = await openAccount(t)
  const [one, two] = [await make(ask, '/vaults', { name: 'one' }), await make(ask, '/vaults', { name: 'two' })]
  const names: string[] = []
  for (const name of ['a', 'b', 'c']) {
    names.push((await make(ask, '/vault_secrets', { name, value: 'v', vault_id: one.id })).id)
    await make(ask, '/vault_secrets', { name, value: 'v', vault_id: two.id })
  }
  const path = `/vaults/${one.id}/secrets`
  const first = await ask(`${path}?limit=2`)
  t.equal(pathIn(first.json.uri), path)
  const second = await ask(pathIn(first.json.next_page_uri))
  const listed = [...first.json.secrets, ...second.json.secrets].map(({ id }) => id)
  t.same(listed, names.reverse())
  t.equal(second.json.next_page_uri, null)
  t.equal((await ask('/vaults/nothing_1/secrets')).status, 404)
})

t.test('sources of a subscription have URLs of their own', async (t) => {
  const { ask } = await openAccount(t)
  const [created, updated, deleted] = ['created', 'updated', 'deleted'].map((change) => `vault_${change}.v0`)
  const { id, uri, sources } = await make(ask, '/event_subscriptions', { sources: [{ type: created }] })
  t.same(sources, [{ type: created, uri: `${uri}/sources/${created}` }])
  const path = `/event_subscriptions/${id}/sources`
  const added = await ask(path, { method: 'POST', body: { type: updated, subscription_id: id } })
  t.equal(added.status, 201, added.text)
  t.same(added.json, { type: updated, uri: `${uri}/sources/${updated}` })
  t.equal(added.headers.location, added.json.uri)
  t.equal(word(t, await ask(path, { method: 'POST', body: { type: updated } })), 'FIELD_INVALID')
  t.equal(word(t, await ask(path, { method: 'POST', body: { type: 'no.v0' } })), 'FIELD_INVALID')
  t.equal(word(t, await ask(path, { method: 'POST', body: { type: deleted, more: 1 } })), 'FIELD_UNKNOWN')
  t.same((await ask(path)).json, { sources: [sources[0], added.json], uri: `${uri}/sources` })
  t.same((await ask(`${path}/${updated}`)).json, added.json)
  const patch = (type: string, body: object, headers = {}) => ask(`${path}/${type}`, { method: 'PATCH', body, headers })
  t.same((await patch(String(updated), { subscription_id: id, type: updated })).json, added.json)
  const renamed = await patch(String(updated), { type: deleted })
  t.equal(renamed.status, 200, renamed.text)
  t.equal(renamed.json.type, deleted)
  t.equal((await ask(`${path}/${updated}`)).status, 404)
  const unknown = await patch(String(deleted), { more: 1 })
  t.equal(word(t, unknown), 'FIELD_UNKNOWN')
  t.equal(unknown.json.details.field, 'more')
  t.equal((await patch(String(deleted), {}, { 'if-match': '"1"' })).status, 412)
  t.equal((await patch(String(updated), {})).status, 404)
  t.equal((await ask(`${path}/${deleted}`, { method: 'DELETE' })).status, 204)
  t.equal((await ask(`${path}/${deleted}`, { method: 'DELETE' })).status, 404)
  t.equal(word(t, await ask(`${path}/${created}`, { method: 'DELETE' })), 'FIELD_INVALID', 'one must stay')
})

t.test('answers name the revision that serves', async (t) => {
  const { ask, control } = await openAccount(t)
  const made = await ask('/ip_policies', { method: 'POST', body: {} })
  const revision = Number(made.headers['service-revision'])
  t.equal(revision, control.configuration.revision)
  t.equal((await ask(`/ip_policies/${made.json.id}`)).headers['service-revision'], String(revision))
  const updated = await ask(`/ip_policies/${made.json.id}`, { method: 'PATCH', body: { description: 'b' } })
  t.equal(Number(updated.headers['service-revision']), revision + 1)
  t.match((await ask('/processes')).json.processes, [{ applied_revision: revision + 1, last_error: null, self: true }])
})

t.test('the API of one account answers under any number of connections', async (t) => {
  const { host, port, control } = await openAccount(t)
  const ask = asker(host, port)
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) => ask('/vaults', { method: 'POST', body: { name: `v${index % 10}` } }))
  )
  const made = answers.filter(({ status }) => status === 201)
  t.equal(made.length, 10, 'each name once')
  t.ok(answers.every(({ status }) => status === 201 || status === 409))
  t.equal(Math.max(...made.map(({ headers }) => Number(headers['service-revision']))), control.configuration.revision)
})
