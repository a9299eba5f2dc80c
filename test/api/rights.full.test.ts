import t, { type Test } from 'tap'
import { MEMBER_RIGHTS, memberRights, type Right, type Rights } from '../../src/control/rights.js'
import { newId } from '../../src/lib/id.js'
import { resources } from '../../src/resources/registry.js'
import type { Resource } from '../../src/resources/resource.js'
import { ManualClock } from '../helpers/clock.js'
import { bodies, MARK } from '../resources/bodies.js'
import { make, openAccount, pathIn } from './account.js'
import { type Answer, type Ask, word } from './asking.js'
import { Samples } from './conformance.js'

const GONE = newId('cr', 0)
const writable = resources.filter(({ operations }) => operations.includes('create'))

/** An API, and callers: the administrator and two bots. */
async function open(t: Test, options: Parameters<typeof openAccount>[1] = {}) {
  const account = await openAccount(t, { clock: new ManualClock(), ...options })
  const caller = async (name: string) => {
    const bot = await make(account.ask, '/bot_users', { name })
    const key = await make(account.ask, '/api_keys', { owner_id: bot.id })
    const ask: Ask = (path, asked = {}) => account.ask(path, { ...asked, key: key.token })
    return { id: bot.id as string, key: key.id as string, token: key.token as string, ask }
  }
  return { ...account, ann: await caller('ann'), bea: await caller('bea') }
}

const allowed = (rights: Rights, right: Right, own: boolean) => {
  const extent = rights[right]
  return extent === 'any' || (extent === 'own' && own)
}

t.test('the table has a row for each resource, and what has no row belongs to administrators alone', (t) => {
  t.same(Object.keys(MEMBER_RIGHTS).sort(), resources.map(({ name }) => name).sort())
  t.same(new Set(Object.values(memberRights({ name: 'not_there' }))), new Set(['none']))
  t.end()
})

for (const resource of writable) {
  t.test(`every cell of ${resource.name}: own, of another, as an administrator`, (t) => cells(t, resource))
}

async function cells(t: Test, resource: Resource) {
  const { ask, ann, bea, faults } = await open(t)
  const samples = new Samples(ask)
  const rights = memberRights(resource)
  const path = await samples.collection(resource)
  const { owner_id: _, ...full } = (await samples.real(bodies[resource.name]?.full ?? {})) as Record<string, unknown>
  const check = (t: Test, answer: Answer, may: boolean, status: number, what: string) => {
    t.equal(answer.status, may ? status : 403, `${what}: ${answer.text}`)
    if (!may) t.equal(word(t, answer), 'ADMIN_REQUIRED', what)
  }
  const used = async (t: Test, item: string, who: string) => {
    const own = who === 'own'
    const as = (may: Ask, right: 'read' | 'update' | 'delete', asked: object, query = '') =>
      may(`${item}${query}`, asked).then((answer) =>
        check(t, answer, may === ask || allowed(rights, right, own), 200, `${who} ${right}`)
      )
    for (const caller of [ann.ask, ask]) {
      await as(caller, 'read', {})
      const change = { method: 'PATCH', body: { metadata: 'new' } }
      const named = Object.hasOwn(resource.fields, 'metadata') ? change : { method: 'PATCH', body: {} }
      if (resource.operations.includes('update')) await as(caller, 'update', named, '?dry_run=true')
      await as(caller, 'delete', { method: 'DELETE' }, '?dry_run=true')
      for (const module of resource.modules) {
        const gone = await caller(`${item}/${module}?dry_run=true`, { method: 'DELETE' })
        check(t, gone, caller === ask || allowed(rights, 'update', own), 200, `${who} ${module}`)
      }
    }
    if (!resource.operations.includes('list')) return
    const { status, json } = await ann.ask(path)
    const ids = json[resource.listKey].map(({ id }: { id: string }) => id)
    t.equal(status, 200)
    t.equal(ids.includes(item.slice(item.lastIndexOf('/') + 1)), allowed(rights, 'read', own), `${who} in the list`)
  }
  const created = await ann.ask(path, { method: 'POST', body: full })
  check(t, created, rights.create !== 'none', 201, 'create')
  if (created.status === 201) {
    await used(t, pathIn(created.json.uri), 'own')
    const forced = await ann.ask(`${pathIn(created.json.uri)}?force=true`, { method: 'DELETE' })
    t.equal(word(t, forced), 'ADMIN_REQUIRED', 'force is the administrators alone')
    t.equal((await ask(`${pathIn(created.json.uri)}?force=true`, { method: 'DELETE' })).status, 204)
  }
  const maker = rights.create === 'none' ? ask : bea.ask
  const other = await maker(path, { method: 'POST', body: full })
  t.equal(other.status, 201, other.text)
  await used(t, pathIn(other.json.uri), 'other')
  t.same(faults, [])
}

