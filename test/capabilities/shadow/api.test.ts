import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { asker } from '../../api/asking.js'
import { create, site, visit } from '../../helpers/account.js'
import { type RunningSluice, type SluiceSetup, startSluice } from '../../helpers/sluice.js'

const ALLOW = 'on_http_request: []'
const LIMIT = (capacity: number) => `on_http_request:
  - name: per client
    actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: ${capacity}, rate: 60s, bucket_key: [conn.client_ip] }
`

interface Decision {
  readonly decision: string
  readonly status: number | null
  readonly code: string | null
  readonly by: { readonly rule: string; readonly action: string } | null
}

interface Shadow {
  readonly id: string
  readonly uri: string
  readonly state: string
  readonly ended_reason: string | null
  readonly routes: readonly string[] | null
  readonly revision: number
  readonly counts: Readonly<Record<string, number>>
  readonly not_judged: Readonly<Record<string, number>>
  readonly work: { readonly milliseconds: number; readonly slowest: number }
  readonly matrix: readonly {
    readonly old: Decision
    readonly new: Decision
    readonly differs: readonly string[]
    readonly count: number
    readonly examples: readonly {
      readonly request: { readonly method: string; readonly host: string; readonly path: string }
      readonly explanation: { readonly request: { readonly headers: readonly string[]; readonly url: string } } | null
    }[]
  }[]
}

/** A product in front of an upstream that notes what it gets. */
async function open(t: Test, setup: SluiceSetup = {}) {
  const got: { readonly url: string; readonly headers: IncomingHttpHeaders }[] = []
  const upstream = createServer((request, response) => {
    got.push({ url: request.url ?? '', headers: request.headers })
    request.resume()
    request.on('end', () => response.setHeader('x-from', 'upstream').end('hello'))
  })
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  const sluice = await startSluice(t, { policy: ALLOW, ...setup, upstream: { port } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const { apiKey: key } = sluice
  const begin = async (body: object) => {
    const answer = await ask('/shadows', { method: 'POST', body: { budget: '50ms', ...body }, key })
    if (answer.status !== 201) throw new Error(answer.text)
    return answer.json as unknown as Shadow
  }
  const get = async ({ id }: Shadow) => (await ask(`/shadows/${id}`, { key })).json as unknown as Shadow
  return {
    sluice,
    got,
    key,
    ask,
    begin,
    seen: (shadow: Shadow) =>
      until(
        () => get(shadow),
        ({ counts }) => counts.waiting === 0
      ),
    get
  }
}

async function until<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const value = await read()
    if (holds(value)) return value
    await new Promise((turn) => setTimeout(turn, 10))
  }
  return await read()
}

async function send({ port }: RunningSluice, path: string, init: RequestInit = {}): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { redirect: 'manual', ...init })
  await answer.arrayBuffer()
  return answer.status
}

const policies = (text: string) => ({ policies: [{ route: 'default', text }] })

