import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { BASE, make, openAccount, pathIn } from './account.js'
import { word } from './asking.js'

t.test('a client that has the current version of something gets 304', async (t) => {
  const { ask } = await openAccount(t)
  const policy = await make(ask, '/ip_policies')
  const edge = await make(ask, '/edges/tcp', { ip_restriction: { ip_policy_ids: [policy.id] } })
  const paths = [pathIn(policy.uri), pathIn(edge.uri), `${pathIn(edge.uri)}/ip_restriction`]
  for (const path of paths) {
    const { headers } = await ask(path)
    const tag = String(headers.etag)
    for (const known of [tag, `W/${tag}`, `"0", ${tag}`, '*']) {
      const answer = await ask(path, { headers: { 'if-none-match': known } })
      t.match(answer, { status: 304, text: '' }, known)
      t.match(answer.headers, { etag: tag, 'service-revision': headers['service-revision'] })
    }
    for (const known of ['"0"', '"other"', 'W/"0"']) {
      t.equal((await ask(path, { headers: { 'if-none-match': known } })).status, 200, known)
    }
    t.equal((await ask(path, { method: 'HEAD', headers: { 'if-none-match': tag } })).status, 304)
    for (const wrong of ['x', '"a', ',']) {
      t.equal(word(t, await ask(path, { headers: { 'if-none-match': wrong } })), 'PRECONDITION_INVALID', wrong)
    }
  }
  const path = pathIn(policy.uri)
  const tag = String((await ask(path)).headers.etag)
  const changed = await ask(path, { method: 'PATCH', body: { description: 'd' }, headers: { 'if-none-match': tag } })
  t.equal(changed.status, 200, 'it is asked of reads only')
  t.equal((await ask(path, { headers: { 'if-none-match': tag } })).status, 200, 'the version is another one')
  const refused = await ask(path, { headers: { 'if-none-match': '*' }, key: 'wrong-key-of-nobody' })
  t.equal(refused.status, 401, 'who may not read learns nothing')
})

t.test('an edge has another version when its routes have, so that 304 is never stale', async (t) => {
  const { ask } = await openAccount(t)
  const edge = await make(ask, '/edges/https')
  const path = pathIn(edge.uri)
  const tag = String((await ask(path)).headers.etag)
  await make(ask, `${path}/routes`, { match: '/' })
  const answer = await ask(path, { headers: { 'if-none-match': tag } })
  t.equal(answer.status, 200)
  t.equal(answer.json.routes.length, 1)
})

t.test('what shows connected agents is always told anew', async (t) => {
  const { ask } = await openAccount(t)
  const backend = await make(ask, '/backends/tunnel_group', { labels: { app: 'web' } })
  const { headers } = await ask(pathIn(backend.uri))
  t.match(headers.etag, /^"\d+"$/, 'it has a version, for If-Match')
  t.equal((await ask(pathIn(backend.uri), { headers: { 'if-none-match': String(headers.etag) } })).status, 200)
})

t.test('a write with If-Match goes on only while nobody else has written', async (t) => {
  const { ask } = await openAccount(t)
  const sources = [{ type: 'vault_created.v0' }, { type: 'vault_deleted.v0' }]
  const { id, uri } = await make(ask, '/event_subscriptions', { sources })
  const tag = String((await ask(pathIn(uri))).headers.etag)
  const patch = (type: string, to: string, headers = {}) =>
    ask(`/event_subscriptions/${id}/sources/${type}`, { method: 'PATCH', body: { type: to }, headers })
  const first = await patch('vault_created.v0', 'vault_updated.v0', { 'if-match': tag })
  t.equal(first.status, 200, first.text)
  t.same(first.json, { type: 'vault_updated.v0', uri: `${BASE}/event_subscriptions/${id}/sources/vault_updated.v0` })
  t.equal(word(t, await patch('vault_deleted.v0', 'vault_created.v0', { 'if-match': tag })), 'PRECONDITION_FAILED')
  t.equal(word(t, await patch('vault_created.v0', 'vault_created.v0')), 'NOT_FOUND')
  const twice = await patch('vault_deleted.v0', 'vault_updated.v0')
  t.equal(word(t, twice), 'FIELD_INVALID')
  t.equal(twice.json.details.field, 'type', 'the field of this body')
  t.equal(word(t, await patch('vault_deleted.v0', 'odd')), 'FIELD_INVALID')
  const { json } = await ask(`/event_subscriptions/${id}/sources`)
  t.same(
    json.sources.map(({ type }: { type: string }) => type),
    ['vault_updated.v0', 'vault_deleted.v0'],
    'an entry keeps its place'
  )
})

