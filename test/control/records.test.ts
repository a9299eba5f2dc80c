import t from 'tap'
import type { ResourceRecord } from '../../src/schema/field.js'
import { type Answer, BASE, DENY, open, resource } from './account.js'

t.test('a record is created, read, changed, listed and deleted, and each write is one revision', async (t) => {
  const account = await open(t)
  const start = account.control.configuration.revision
  const made = await account.create('ip_policy', { description: 'office' })
  t.equal(made.committed, start + 1)
  t.equal(made.revision, start + 1)
  t.equal(made.uri, `${BASE}/ip_policies/${made.id}`)
  t.match(made.answer, { id: made.id, uri: made.uri, description: 'office', metadata: '' })
  t.same(await account.get('ip_policy', { id: made.id }), made.answer)

  const changed = await account.update('ip_policy', { id: made.id }, { metadata: 'm' })
  t.equal(changed.revision, start + 2)
  t.match(changed.answer, { description: 'office', metadata: 'm', created_at: made.answer.created_at })

  const list = (await account.control.records.list(
    resource('ip_policy'),
    { path: {}, limit: 10 },
    account.call()
  )) as Answer
  t.same(list, { ip_policies: [changed.answer], uri: `${BASE}/ip_policies`, next_page_uri: null })

  t.equal((await account.remove('ip_policy', { id: made.id })).committed, start + 3)
  await t.rejects(account.get('ip_policy', { id: made.id }), { code: 'NOT_FOUND' })
  await t.rejects(account.remove('ip_policy', { id: made.id }), { code: 'NOT_FOUND' })
  t.equal(account.control.configuration.revision, start + 3, 'what is refused uses no revision')
})

t.test('a write that changes nothing is answered and uses no revision', async (t) => {
  const account = await open(t)
  const { id, revision } = await account.create('ip_policy', { description: 'a' })
  for (const body of [{}, { description: 'a' }]) {
    const again = await account.update('ip_policy', { id }, body)
    t.match(again, { revision, committed: revision })
  }
  t.equal(account.events.length, 1)
  const secretless = await account.create('vault', { name: 'v' })
  account.clock.advance(2000)
  const touched = await account.update('vault', { id: secretless.id }, { name: 'v' })
  t.not(touched.answer.updated_at, secretless.answer.updated_at, 'given is given, though the value is the same')
})

t.test('a list pages from newest to oldest past deleted cursors and refuses what is no cursor', async (t) => {
  const account = await open(t)
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.unshift((await account.create('ip_policy', {})).id)
  const list = async (beforeId?: string) =>
    (await account.control.records.list(resource('ip_policy'), { path: {}, limit: 2, beforeId }, account.call())) as {
      ip_policies: { id: string }[]
      next_page_uri: string | null
    }
  const first = await list()
  t.same(
    first.ip_policies.map(({ id }) => id),
    ids.slice(0, 2)
  )
  t.equal(first.next_page_uri, `${BASE}/ip_policies?before_id=${ids[1]}&limit=2`)
  await account.remove('ip_policy', { id: ids[1] as string })
  await account.create('ip_policy', {})
  const second = await list(ids[1])
  t.same(
    second.ip_policies.map(({ id }) => id),
    ids.slice(2, 4)
  )
  t.equal((await list(ids[3])).next_page_uri, null)
  await t.rejects(list('ipp_nothing'), { code: 'QUERY_INVALID', field: 'before_id' })
})

t.test('every problem of a body is reported, the first one is the error', async (t) => {
  const account = await open(t)
  const error = await account.create('ip_policy_rule', { cidr: '10.0.0.1', colour: 'red' }).then(
    () => undefined,
    (thrown) => thrown
  )
  t.equal(error.name, 'ControlError')
  t.ok(error.problems.length >= 3, 'unknown field, bad cidr, missing policy and action')
  t.equal(error.code, error.problems[0].code)
  t.equal(error.details.field, error.problems[0].field)
  t.equal(account.events.length, 0)
})

t.test('references must lead somewhere, and the error names the field of the request', async (t) => {
  const account = await open(t)
  const policy = await account.create('ip_policy', {})
  const gone = await account.create('ip_policy', {})
  await account.remove('ip_policy', { id: gone.id })
  await t.rejects(account.create('ip_restriction', { type: 'agent', ip_policy_ids: [policy.id, gone.id] }), {
    code: 'REF_NOT_FOUND',
    field: 'ip_policy_ids[1]'
  })
  await t.rejects(account.create('ip_restriction', { type: 'agent', ip_policy_ids: ['bot_1'] }), {
    code: 'REF_INVALID'
  })
  const backend = await account.create('static_backend', { address: '127.0.0.1:1' })
  await account.remove('static_backend', { id: backend.id })
  await t.rejects(account.create('tcp_edge', { backend: { backend_id: backend.id } }), {
    code: 'REF_NOT_FOUND',
    field: 'backend.backend_id'
  })
  await t.rejects(account.create('tcp_edge', { ip_restriction: { ip_policy_ids: [gone.id] } }), {
    code: 'REF_NOT_FOUND',
    field: 'ip_restriction.ip_policy_ids[0]'
  })
  await t.rejects(account.create('https_edge_route', { match: '/' }, { edge_id: `edghts_${'1'.repeat(27)}` }), {
    code: 'NOT_FOUND'
  })
  const edge = await account.site('a.test')
  const other = await account.site('b.test')
  await t.rejects(account.get('https_edge_route', { id: edge.route, edge_id: other.edge }), { code: 'NOT_FOUND' })
})