t.test('a candidate decides beside what serves, and nobody notices', async (t) => {
  const { sluice, got, begin, seen, ask, key } = await open(t)
  const shadow = await begin({
    ...policies(`on_http_request:
  - name: closed
    expressions: ["req.url.path.startsWith('/admin')"]
    actions: [{ type: deny }]
  - name: moved
    expressions: ["req.url.path == '/old'"]
    actions: [{ type: redirect, config: { from: /old, to: /new } }]
  - name: marked
    expressions: ["req.url.path == '/marked'"]
    actions: [{ type: add-headers, config: { headers: { x-marked: 'yes' } } }]
on_http_response:
  - name: named
    expressions: ["req.url.path == '/named'"]
    actions: [{ type: add-headers, config: { headers: { x-named: "\${res.headers['x-from'][0]}" } } }]
`),
    name: 'stricter'
  })
  t.match(shadow, { state: 'running', routes: ['default'], name: 'stricter' })
  for (const path of ['/', '/admin', '/admin/users?token=abc', '/old', '/marked', '/named'])
    t.equal(await send(sluice, path, { headers: { authorization: 'Bearer s3cret' } }), 200)
  const { counts, matrix, work } = await seen(shadow)
  t.match(counts, { seen: 6, judged: 6, same: 1, changed: 5, not_judged: 0, over_budget: 0, dropped: 0, waiting: 0 })
  const cells = matrix.map(({ old, new: is, differs, count }) => [
    old.decision,
    is.decision,
    is.by?.rule,
    differs,
    count
  ])
  t.strictSame(cells[0], ['forwarded', 'denied', 'closed', ['decision'], 2])
  t.strictSame(
    new Set(cells.slice(1).map((cell) => JSON.stringify(cell))),
    new Set(
      [
        ['forwarded', 'redirected', 'moved', ['decision'], 1],
        ['forwarded', 'forwarded', undefined, ['request'], 1],
        ['forwarded', 'forwarded', undefined, ['response'], 1],
        ['forwarded', 'forwarded', undefined, [], 1]
      ].map((cell) => JSON.stringify(cell))
    )
  )
  const [, example] = matrix[0]?.examples ?? []
  t.match(example, {
    request: { method: 'GET', path: '/admin/users' },
    old: { decision: 'forwarded', status: null },
    new: { decision: 'denied', status: 403, code: 'POLICY_DENIED' },
    explanation: { decision: { by: { rule: 'closed' } } }
  })
  const text = JSON.stringify(matrix)
  t.notMatch(text, /s3cret|token=abc/, 'what sounds like a secret is redacted')
  t.ok(work.milliseconds > 0 && work.slowest > 0)
  t.same(got.length, 6, 'the upstream has seen each request once')
  t.ok(got.every(({ headers }) => headers['x-marked'] === undefined))
  const where = encodeURIComponent(`exchange.shadow == '${shadow.id}'`)
  const { exchanges } = (await ask(`/exchanges?where=${where}`, { key })).json
  t.ok(exchanges.length >= 4, 'each kind of difference is in the recorder')
  const denied = exchanges.find(({ url }: { url: string }) => url.includes('/admin'))
  t.match((await ask(`/exchanges/${denied.id}`, { key })).json, {
    decided: 'forwarded',
    shadow: { id: shadow.id, decision: { decision: 'denied', status: 403 }, differs: ['decision'] }
  })
  const metrics = (await ask('/metrics', { key })).text
  t.match(metrics, /sluice_shadow_total\{old="forwarded",new="denied"\} 2/)
  t.match(metrics, /sluice_shadow_total\{old="forwarded",new="rewritten"\} 2/)
  t.notMatch(metrics, /sluice_policy_decisions_total\{[^}]*closed/, 'what it decides is in no other metric')
  t.equal((await ask(`/shadows/${shadow.id}`, { method: 'DELETE', key })).status, 204)
  t.equal((await ask(`/shadows/${shadow.id}`, { key })).status, 404)
})

t.test('limits of a candidate are its own, and go on from what is counted', async (t) => {
  const { sluice, begin, seen } = await open(t, { policy: LIMIT(3) })
  t.equal(await send(sluice, '/'), 200)
  const [same, stricter, empty] = [
    await begin(policies(LIMIT(3))),
    await begin(policies(LIMIT(2))),
    await begin({ ...policies(LIMIT(3)), counters: 'empty' })
  ]
  t.same(
    [await send(sluice, '/'), await send(sluice, '/'), await send(sluice, '/'), await send(sluice, '/')],
    [200, 200, 429, 429]
  )
  t.match((await seen(same)).counts, { judged: 4, same: 4, changed: 0 }, 'the policy that serves differs in nothing')
  const { matrix, counts } = await seen(stricter)
  t.match(counts, { judged: 4, same: 3, changed: 1 })
  t.match(matrix[0], {
    old: { decision: 'forwarded' },
    new: { decision: 'limited', status: 429, code: 'RATE_LIMITED' },
    count: 1
  })
  t.match((await seen(empty)).counts, { judged: 4, same: 3, changed: 1 }, 'it has not seen the first one')
})