t.test('entries of one list that are changed at once are all changed', async (t) => {
  const { ask } = await openAccount(t)
  const kinds = ['vault', 'secret', 'ip_policy', 'domain', 'tls_certificate', 'api_key']
  const sources = kinds.map((kind) => ({ type: `${kind}_created.v0` }))
  const { id } = await make(ask, '/event_subscriptions', { sources })
  const answers = await Promise.all(
    kinds.map((kind) =>
      ask(`/event_subscriptions/${id}/sources/${kind}_created.v0`, {
        method: 'PATCH',
        body: { type: `${kind}_deleted.v0`, subscription_id: id }
      })
    )
  )
  for (const { status, text } of answers) t.equal(status, 200, text)
  const { json } = await ask(`/event_subscriptions/${id}/sources`)
  t.same(
    json.sources.map(({ type }: { type: string }) => type),
    kinds.map((kind) => `${kind}_deleted.v0`)
  )
})

t.test('a secret goes into the vault of a name, or of an id', async (t) => {
  const { ask } = await openAccount(t)
  const vault = await make(ask, '/vaults', { name: 'production' })
  const post = (body: object) => ask('/vault_secrets', { method: 'POST', body: { value: 'v', ...body } })
  const named = await post({ name: 'a', vault_name: 'production' })
  t.equal(named.status, 201, named.text)
  t.same(named.json.vault, { id: vault.id, uri: vault.uri })
  t.equal((await post({ name: 'b', vault_id: vault.id })).status, 201)
  const refused: [object, string, string][] = [
    [{ name: 'c', vault_name: 'staging' }, 'REF_NOT_FOUND', 'vault_name'],
    [{ name: 'c', vault_name: 7 }, 'FIELD_INVALID', 'vault_name'],
    [{ name: 'c', vault_name: 'production', vault_id: vault.id }, 'CONFLICTING_FIELDS', 'vault_name'],
    [{ name: 'c' }, 'FIELD_REQUIRED', 'vault_id']
  ]
  for (const [body, expected, field] of refused) {
    const answer = await post(body)
    t.equal(word(t, answer), expected)
    t.equal(answer.json.details.field, field)
  }
  const moved = await ask(pathIn(named.json.uri), { method: 'PATCH', body: { vault_name: 'production' } })
  t.equal(word(t, moved), 'FIELD_UNKNOWN', 'a secret stays in its vault')
})

t.test('what is no API key but something else of the account is told apart', async (t) => {
  const { ask } = await openAccount(t)
  const credential = await make(ask, '/credentials')
  const key = await make(ask, '/api_keys')
  t.equal((await ask('/vaults', { key: key.token })).status, 200)
  for (const wrong of [credential.token, credential.id, key.id, `ak_${'0'.repeat(27)}`]) {
    const answer = await ask('/vaults', { key: wrong })
    t.equal(answer.status, 401, wrong)
    t.equal(word(t, answer), 'AUTH_WRONG_KIND')
    t.equal(answer.headers['www-authenticate'], 'Bearer')
    t.notMatch(answer.text, wrong, 'it is not repeated')
  }
  for (const wrong of [`${credential.token}x`, `${key.id}x`, key.token.slice(0, -1), key.token.toUpperCase()]) {
    t.equal(word(t, await ask('/vaults', { key: wrong })), 'AUTH_INVALID', wrong)
  }
  await ask(pathIn(credential.uri), { method: 'DELETE' })
  t.equal(word(t, await ask('/vaults', { key: credential.token })), 'AUTH_INVALID', 'it is nothing any more')
})

t.test('without the key that sealed a secret the API says what is needed', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-seal-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const address = join(folder, 'sluice.db')
  const before = await openAccount(t, { address })
  const vault = await make(before.ask, '/vaults', { name: 'v' })
  const secret = await make(before.ask, '/vault_secrets', { vault_id: vault.id, name: 'n', value: 'planted-value' })
  await before.control.close()
  // Each account of a test has a sealing key of its own.
  const { ask, faults } = await openAccount(t, { address })
  const path = pathIn(secret.uri)
  for (const answer of [await ask(path), await ask(path, { method: 'PATCH', body: { description: 'd' } })]) {
    t.equal(answer.status, 503)
    t.equal(word(t, answer), 'SEAL_KEY_LOST')
    t.match(answer.json.msg, /SLUICE_SEAL_KEY/)
    t.notMatch(answer.text, 'planted-value')
  }
  t.equal((await ask('/vaults')).status, 200, 'everything else is there')
  t.match(await ask('/vault_secrets'), { status: 200, json: { secrets: [{ id: secret.id }] } })
  const anew = await ask(path, { method: 'PATCH', body: { value: 'another value' } })
  t.equal(anew.status, 200, 'a secret that is given anew is there again')
  t.equal((await ask(path)).status, 200)
  t.equal((await make(ask, '/ip_policies')).description, '')
  t.same(faults, [])
})

t.test('a wildcard and a name below it are two domains of one account', async (t) => {
  const { ask } = await openAccount(t)
  await make(ask, '/reserved_domains', { domain: '*.example.com' })
  await make(ask, '/reserved_domains', { domain: 'app.example.com' })
  await make(ask, '/reserved_domains', { domain: 'example.com' })
  for (const domain of ['*.example.com', '*.EXAMPLE.com.', 'App.Example.Com']) {
    const taken = await ask('/reserved_domains', { method: 'POST', body: { domain } })
    t.equal(taken.status, 409, domain)
    t.equal(word(t, taken), 'ALREADY_EXISTS')
  }
})