t.test('what is unique belongs to one record and is free again after it', async (t) => {
  const account = await open(t)
  const first = await account.create('https_edge', { hostports: ['a.test:443', 'b.test:443'] })
  const taken = { code: 'ALREADY_EXISTS', field: 'hostports', details: { taken_by: `https_edge ${first.id}` } }
  await t.rejects(account.create('https_edge', { hostports: ['b.test:443'] }), taken)
  await t.rejects(account.create('tcp_edge', { hostports: ['b.test:443'] }), taken, 'all edges share one space')
  await account.update('https_edge', { id: first.id }, { hostports: ['a.test:443'] })
  const second = await account.create('https_edge', { hostports: ['b.test:443'] })
  await t.rejects(account.update('https_edge', { id: first.id }, { hostports: ['B.test:443'] }), {
    code: 'ALREADY_EXISTS'
  })
  t.same((await account.get('https_edge', { id: first.id })).hostports, ['a.test:443'])
  await account.remove('https_edge', { id: second.id })
  await account.update('https_edge', { id: first.id }, { hostports: ['b.test:443'] })

  const vault = await account.create('vault', { name: 'v' })
  const vault2 = await account.create('vault', { name: 'w' })
  await account.create('vault_secret', { name: 's', value: 'x', vault_id: vault.id })
  await account.create('vault_secret', { name: 's', value: 'x', vault_id: vault2.id })
  await t.rejects(account.create('vault_secret', { name: 's', value: 'x', vault_id: vault.id }), {
    code: 'ALREADY_EXISTS'
  })
})

t.test('what others need is not deleted, and they are named', async (t) => {
  const account = await open(t)
  const backend = await account.create('static_backend', { address: '127.0.0.1:1' })
  const edge = await account.create('tcp_edge', { backend: { backend_id: backend.id } })
  const weighted = await account.create('weighted_backend', { backends: { [backend.id]: 1 } })
  const users = [`tcp_edge ${edge.id}`, `weighted_backend ${weighted.id}`].sort().join(', ')
  await t.rejects(account.remove('static_backend', { id: backend.id }), {
    code: 'IN_USE',
    details: { used_by: users, users: '2' }
  })
  const vault = await account.create('vault', { name: 'v' })
  await account.create('vault_secret', { name: 's', value: 'x', vault_id: vault.id })
  await t.rejects(account.remove('vault', { id: vault.id }), { code: 'IN_USE' })
  const authority = await account.create('ssh_certificate_authority', {})
  const { public_key } = (await account.create('ssh_certificate_authority', {})).answer
  await account.create('ssh_host_certificate', { public_key, ssh_certificate_authority_id: authority.id })
  await t.rejects(account.remove('ssh_certificate_authority', { id: authority.id }), { code: 'IN_USE' })
  await account.remove('weighted_backend', { id: weighted.id })
  await account.remove('tcp_edge', { id: edge.id })
  await account.remove('static_backend', { id: backend.id })
})

t.test('a reserved domain stays while an edge serves it; if wanted, edges need one', async (t) => {
  const account = await open(t)
  const domain = await account.create('reserved_domain', { domain: 'a.test' })
  const { edge } = await account.site('a.test')
  const used = { code: 'IN_USE', details: { used_by: `https_edge ${edge}` } }
  await t.rejects(account.remove('reserved_domain', { id: domain.id }), used)
  await account.remove('https_edge', { id: edge })
  await account.remove('reserved_domain', { id: domain.id })

  const strict = await open(t, { requireReserved: true })
  await strict.create('reserved_domain', { domain: 'a.test' })
  await strict.create('reserved_domain', { domain: '*.b.test' })
  const made = await strict.create('https_edge', { hostports: ['a.test:443', 'x.y.b.test:443', '*.b.test:443'] })
  for (const host of ['b.test', 'c.test', 'xa.test', '*.a.test']) {
    const refused = { code: 'REF_NOT_FOUND', field: 'hostports[1]' }
    const body = { hostports: ['a.test:443', `${host}:443`] }
    await t.rejects(strict.update('https_edge', { id: made.id }, body), refused, host)
  }
})