t.test('what cannot be known is not judged, and nothing leaves the process for it', async (t) => {
  const asked: string[] = []
  const other = createServer((request, response) => {
    asked.push(request.url ?? '')
    response.end('{}')
  })
  await new Promise<void>((ready) => other.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => other.close(done)))
  const origin = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
  const { sluice, begin, seen } = await open(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'on' } })
  const jwt = (sources: string) => `
      - type: jwt-validation
        config:
          issuer: { allow_list: [{ value: me }] }
          audience: { allow_list: [{ value: you }] }
          http: { tokens: [{ type: jwt, method: header, name: authorization, prefix: "Bearer " }] }
          jws: { allowed_algorithms: [HS256, RS256], keys: { sources: ${sources} } }`
  const token = [
    { alg: 'RS256', kid: 'k' },
    { iss: 'me', aud: 'you' }
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .concat('c2ln')
    .join('.')
  const rule = (path: string, action: string) => `
  - expressions: ["req.url.path == '${path}'"]
    actions:${action}`
  const shadow = await begin(
    policies(`on_http_request:${rule('/ask', `\n      - { type: http-request, config: { url: "${origin}/asked" } }`)}
${rule('/login', `\n      - { type: openid-connect, config: { issuer_url: "https://idp.test", client_id: a, client_secret: b, scopes: [openid] } }`)}
${rule('/keys', jwt(`{ additional_jkus: ["${origin}/keys"] }`))}
${rule('/held', jwt('{ shared_secrets: [{ value: "0123456789abcdef0123456789abcdef" }] }'))}
${rule('/breaker', '\n      - { type: circuit-breaker, config: { error_threshold: 0.5 } }')}
${rule('/body', '\n      - { type: request-body-find-replace, config: { replacements: [{ from: a, to: b }] } }')}
  - expressions: ["req.url.path == '/random' && rand.double() < 2.0"]
    actions: [{ type: deny }]
on_http_response:${rule('/content', '\n      - { type: response-body-find-replace, config: { replacements: [{ from: a, to: b }] } }')}
`)
  )
  for (const path of [
    '/ask',
    '/login',
    '/keys',
    '/held',
    '/breaker',
    '/body',
    '/random',
    '/content',
    '/',
    '/.sluice/login'
  ])
    await send(sluice, path, { headers: { authorization: `Bearer ${token}`, accept: 'text/html' } })
  await send(sluice, '/body', { method: 'POST', body: 'a' })
  const { counts, not_judged, matrix } = await seen(shadow)
  t.same(not_judged, { body: 1, circuit_breaker: 1, http_request: 1, keys: 1, login: 2, random: 1, response_body: 1 })
  t.match(counts, { seen: 11, judged: 3, changed: 1, not_judged: 8, over_budget: 0, dropped: 0 })
  t.match(matrix[0], {
    old: { decision: 'forwarded' },
    new: { decision: 'denied', status: 401, by: { action: 'jwt-validation' } }
  })
  t.same(asked, [], 'no other server was asked')
})

t.test('work on an exchange ends with its budget', async (t) => {
  const { sluice, begin, seen } = await open(t)
  const numbers = JSON.stringify(Array.from({ length: 60 }, (_, i) => i))
  const rule = `  - expressions: ["${numbers}.all(a, ${numbers}.exists(b, a + b >= a))"]\n    actions: [{ type: log, config: { metadata: { a: b } } }]\n`
  const heavy = policies(`on_http_request:\n${rule.repeat(300)}`)
  const shadow = await begin({ ...heavy, budget: '1ms' })
  for (let i = 0; i < 5; i++) t.equal(await send(sluice, '/'), 200)
  const { counts, work } = await seen(shadow)
  t.match(counts, { seen: 5, judged: 0, over_budget: 5, waiting: 0 })
  t.ok(work.slowest < 100, `one took ${work.slowest} ms`)
})

t.test('a share is one of clients, so that their limits see all that they send', async (t) => {
  const options = { TRUSTED_PROXIES: '127.0.0.1/32' }
  const { sluice, begin, seen } = await open(t, { options, policy: LIMIT(1) })
  const [own, shared] = [
    await begin({ ...policies(LIMIT(1)), share: 0.25 }),
    await begin({ ...policies(LIMIT(1).replace('conn.client_ip', `"'all'"`)), share: 0.25 })
  ]
  for (let client = 0; client < 120; client++) {
    const headers = { 'x-forwarded-for': `203.0.113.${client}` }
    t.same([await send(sluice, '/', { headers }), await send(sluice, '/', { headers })], [200, 429])
  }
  const { counts, matrix } = await seen(own)
  const { seen: sampled = 0 } = counts
  t.ok(sampled > 20 && sampled < 110 && sampled % 2 === 0, `${sampled} of 240`)
  t.match(counts, { judged: sampled, same: sampled, changed: 0 })
  t.same(
    matrix.map(({ count }) => count),
    [sampled / 2, sampled / 2],
    'of each client all requests or none'
  )
  t.match(await seen(shared), { counts: { seen: sampled, judged: 0 }, not_judged: { limit_of_all_clients: sampled } })
})