t.test('secrets of a route are shown to its owner and to administrators, in every answer that has them', async (t) => {
  const { ask, ann, bea } = await open(t)
  const oauth = { provider: { github: { client_id: 'id', client_secret: MARK } } }
  const webhook_verification = { provider: 'github', secret: MARK }
  const edge = await make(ask, '/edges/https')
  const { id } = (
    await ann.ask(`/edges/https/${edge.id}/routes`, {
      method: 'POST',
      body: { match: '/', oauth, webhook_verification }
    })
  ).json
  const route = `/edges/https/${edge.id}/routes/${id}`
  const answers: [string, string, object][] = [
    ['the route', route, {}],
    ['its update', route, { method: 'PATCH', body: { description: 'x' } }],
    ['the module', `${route}/oauth`, {}],
    ['another module', `${route}/webhook_verification`, {}],
    ['the edge', `/edges/https/${edge.id}`, {}],
    ['the update of the edge', `/edges/https/${edge.id}`, { method: 'PATCH', body: { description: 'x' } }],
    ['the replaced module', `${route}/oauth`, { method: 'PUT', body: oauth }]
  ]
  for (const [what, path, asked] of answers) {
    for (const [who, caller, sees] of [
      ['owner', ann.ask, true],
      ['member', bea.ask, false],
      ['administrator', ask, true]
    ] as const) {
      const answer = await caller(path, asked)
      t.equal(answer.status, 200, answer.text)
      t.equal(answer.text.includes(MARK), sees, `${what} as ${who}`)
    }
  }
  t.equal((await ask(route)).json.owner_id, ann.id, 'writing does not take it over')
  for (const caller of [ann.ask, ask]) {
    t.notOk((await caller(`/edges/https?limit=1`)).text.includes(MARK), 'lists show none')
  }
})

t.test('a member has nothing to do with credentials and keys of others, whatever the way', async (t) => {
  const { ask, ann } = await open(t)
  const admin = await make(ask, '/credentials', { acl: ['bind:only.example.com'], description: 'of the house' })
  const path = `/credentials/${admin.id}`
  t.equal(word(t, await ann.ask(path, { method: 'PATCH', body: { acl: [] } })), 'ADMIN_REQUIRED')
  t.equal(word(t, await ann.ask(path)), 'ADMIN_REQUIRED')
  t.same((await ask(path)).json.acl, ['bind:only.example.com'])
  const patched = await ask(path, { method: 'PATCH', body: { acl: ['bind:two.example.com'] } })
  const revision = patched.headers['service-revision']
  const diff = async (caller: Ask) => (await caller(`/revisions/${revision}/diff`)).json.changes
  t.match(await diff(ask), [{ id: admin.id, fields: { acl: { after: ['bind:two.example.com'] } } }])
  t.same((await diff(ann.ask))[0].fields, null, 'the history does not tell either')
  await ask(path, { method: 'DELETE' })
  t.same((await diff(ann.ask))[0].fields, null, 'nor when it is gone')
  const own = await make(ann.ask, '/credentials', { acl: ['bind:mine.example.com'] })
  const made = await ann.ask(`/credentials/${own.id}`, { method: 'PATCH', body: { acl: [] } })
  t.match((await ann.ask(`/revisions/${made.headers['service-revision']}/diff`)).json.changes[0].fields.acl, {
    after: []
  })
})

t.test('pages of what is one’s own are whole pages', async (t) => {
  const { ask, ann } = await open(t)
  const own: string[] = []
  for (let number = 0; number < 7; number++) {
    await make(ask, '/credentials')
    own.unshift((await make(ann.ask, '/credentials')).id)
    await make(ask, '/credentials')
  }
  const seen: string[][] = []
  let next = '/credentials?limit=3'
  while (next !== '') {
    const { json } = await ann.ask(next)
    seen.push(json.credentials.map(({ id }: { id: string }) => id))
    next = json.next_page_uri === null ? '' : pathIn(json.next_page_uri)
  }
  t.same(seen, [own.slice(0, 3), own.slice(3, 6), own.slice(6)])
})