t.test('an IP policy goes though it is in use: its rules with it, its references stay', async (t) => {
  const account = await open(t)
  const policy = await account.create('ip_policy', {})
  const rule = await account.create('ip_policy_rule', { ip_policy_id: policy.id, cidr: '10.0.0.0/8', action: 'allow' })
  const restriction = await account.create('ip_restriction', { type: 'agent', ip_policy_ids: [policy.id] })
  await account.remove('ip_policy', { id: policy.id })
  await t.rejects(account.get('ip_policy_rule', { id: rule.id }), { code: 'NOT_FOUND' })
  const refs = [{ id: policy.id, uri: `${BASE}/ip_policies/${policy.id}` }]
  t.same((await account.get('ip_restriction', { id: restriction.id })).ip_policies, refs)
  const other = await account.create('ip_policy', {})
  await account.update('ip_restriction', { id: restriction.id }, { ip_policy_ids: [policy.id, other.id] })
  t.equal((await account.store.referencesTo('ip_policy', policy.id)).length, 1)
})

t.test('an edge shows its routes, takes them along, and has a new revision when they change', async (t) => {
  const account = await open(t)
  const { edge, route } = await account.site('a.test', DENY)
  const second = await account.create('https_edge_route', { match: '/b' }, { edge_id: edge })
  const before = await account.control.records.get(resource('https_edge'), { path: { id: edge } }, account.call())
  t.same(
    (before.body as { routes: { id: string }[] }).routes.map(({ id }) => id),
    [route, second.id],
    'oldest first'
  )
  const path = { id: second.id, edge_id: edge }
  const changed = await account.update('https_edge_route', path, { description: 'x' })
  const after = await account.control.records.get(resource('https_edge'), { path: { id: edge } }, account.call())
  t.equal(after.revision, changed.committed)
  account.events.length = 0
  await account.remove('https_edge', { id: edge })
  await t.rejects(account.get('https_edge_route', path), { code: 'NOT_FOUND' })
  const told = account.events.map(({ type, id }) => `${type} ${id}`).sort()
  t.same(
    told,
    [
      `edge_https_deleted.v0 ${edge}`,
      `edge_https_route_deleted.v0 ${route}`,
      `edge_https_route_deleted.v0 ${second.id}`
    ].sort()
  )
  const shown = account.events.find(({ kind }) => kind === 'https_edge')?.object as { routes: unknown[] }
  t.equal(shown.routes.length, 2, 'a deleted record is shown as it was')
  await account.create('https_edge', { hostports: ['a.test:443'] })
})

t.test('modules are replaced, read and removed on their own', async (t) => {
  const account = await open(t)
  const { edge, route } = await account.site('a.test')
  const path = { id: route, edge_id: edge }
  const routes = resource('https_edge_route')
  const read = () => account.control.records.getModule(routes, { path, module: 'webhook_verification' }, account.call())
  await t.rejects(read(), { code: 'NOT_FOUND' })
  const written = await account.put('https_edge_route', path, 'webhook_verification', {
    provider: 'github',
    secret: 'hush'
  })
  t.same(written.body, { enabled: true, provider: 'github', secret: 'hush' })
  t.same((await read()).body, written.body)
  t.equal((await read()).revision, written.revision)
  const kept = await account.update('https_edge_route', path, { description: 'd', webhook_verification: null })
  t.match(kept.answer, { description: 'd', webhook_verification: { secret: 'hush' } }, 'null leaves a module alone')
  await t.rejects(account.put('https_edge_route', path, 'webhook_verification', { provider: 'github' }), {
    name: 'ControlError'
  })
  const remove = () =>
    account.control.records.removeModule(routes, { path, module: 'webhook_verification' }, account.call())
  const removed = await remove()
  t.equal((await remove()).committed, removed.committed, 'a second removal changes nothing')
  t.equal((await account.get('https_edge_route', path)).webhook_verification, null)
  const stored = await account.store.get('https_edge_route', route)
  t.equal(stored?.sealed, null, 'the secret went with the module')
})