t.test('it follows the configuration that serves, and ends with its route', async (t) => {
  const { sluice, begin, seen, get, ask, key } = await open(t)
  const deny = policies('on_http_request: [{ name: all, actions: [{ type: deny }] }]')
  const shadow = await begin(deny)
  await send(sluice, '/')
  t.ok(
    (await sluice.reload('on_http_request: [{ name: gone, actions: [{ type: deny, config: { status_code: 410 } }] }]'))
      .ok
  )
  t.equal(await send(sluice, '/'), 410)
  const { matrix } = await seen(shadow)
  t.same(
    matrix.map(({ old, new: is, count }) => [old.status, is.status, count]).sort(),
    [
      [410, 403, 1],
      [null, 403, 1]
    ].sort()
  )
  const { route, edge } = await site(sluice, 'shop.test', {
    backend: undefined,
    traffic_policy: { enabled: true, value: ALLOW }
  })
  const id = route.slice(route.lastIndexOf('/') + 1)
  const other = await begin({
    policies: [{ route: id, text: 'on_http_request: [{ name: all, actions: [{ type: deny }] }]' }]
  })
  t.same(other.routes, [id])
  await visit(sluice, 'shop.test')
  await visit(sluice, 'other.test')
  t.match((await seen(other)).counts, { seen: 1, changed: 1 }, 'exchanges of other routes are not looked at')
  t.equal((await ask(route, { method: 'DELETE', key })).status, 204)
  t.match(await get(other), {
    state: 'ended',
    ended_reason: `the route ${id} is gone, or has no traffic policy any more`
  })
  t.match(await get(shadow), { state: 'running' })
  const changed = await begin({
    changes: [{ method: 'POST', path: `${edge}/routes`, body: { match: '/new', traffic_policy: { value: LIMIT(1) } } }]
  })
  for (const path of ['/new', '/new', '/old']) await visit(sluice, 'shop.test', { path })
  t.match(await seen(changed), {
    counts: { seen: 2, changed: 2 },
    matrix: [{ old: { code: 'NO_ROUTE' }, new: { code: 'NO_UPSTREAM' } }, { new: { decision: 'limited' } }]
  })
  t.equal((await ask('/edges/https', { key })).json.https_edges[0].routes.length, 0, 'nothing was written')
})

t.test('a configuration of writes is tried as a whole', async (t) => {
  const { sluice, begin, seen, ask, key, got } = await open(t)
  const { route, edge } = await site(sluice, 'shop.test', { traffic_policy: { value: ALLOW } })
  const { json: vault } = await ask('/vaults', { method: 'POST', key, body: { name: 'keys' } })
  const { status } = await ask('/vault_secrets', {
    method: 'POST',
    key,
    body: { vault_id: vault.id, name: 'one', value: 'geheim' }
  })
  t.equal(status, 201)
  const value =
    "on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: \"${secrets.get('keys', 'one')}\", headers: { x-key: \"${secrets.get('keys', 'one')}\" } } }] }]"
  const ips = await create(sluice, '/ip_policies', {})
  const shadow = await begin({
    changes: [
      { method: 'PUT', path: `${route}/ip_restriction`, body: { enabled: true, ip_policy_ids: [ips.id] } },
      { method: 'PUT', path: `${route}/traffic_policy`, body: { value } },
      { method: 'DELETE', path: `${route}/ip_restriction` },
      { method: 'PATCH', path: edge, body: { metadata: 'tried' } }
    ]
  })
  t.same(shadow.routes, [route.slice(route.lastIndexOf('/') + 1)])
  t.equal((await visit(sluice, 'shop.test')).status, 503)
  const { matrix } = await seen(shadow)
  t.match(matrix[0], { old: { code: 'NO_UPSTREAM' }, new: { decision: 'answered', status: 200 }, count: 1 })
  t.notMatch(JSON.stringify(matrix), /geheim/, 'values of vaults are not shown')
  t.same(got, [])
})