t.test('whom the account’s restrictions admit is the administrators’ to say, rules included', async (t) => {
  const { ask, ann } = await open(t)
  const policy = await make(ask, '/ip_policies')
  const spare = await make(ask, '/ip_policies')
  const rule = await make(ask, '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '127.0.0.0/8', action: 'allow' })
  const none = await ann.ask('/ip_policy_rules', {
    method: 'POST',
    body: { ip_policy_id: policy.id, cidr: '10.0.0.0/8', action: 'allow' }
  })
  t.equal(none.status, 201, 'as long as no such restriction rests on it, it is a policy like any other')
  for (const type of ['api', 'dashboard', 'agent', 'endpoints']) {
    const body = { type, enforced: true, ip_policy_ids: [policy.id] }
    t.equal(word(t, await ann.ask('/ip_restrictions', { method: 'POST', body })), 'ADMIN_REQUIRED')
    const made = pathIn((await make(ask, '/ip_restrictions', body)).uri)
    t.equal(word(t, await ann.ask(made, { method: 'PATCH', body: { enforced: false } })), 'ADMIN_REQUIRED')
    t.equal(word(t, await ann.ask(made, { method: 'DELETE' })), 'ADMIN_REQUIRED')
    const writes: [string, object][] = [
      ['/ip_policy_rules', { method: 'POST', body: { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'deny' } }],
      [pathIn(rule.uri), { method: 'PATCH', body: { cidr: '127.0.0.1/32' } }],
      [pathIn(none.json.uri), { method: 'DELETE' }],
      [pathIn(policy.uri), { method: 'DELETE' }]
    ]
    for (const [path, asked] of writes)
      t.equal(word(t, await ann.ask(path, asked)), 'ADMIN_REQUIRED', `${type} ${path}`)
    t.equal((await ann.ask(pathIn(spare.uri), { method: 'PATCH', body: { description: type } })).status, 200)
    await ask(made, { method: 'DELETE' })
  }
})

t.test('members make no edge for every other host, and keep one that is there', async (t) => {
  const { ask, ann } = await open(t)
  const edge = (caller: Ask, hostports: string[]) => caller('/edges/https', { method: 'POST', body: { hostports } })
  const refused = await edge(ann.ask, ['a.example.com:443', '*:443'])
  t.equal(word(t, refused), 'ADMIN_REQUIRED')
  t.equal(refused.json.details.field, 'hostports[1]')
  const made = await edge(ask, ['*:443'])
  t.equal(made.status, 201)
  const patch = (hostports: string[]) => ann.ask(pathIn(made.json.uri), { method: 'PATCH', body: { hostports } })
  t.equal((await patch(['*:443', 'b.example.com:443'])).status, 200)
  t.equal(word(t, await patch(['*:443', '*:8443'])), 'ADMIN_REQUIRED')
})

t.test('members open no port below 1024, and keep those that are open', async (t) => {
  const { ask, ann } = await open(t)
  const edge = (caller: Ask, hostports: string[]) => caller('/edges/tcp', { method: 'POST', body: { hostports } })
  const privileged = ['mail.example.com:9025', 'mail.example.com:25']
  const refused = await edge(ann.ask, privileged)
  t.equal(word(t, refused), 'ADMIN_REQUIRED')
  t.equal(refused.json.details.field, 'hostports[1]')
  t.equal((await edge(ann.ask, ['mail.example.com:1024'])).status, 201)
  t.equal((await edge(ann.ask, ['mail.internal:25'])).status, 201, 'an internal name opens none')
  const made = await edge(ask, privileged)
  t.equal(made.status, 201)
  const path = pathIn(made.json.uri)
  const patch = (hostports: string[]) => ann.ask(path, { method: 'PATCH', body: { hostports } })
  t.equal((await patch(['other.example.com:25'])).status, 200)
  t.equal(word(t, await patch(['mail.example.com:443'])), 'ADMIN_REQUIRED')
  t.equal((await patch([])).status, 200)
  t.equal(word(t, await patch(['other.example.com:25'])), 'ADMIN_REQUIRED')
  const [{ id }] = (await ask('/revisions?limit=1')).json.revisions
  const revert = (caller: Ask) => caller(`/revisions/${id}/revert?dry_run=true`, { method: 'POST' })
  t.equal(word(t, await revert(ann.ask)), 'ADMIN_REQUIRED')
  t.equal((await revert(ask)).status, 200)
})

t.test('commands go to agents of one’s own credentials', async (t) => {
  const sessions: { id: string; credential: string }[] = []
  const live = {
    tunnelSessions: () =>
      sessions.map((one) => ({
        ...one,
        startedAt: 1,
        agentVersion: '3',
        ip: '127.0.0.1',
        metadata: '',
        os: 'linux',
        region: 'global',
        transport: 'x'
      })),
    tunnels: () => [],
    backendsOf: () => [],
    watch: () => undefined,
    command: async () => true
  }
  const { ask, ann, bea } = await open(t, { sources: live })
  const own = await make(ann.ask, '/credentials')
  for (const credential of [own.id, GONE]) sessions.push({ id: newId('ts', sessions.length + 1), credential })
  const [mine, orphan] = sessions.map(({ id }) => `/tunnel_sessions/${id}/stop`) as [string, string]
  t.equal((await ann.ask(mine, { method: 'POST' })).status, 204)
  t.equal((await ask(mine, { method: 'POST' })).status, 204)
  t.equal(word(t, await bea.ask(mine, { method: 'POST' })), 'ADMIN_REQUIRED')
  t.equal(word(t, await ann.ask(orphan, { method: 'POST' })), 'ADMIN_REQUIRED')
  t.equal((await ask(orphan, { method: 'POST' })).status, 204)
})

t.test('the description of the API shows the table', async (t) => {
  const { ask } = await open(t)
  const { info, paths } = (await ask('/openapi.json')).json
  t.match(info.description, '| credential | own | own | own | own | none | none |')
  t.match(info.description, '| ip_restriction | any | none | none | none | none | none |')
  t.match(info.description, 'only an administrator may use force')
  t.equal(paths['/vaults'].post['x-member-rights'], 'none')
  t.match(paths['/vaults'].post.description, 'Administrators only.')
  t.equal(paths['/credentials/{id}'].patch['x-member-rights'], 'own')
  t.equal(paths['/edges/https'].post['x-member-rights'], 'any')
  t.equal(paths['/event_destinations/{id}/test'].post['x-member-rights'], 'none')
  t.equal(paths['/tunnel_sessions/{id}/stop'].post['x-member-rights'], 'own')
  for (const [path, item] of Object.entries<Record<string, { operationId?: string }>>(paths)) {
    for (const operation of Object.values(item)) {
      if (operation.operationId !== undefined) t.hasProp(operation, 'x-member-rights', path)
    }
  }
})

t.test('policies of members read vaults that their writer may use', async (t) => {
  const { ask, ann, bea } = await open(t)
  const vault = await make(ask, '/vaults', { name: 'main' })
  await make(ask, '/vault_secrets', { vault_id: vault.id, name: 'key', value: MARK })
  const may = async (usable_by: string[]) => {
    const { status } = await ask(pathIn(vault.uri), { method: 'PATCH', body: { usable_by } })
    t.equal(status, 200)
  }
  const header = (value: string) =>
    JSON.stringify({ on_http_request: [{ actions: [{ type: 'add-headers', config: { headers: { 'x-a': value } } }] }] })
  const rule = (expression: string) =>
    JSON.stringify({ on_http_request: [{ expressions: [expression], actions: [{ type: 'deny', config: {} }] }] })
  const edge = await make(ask, '/edges/https')
  const routes = `/edges/https/${edge.id}/routes`
  let number = 0
  const create = (caller: Ask, value: string) =>
    caller(routes, { method: 'POST', body: { match: `/r${++number}`, traffic_policy: { value } } })
  const reading = [
    header("${secrets.get('main', 'key')}"),
    rule("secrets.get('main', 'key') == 'x'"),
    rule("['main'].exists(v, secrets.get(v, 'key') == 'x')"),
    rule("secrets.get('ma' + 'in', 'key') == 'x'"),
    rule("secrets . get ( 'main' , 'key' ) == 'x'"),
    rule("secrets__get('main', 'key') == 'x'"),
    rule("secrets.get(req.headers['x-v'][0], 'key') == 'x'"),
    rule("secrets.get('not-there-yet', 'key') == 'x'"),
    rule("true ? secrets.get('main', secrets.get('main', 'key')) == 'x' : false"),
    header("${'{'}${secrets.get(\\\"main\\\", 'key')}")
  ]
  for (const text of reading) {
    const refused = await create(ann.ask, text)
    if (refused.status === 400) t.match(refused.json.error_code, /POLICY/, `${text} does not compile at all`)
    else {
      t.equal(word(t, refused), 'VAULT_NOT_ALLOWED', text)
      t.equal(refused.status, 403)
      t.equal(refused.json.details.field, 'traffic_policy.value')
    }
  }
  t.equal((await create(ask, reading[0] as string)).status, 201, 'administrators may use all')
  t.equal((await create(ann.ask, header('secrets are kept'))).status, 201, 'a text is no call')

  await may([ann.id])
  const written = await create(ann.ask, reading[0] as string)
  t.equal(written.status, 201, written.text)
  t.equal(word(t, await create(bea.ask, reading[0] as string)), 'VAULT_NOT_ALLOWED')
  const route = pathIn(written.json.uri)
  const changed = (caller: Ask, value: string) =>
    caller(route, { method: 'PATCH', body: { traffic_policy: { value } } })
  const replaced = (caller: Ask, value: string) => caller(`${route}/traffic_policy`, { method: 'PUT', body: { value } })
  t.equal(
    (await changed(bea.ask, reading[0] as string)).status,
    200,
    'what is stored and stays the same is not asked again'
  )
  t.equal((await bea.ask(route, { method: 'PATCH', body: { description: 'x' } })).status, 200)
  t.equal(word(t, await changed(bea.ask, reading[1] as string)), 'VAULT_NOT_ALLOWED')
  const put = await replaced(bea.ask, reading[1] as string)
  t.equal(word(t, put), 'VAULT_NOT_ALLOWED')
  t.equal(put.json.details.field, 'value')
  t.equal((await replaced(ann.ask, reading[1] as string)).status, 200)

  const tcp = JSON.stringify({
    on_tcp_connect: [{ expressions: ["secrets.get('main', 'key') == 'x'"], actions: [{ type: 'deny' }] }]
  })
  const edges = (caller: Ask) => caller('/edges/tcp', { method: 'POST', body: { traffic_policy: { value: tcp } } })
  t.equal(word(t, await edges(bea.ask)), 'VAULT_NOT_ALLOWED')
  t.equal((await edges(ann.ask)).status, 201)

  await may(['members'])
  t.equal((await create(bea.ask, reading[0] as string)).status, 201)
  await may([])
  t.equal(word(t, await create(ann.ask, reading[0] as string)), 'VAULT_NOT_ALLOWED')
  t.equal((await ann.ask(route, { method: 'PATCH', body: { description: 'y' } })).status, 200)
})

t.test('an id that a body repeats must be that of the path, wrapped or not', async (t) => {
  const { ask } = await open(t)
  const edge = await make(ask, '/edges/https')
  const route = await make(ask, `/edges/https/${edge.id}/routes`, { match: '/' })
  const item = `/edges/https/${edge.id}/routes/${route.id}`
  const ids = { edge_id: edge.id, id: route.id }
  const wrong: Record<string, string>[] = [{ id: edge.id }, { edge_id: GONE }, { ...ids, id: 'x' }]
  const content = { enabled: true }
  for (const given of wrong) {
    const writes: [string, string, object][] = [
      ['PUT', `${item}/compression`, { ...given, module: content }],
      ['PUT', `${item}/compression`, { ...given, ...content }],
      ['PATCH', item, { ...given, module: { description: 'x' } }],
      ['PATCH', item, { ...given, description: 'x' }],
      ...(given.edge_id === GONE
        ? ([
            ['POST', `/edges/https/${edge.id}/routes`, { ...given, module: { match: '/b' } }],
            ['POST', `/edges/https/${edge.id}/routes`, { ...given, match: '/b' }]
          ] as [string, string, object][])
        : [])
    ]
    for (const [method, path, body] of writes) {
      const answer = await ask(path, { method, body })
      t.equal(word(t, answer), 'FIELD_INVALID', `${method} ${JSON.stringify(body)}`)
      t.match(answer.json.msg, 'must be what the path says')
    }
  }
  t.match((await ask(item)).json, { compression: null, description: '' })
  t.equal((await ask(`${item}/compression`, { method: 'PUT', body: { ...ids, module: content } })).status, 200)
  t.equal((await ask(`${item}/compression`, { method: 'PUT', body: { ...ids, ...content } })).status, 200)
  t.equal((await ask(item, { method: 'PATCH', body: { ...ids, module: { description: 'x' } } })).status, 200)
  const gone = await ask(item, { method: 'DELETE', body: {} })
  t.match(gone, { status: 400, json: { msg: 'A DELETE must not have a body' } })
  t.equal(word(t, gone), 'BODY_UNEXPECTED')
})

t.test('a refused address learns nothing of keys', async (t) => {
  const { ask, ann } = await open(t)
  const policy = await make(ask, '/ip_policies')
  const body = { type: 'api', enforced: true, ip_policy_ids: [policy.id] }
  const idle = await make(ask, '/bot_users', { name: 'idle' })
  const idleKey = await make(ask, '/api_keys', { owner_id: idle.id })
  await ask(pathIn(idle.uri), { method: 'PATCH', body: { active: false } })
  t.equal((await ask('/ip_restrictions?force=true', { method: 'POST', body })).status, 201)
  const answers = await Promise.all([
    ask('/vaults'),
    ann.ask('/vaults'),
    ask('/vaults', { key: idleKey.token }),
    ask('/vaults', { key: 'no-such-key-at-all' }),
    ask('/vaults', { key: ann.key }),
    ask('/vaults', { headers: { authorization: 'Basic YTpi' } })
  ])
  const told = answers.map(({ status, json: { details: _, ...rest }, headers: { 'www-authenticate': asks } }) => {
    return JSON.stringify([status, rest, asks])
  })
  t.equal(new Set(told).size, 1)
  t.match(told[0], 'IP_NOT_ALLOWED')
})

t.test('a bot that is not active is given no credential and no key', async (t) => {
  const { ask, ann } = await open(t)
  await ask(`/bot_users/${ann.id}`, { method: 'PATCH', body: { active: false } })
  for (const path of ['/credentials', '/api_keys']) {
    const refused = await ask(path, { method: 'POST', body: { owner_id: ann.id } })
    t.equal(word(t, refused), 'OWNER_INACTIVE', path)
    t.equal(refused.json.details.field, 'owner_id')
  }
  await ask(`/bot_users/${ann.id}`, { method: 'PATCH', body: { active: true } })
  t.equal((await ask('/credentials', { method: 'POST', body: { owner_id: ann.id } })).status, 201)
})

t.test('who may use a vault must be there', async (t) => {
  const { ask, ann } = await open(t)
  const post = (usable_by: unknown) => ask('/vaults', { method: 'POST', body: { name: 'v', usable_by } })
  const cases: [unknown, string, string][] = [
    [[newId('bot', 0)], 'REF_NOT_FOUND', 'usable_by[0]'],
    [['members', newId('usr', 0)], 'REF_NOT_FOUND', 'usable_by[1]'],
    [[ann.key], 'REF_INVALID', 'usable_by[0]'],
    [['everybody'], 'REF_INVALID', 'usable_by[0]'],
    [['members', 'members'], 'REF_INVALID', 'usable_by[0]'],
    ['members', 'FIELD_INVALID', 'usable_by']
  ]
  for (const [usable, code, field] of cases) {
    const answer = await post(usable)
    t.equal(word(t, answer), code, JSON.stringify(usable))
    t.equal(answer.json.details.field, field, JSON.stringify(usable))
  }
  const made = await post([ann.id, 'members'])
  t.same(made.json.usable_by, [ann.id, 'members'])
  t.equal((await ask(`/bot_users/${ann.id}`, { method: 'DELETE' })).status, 204, 'it holds no bot back')
  t.equal((await ask(pathIn(made.json.uri), { method: 'PATCH', body: { description: 'x' } })).status, 200)
})