t.test('sources of a subscription are entries of their own', async (t) => {
  const account = await open(t)
  const subscriptions = resource('event_subscription')
  const [part] = subscriptions.parts
  if (part === undefined) throw new Error('no parts')
  const { id, uri } = await account.create('event_subscription', { sources: [{ type: 'vault_created.v0' }] })
  const path = { id }
  const { control } = account
  const added = await control.records.addPart(
    subscriptions,
    part,
    { path, body: { type: 'vault_deleted.v0' } },
    account.call()
  )
  t.same(added.body, { type: 'vault_deleted.v0', uri: `${uri}/sources/vault_deleted.v0` })
  const all = await control.records.getParts(subscriptions, part, { path }, account.call())
  t.equal((all.body as { sources: unknown[] }).sources.length, 2)
  await t.rejects(
    control.records.addPart(subscriptions, part, { path, body: { type: 'vault_deleted.v0' } }, account.call()),
    {
      name: 'ControlError'
    }
  )
  const first = { path, key: 'vault_created.v0' }
  await control.records.removePart(subscriptions, part, first, account.call())
  await t.rejects(control.records.getPart(subscriptions, part, first, account.call()), { code: 'NOT_FOUND' })
  await t.rejects(control.records.removePart(subscriptions, part, first, account.call()), { code: 'NOT_FOUND' })
  await t.rejects(control.records.removePart(subscriptions, part, { path, key: 'vault_deleted.v0' }, account.call()), {
    code: 'FIELD_INVALID',
    field: 'sources'
  })
})

t.test('secrets are sealed, tokens are hashed, and neither is in an event, a list or the history', async (t) => {
  const account = await open(t)
  const SECRET = 'do-not-tell-anybody'
  const vault = await account.create('vault', { name: 'v' })
  const made = await account.create('vault_secret', { name: 's', value: SECRET, vault_id: vault.id })
  const { edge, route } = await account.site('a.test')
  const path = { id: route, edge_id: edge }
  await account.put('https_edge_route', path, 'webhook_verification', { provider: 'github', secret: SECRET })
  const key = await account.create('credential', {})
  const token = key.answer.token as string
  t.match(token, /^[0-9A-Za-z]{27}_[0-9a-f]{64}$/)
  t.equal((await account.get('credential', { id: key.id })).token, null)
  const list = await account.control.records.list(resource('https_edge'), { path: {}, limit: 10 }, account.call())
  t.match(list, { https_edges: [{ routes: [{ webhook_verification: { secret: null } }] }] })
  const stored = (await account.store.get('vault_secret', made.id)) as { sealed: Uint8Array; body: unknown }
  t.ok(stored.sealed.length > SECRET.length)
  const everything = JSON.stringify([
    stored.body,
    Buffer.from(stored.sealed).toString('latin1'),
    await account.store.get('https_edge_route', route),
    await account.store.get('credential', key.id),
    await account.store.claimsOf('credential', key.id),
    await account.store.history({ limit: 100 }),
    account.events,
    list,
    account.log.texts,
    [...account.holder.current().plan.units]
  ])
  t.notMatch(everything, SECRET)
  t.notMatch(everything, token)
  const kept = await account.update('vault_secret', { id: made.id }, { description: 'd' })
  t.equal((kept.record as ResourceRecord).secrets.value, SECRET, 'an update that does not name it keeps it')
})

t.test('events tell what happened once it serves, with who did it', async (t) => {
  const revisions: number[] = []
  const account = await open(t)
  const control = account.control
  const bot = await account.create('bot_user', { name: 'robot' })
  const key = await account.create('api_key', { owner_id: bot.id })
  const principal = await control.access.authenticate(key.answer.token as string)
  account.events.length = 0
  const made = await account.create('ip_policy', { description: 'd' }, {}, principal)
  await account.update('ip_policy', { id: made.id }, { description: 'e' })
  await account.remove('ip_policy', { id: made.id })
  t.match(account.events, [
    {
      type: 'ip_policy_created.v0',
      revision: made.committed,
      principal: { id: bot.id, subject: 'robot', key: key.id },
      object: { id: made.id, description: 'd' }
    },
    { type: 'ip_policy_updated.v0', object: { description: 'e' }, principal: { key: null } },
    { type: 'ip_policy_deleted.v0', object: { description: 'e' } }
  ])
  const heard = await open(t, {
    published: ({ revision }) => {
      revisions.push(revision)
      throw new Error('whoever listens fails')
    }
  })
  const second = await heard.create('ip_policy', {})
  t.same(revisions, [second.committed])
  t.match(heard.log.texts.join(), /an event was not taken/)
})

t.test('a dry run answers as the write would and changes nothing', async (t) => {
  const account = await open(t)
  const { edge, route } = await account.site('a.test')
  const before = account.control.configuration.revision
  const path = { id: route, edge_id: edge }
  const dry = await account.put('https_edge_route', path, 'traffic_policy', { value: DENY }, { dryRun: true })
  t.match(dry, {
    committed: before,
    body: { enabled: true },
    difference: { put: [`route:${route}`, `policy:${route}`] }
  })
  t.equal(account.holder.current().policy(`policy:${route}`), undefined)
  t.equal((await account.get('https_edge_route', path)).traffic_policy, null)
  const real = await account.put('https_edge_route', path, 'traffic_policy', { value: DENY })
  t.same({ ...real.difference, routes: [route] }, dry.difference, 'and a dry run names the routes')
  t.equal(real.committed, before + 1)
})