t.test('what is wrong with the question is said with its field', async (t) => {
  const { sluice, ask, key, begin, get } = await open(t)
  const { route } = await site(sluice, 'shop.test', {})
  const text = ALLOW
  const ok = { policies: [{ route: 'default', text }] }
  for (const [body, code, field] of [
    [{}, 'FIELD_REQUIRED', 'policies'],
    [{ ...ok, share: 0 }, 'FIELD_INVALID', 'share'],
    [{ ...ok, share: '10%' }, 'FIELD_INVALID', 'share'],
    [{ ...ok, budget: '1s' }, 'FIELD_INVALID', 'budget'],
    [{ ...ok, duration: '30d' }, 'FIELD_INVALID', 'duration'],
    [{ ...ok, counters: 'some' }, 'FIELD_INVALID', 'counters'],
    [{ ...ok, examples: 21 }, 'FIELD_INVALID', 'examples'],
    [{ ...ok, nothing: 1 }, 'FIELD_UNKNOWN', 'nothing'],
    [{ policies: [...ok.policies, ...ok.policies] }, 'FIELD_INVALID', 'policies[1].route'],
    [{ policies: [{ route: 'nowhere', text }] }, 'NOT_FOUND', 'policies.route'],
    [{ policies: [{ route: 'default', text: 'a: 1' }] }, 'POLICY_PHASE_UNKNOWN', 'traffic_policy.value'],
    [{ changes: [{ path: '/vaults' }] }, 'FIELD_REQUIRED', 'changes[0].method'],
    [{ changes: [{ method: 'GET', path: '/vaults' }] }, 'FIELD_INVALID', 'changes[0].method'],
    [{ changes: [{ method: 'POST', path: '/nowhere' }] }, 'FIELD_INVALID', 'changes[0].path'],
    [{ changes: [{ method: 'DELETE', path: '/vaults' }] }, 'FIELD_INVALID', 'changes[0].method'],
    [{ changes: [{ method: 'PATCH', path: '/vaults/vault_1', body: {} }] }, 'NOT_FOUND', undefined],
    [{ changes: [{ method: 'PATCH', path: route, body: { match: 1 } }] }, 'FIELD_INVALID', 'changes[0].body.match'],
    [
      { changes: [{ method: 'PUT', path: `${route}/traffic_policy`, body: { value: 'a: 1' } }] },
      'POLICY_PHASE_UNKNOWN',
      'changes[0].body.value'
    ]
  ] as const) {
    const answer = await ask('/shadows', { method: 'POST', body, key })
    t.match(
      answer.json,
      { error_code: `ERR_SLUICE_${code}`, ...(field === undefined ? {} : { details: { field } }) },
      JSON.stringify([body, answer.json])
    )
  }
  const running = await Promise.all([1, 2, 3, 4].map((n) => begin({ ...ok, duration: `${n === 1 ? 1 : 60}s` })))
  t.match(await ask('/shadows', { method: 'POST', body: ok, key }), {
    status: 409,
    json: { error_code: 'ERR_SLUICE_SHADOWS_FULL' }
  })
  const { json } = await ask('/shadows', { key })
  t.same(new Set(json.shadows.map(({ id }: Shadow) => id)), new Set(running.map(({ id }) => id)))
  t.ok(json.shadows.every((shadow: Shadow) => shadow.matrix === undefined))
  const ended = await until(
    () => get(running[0] as Shadow),
    ({ state }) => state === 'ended'
  )
  t.equal(ended.ended_reason, 'its time is over')
  t.match(await begin(ok), { state: 'running' })
  const member = await create(sluice, '/bot_users', { name: 'ann' })
  const { token } = await create(sluice, '/api_keys', { owner_id: member.id })
  for (const [method, path] of [
    ['GET', '/shadows'],
    ['POST', '/shadows'],
    ['GET', '/shadows/shd_1'],
    ['DELETE', '/shadows/shd_1']
  ] as const) {
    const refused = await ask(path, { method, key: token, ...(method === 'POST' ? { body: ok } : {}) })
    t.match(refused, { status: 403, json: { error_code: 'ERR_SLUICE_ADMIN_REQUIRED' } }, `${method} ${path}`)
  }
  t.equal((await ask('/shadows/shd_1', { key })).status, 404)
})
