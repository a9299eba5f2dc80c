import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { asker } from '../../api/asking.js'
import { account, create, site, visit } from '../../helpers/account.js'
import { ManualClock } from '../../helpers/clock.js'
import { startSluice } from '../../helpers/sluice.js'
import { receiver } from '../events/receiver.js'

const limit = (config: object) => ({ type: 'rate-limit', config: { algorithm: 'sliding_window', ...config } })
const policyOf = (...actions: readonly object[]) => JSON.stringify({ on_http_request: [{ name: 'limited', actions }] })
const CLIENT = { name: 'per client', capacity: 2, rate: '60s', bucket_key: ["getReqHeader('x-client')[0]"] }
const START = Date.UTC(2026, 0, 1)

async function stand(t: Test, policy = policyOf(limit(CLIENT)), options: Readonly<Record<string, string>> = {}) {
  const upstream = createServer((_, response) => response.end('ok'))
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  const clock = new ManualClock(START)
  const sluice = await startSluice(t, {
    upstream: { port },
    policy,
    options: { OUTBOUND_ALLOW_PRIVATE: 'on', ...options },
    clock
  })
  const call = account(sluice)
  const limits = async (query = '') => (await call(`/limits?${query}`)).json.limits
  const only = async () => {
    const [first] = await limits()
    return first
  }
  const as = async (client: string, times = 1, headers = {}) => {
    const statuses: number[] = []
    for (let i = 0; i < times; i++)
      statuses.push((await visit(sluice, 'a.test', { headers: { 'x-client': client, ...headers } })).status)
    return statuses
  }
  return { sluice, call, limits, only, as, clock }
}

t.test('every limit is listed with what it decided', async (t) => {
  const { call, as, only, sluice, clock } = await stand(t)
  t.same(await as('ann', 3), [200, 200, 429])
  t.same(await as('bea', 1), [200])
  const { json } = await call('/limits')
  t.match(json, { total: 1, next_page_uri: null, uri: `http://127.0.0.1:${sluice.apiPort}/limits` })
  const [shown] = json.limits
  t.match(shown, {
    id: /^lim_[0-9a-f]{24}$/,
    uri: `${json.uri}/${shown.id}`,
    owner: { kind: 'options', id: 'default', name: 'every other host', uri: null },
    policy: { source: /policy\.yaml$/, line: 1, column: Number },
    phase: 'on_http_request',
    rule: 'limited',
    rule_index: 0,
    name: 'per client',
    algorithm: 'sliding_window',
    scope: 'server',
    capacity: 2,
    capacity_expression: null,
    cost: 1,
    cost_expression: null,
    rate: '60s',
    rate_seconds: 60,
    bucket_key: CLIENT.bucket_key,
    enforce: true,
    buckets: 2,
    admitted: 3,
    refused: 1,
    would_refuse: 0,
    recent: { admitted: 3, refused: 1 },
    last_minute: { admitted: 3, refused: 1 }
  })
  const one = (await call(`/limits/${shown.id}`)).json
  const { series, ...rest } = one
  t.same(rest, shown)
  t.equal(series.step_seconds, 5)
  t.equal(series.steps.length, 60)
  t.match(series.steps.at(-1), { at: /Z$/, admitted: 3, refused: 1, used: 2 })
  clock.advance(62_000)
  t.match(await only(), {
    buckets: 0,
    admitted: 3,
    recent: { admitted: 3, refused: 1 },
    last_minute: { admitted: 0, refused: 0 }
  })
  t.same(await as('cid', 3), [200, 200, 429])
  t.match(await only(), { recent: { admitted: 5, refused: 2 }, last_minute: { admitted: 2, refused: 1 } })
  clock.advance(300_000)
  t.match(await only(), { buckets: 0, admitted: 5, recent: { admitted: 0, refused: 0 } })
})

t.test('a limit whose capacity and cost come with each request says so, wherever they are shown', async (t) => {
  const capacity = "getReqHeader('x-plan').join('') == 'gold' ? 5 : 2"
  const cost = "getReqHeader('x-heavy').join('') == '' ? 1 : 3"
  const { call, as, only } = await stand(t, policyOf(limit({ ...CLIENT, capacity, cost })))
  t.same(await as('ann', 3), [200, 200, 429])
  t.same(await as('ann', 2, { 'x-plan': 'gold', 'x-heavy': '1' }), [200, 429])
  const shown = await only()
  const amounts = { capacity: null, capacity_expression: capacity, cost: null, cost_expression: cost }
  t.match(shown, { ...amounts, admitted: 3, refused: 2, buckets: 1 })
  const one = (await call(`/limits/${shown.id}`)).json
  t.match(one, amounts)
  t.match(one.series.steps.at(-1), { admitted: 3, refused: 2, used: 5 })
  const bucket = `/limits/${shown.id}/buckets?key=ann`
  const unknown = { capacity: null, remaining: null, retry_after_seconds: null, next_admitted_at: null }
  t.match((await call(bucket)).json, { ...unknown, used: 5, reset_seconds: 60, resets_at: '2026-01-01T00:01:00Z' })
  t.match((await call(bucket, { method: 'DELETE' })).json, { ...unknown, used: 0, reset_seconds: 0 })
  t.same(await as('ann'), [200])
})

t.test('a limit keeps its id and its counts as long as its buckets stay', async (t) => {
  const { sluice, only, as } = await stand(t)
  await as('ann', 3)
  const { id } = await only()
  const change = async (config: object, name = 'limited') => {
    const action = limit({ ...CLIENT, ...config })
    t.match(await sluice.reload(JSON.stringify({ on_http_request: [{ name, actions: [action] }] })), { ok: true })
    return await only()
  }
  t.match(await change({ capacity: 5 }, 'renamed'), { id, capacity: 5, rule: 'renamed', admitted: 2, refused: 1 })
  t.same(await as('ann'), [200])
  t.match(await change({ enforce: false, capacity: 1 }), { id, enforce: false, admitted: 3, refused: 1, buckets: 1 })
  t.same(await as('ann'), [200])
  t.match(await only(), { refused: 1, would_refuse: 1, recent: { admitted: 3, refused: 2 } })
  const other = await change({ rate: '70s' })
  t.not(other.id, id)
  t.match(other, { admitted: 0, refused: 0, buckets: 0 })
  await sluice.reload('on_http_request: []')
  t.equal(await only(), undefined)
})

t.test('a bucket is looked up by its key, and emptied: the client goes on', async (t) => {
  const { call, as, only, clock, sluice } = await stand(t)
  const sink = await receiver(t)
  const destination = (await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })).id
  await create(sluice, '/event_subscriptions', {
    sources: [{ type: 'limit_bucket_reset.v0' }],
    destination_ids: [destination]
  })
  await as('ann')
  clock.advance(20_000)
  t.same(await as('ann', 2), [200, 429])
  const { id } = await only()
  const buckets = `/limits/${id}/buckets`
  const full = (await call(`${buckets}?key=ann`)).json
  t.match(full, {
    limit: { id, uri: new RegExp(`/limits/${id}$`), name: 'per client' },
    bucket: /^bkt_[0-9a-f]{20}$/,
    key: ['ann'],
    capacity: 2,
    used: 2,
    shared: 0,
    remaining: 0,
    reset_seconds: 60,
    resets_at: '2026-01-01T00:01:20Z',
    retry_after_seconds: 40,
    next_admitted_at: '2026-01-01T00:01:00Z'
  })
  t.same((await call(`${buckets}?values=${encodeURIComponent('["ann"]')}`)).json, full)
  t.match((await call(`${buckets}?key=nobody`)).json, {
    used: 0,
    remaining: 2,
    reset_seconds: 0,
    retry_after_seconds: 0,
    next_admitted_at: '2026-01-01T00:00:20Z'
  })
  t.equal((await only()).buckets, 1, 'looking makes no bucket')
  const reset = await call(`${buckets}?key=ann`, { method: 'DELETE' })
  t.equal(reset.status, 200)
  t.match(reset.json, { bucket: full.bucket, key: ['ann'], used: 0, remaining: 2, retry_after_seconds: 0 })
  t.equal((await only()).buckets, 0)
  t.same(await as('ann', 3), [200, 200, 429], 'and then the limit holds again')
  const line = await sluice.line(({ msg }) => msg === 'a bucket of a limit was emptied')
  t.match(line, { limit: id, bucket: full.bucket, subject: 'administrator', principal: /^usr_/, operation_id: String })
  t.notMatch(JSON.stringify(line), /ann/, 'keys are in no log')
  await sink.until(() => sink.taken.length === 1)
  t.match(sink.taken, [
    {
      event_type: 'limit_bucket_reset.v0',
      principal: { id: /^usr_/, subject: 'administrator', source: 'API' },
      object: { limit: { id, name: 'per client' }, bucket: full.bucket, key: ['ann'], used: 2 }
    }
  ])
})

t.test('keys of several parts and of other types are given as a JSON list', async (t) => {
  const { call, limits, as } = await stand(
    t,
    policyOf(
      limit({ ...CLIENT, name: 'tuple', bucket_key: [...CLIENT.bucket_key, 'req.method', '1 + 1'] }),
      limit({ ...CLIENT, name: 'number', bucket_key: ["int(getReqHeader('x-number')[0])"] }),
      limit({ ...CLIENT, name: 'list', bucket_key: ["getReqHeader('x-client')"] }),
      limit({ ...CLIENT, name: 'switch', bucket_key: ["getReqHeader('x-client')[0] == 'ann'"] }),
      limit({ ...CLIENT, name: 'bytes', bucket_key: ['bytes(getReqHeader("x-client")[0])'] })
    )
  )
  await as('ann', 2, { 'x-number': '7' })
  const all = new Map<string, string>((await limits()).map((one: { name: string; id: string }) => [one.name, one.id]))
  const used = async (name: string, query: Record<string, string>) => {
    const { status, json } = await call(`/limits/${all.get(name)}/buckets?${new URLSearchParams(query)}`)
    return status === 200 ? json.used : `${json.error_code} ${json.details.field}: ${json.msg}`
  }
  t.equal(await used('tuple', { values: '["ann","GET",2]' }), 2)
  t.equal(await used('tuple', { values: '["ann","GET","2"]' }), 2, 'text is read as the type of its expression')
  t.match(await used('tuple', { values: '["ann","GET","two"]' }), /QUERY_INVALID values: .*whole number/)
  t.equal(await used('tuple', { values: '["ann","GET",true]' }), 0)
  t.match(await used('tuple', { values: '["ann","GET"]' }), /QUERY_INVALID values: .*3 values of getReqHeader/)
  t.match(await used('tuple', { values: 'ann' }), /QUERY_INVALID values: /)
  t.match(await used('tuple', { key: 'ann' }), /QUERY_INVALID key: .*several .*give values/)
  t.equal(await used('number', { key: '7' }), 2)
  t.equal(await used('number', { values: '[7]' }), 2)
  t.match(await used('number', { key: 'seven' }), /QUERY_INVALID key: .*whole number/)
  t.equal(await used('list', { values: '[["ann"]]' }), 2)
  t.match(await used('list', { key: 'ann' }), /QUERY_INVALID key: .*list/)
  t.equal(await used('switch', { key: 'true' }), 2)
  t.equal(await used('switch', { key: 'false' }), 0)
  t.match(await used('switch', { key: 'yes' }), /QUERY_INVALID key: .*true or false/)
  t.equal(await used('bytes', { key: Buffer.from('ann').toString('base64') }), 2)
  t.match(await used('number', {}), /QUERY_INVALID key: .*give one of/)
  t.match(await used('number', { key: '7', values: '[7]' }), /QUERY_INVALID values: .*give one of/)
  t.match(await used('number', { bucket: 'bkt_0' }), /QUERY_INVALID bucket: /)
  t.equal((await call('/limits/lim_none/buckets?key=1')).status, 404)
})

t.test('who is refused most stands first, and can be looked up and let go from there', async (t) => {
  const { call, only, as, clock } = await stand(t)
  await as('ann', 4)
  await as('bea', 9)
  await as('cy', 2)
  const { id } = await only()
  const top = async (query = '') => (await call(`/limits/${id}/top?${query}`)).json
  const found = await top()
  t.match(found, {
    limit: { id },
    keys: [
      { key: ['bea'], failed: false, refused: 7, refused_at_least: 7, last_refused_at: /Z$/ },
      { key: ['ann'], refused: 2, bucket: /^bkt_/ }
    ]
  })
  t.equal(found.keys.length, 2, 'who was not refused is not there')
  t.equal((await top('limit=1')).keys.length, 1)
  const { bucket } = found.keys[0]
  t.match((await call(`/limits/${id}/buckets?bucket=${bucket}`)).json, { bucket, key: ['bea'], used: 2 })
  t.equal((await call(`/limits/${id}/buckets?bucket=${bucket}`, { method: 'DELETE' })).status, 200)
  t.same(await as('bea'), [200])
  clock.advance(301_000)
  t.same((await top()).keys, [], 'it is about now')
})

t.test('what sounds like a secret is not shown, and still can be let go', async (t) => {
  const key = ["getReqHeader('x-api-key')[0]", 'req.method']
  const { call, limits, sluice } = await stand(
    t,
    policyOf(
      limit({ ...CLIENT, name: 'keyed', capacity: 1, bucket_key: key }),
      limit({ ...CLIENT, name: 'cookie', bucket_key: ["req.cookies['cart'][0].value"], capacity: 1 })
    )
  )
  const ask = async () => (await visit(sluice, 'a.test', { headers: { 'x-api-key': 's3cret' } })).status
  t.same([await ask(), await ask()], [200, 429])
  const [{ id }, cookie] = await limits()
  const { text, json } = await call(`/limits/${id}/top`)
  t.notMatch(text, /s3cret/)
  t.match(json.keys, [{ key: ['[redacted]', 'GET'], refused: 1 }])
  const looked = await call(`/limits/${id}/buckets?values=${encodeURIComponent('["s3cret","GET"]')}`)
  t.match(looked.json, { bucket: json.keys[0].bucket, key: ['[redacted]', 'GET'], used: 1 })
  const reset = await call(`/limits/${id}/buckets?bucket=${json.keys[0].bucket}`, { method: 'DELETE' })
  t.match(reset.json, { used: 0, key: ['[redacted]', 'GET'] })
  t.notMatch(JSON.stringify(sluice.log), /s3cret/)
  t.equal(await ask(), 429, 'the second limit refuses those without a cookie together')
  t.match((await call(`/limits/${cookie.id}/top`)).json.keys, [{ key: [null], failed: true, refused: 1 }])
})

t.test('keys are not kept where the option says so', async (t) => {
  const { call, only, as, sluice } = await stand(t, undefined, { LIMITER_TOP_KEYS: 'off' })
  const sink = await receiver(t)
  const destination = (await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })).id
  const sources = [{ type: 'limit_bucket_reset.v0' }]
  await create(sluice, '/event_subscriptions', { sources, destination_ids: [destination] })
  await as('ann', 3)
  const { id } = await only()
  t.match(await call(`/limits/${id}/top`), { status: 409, json: { error_code: 'ERR_SLUICE_LIMIT_KEYS_OFF' } })
  t.match((await call(`/limits/${id}/buckets?key=ann`, { method: 'DELETE' })).json, { used: 0, key: ['ann'] })
  t.same(await as('ann'), [200])
  await sink.until(() => sink.taken.length === 1)
  t.match(sink.taken, [{ object: { bucket: /^bkt_/, key: null, used: 2 } }])
})

t.test('a bucket that shares its count with others is not emptied, and says so', async (t) => {
  const many = Array.from({ length: 90 }, (_, i) => limit({ ...CLIENT, name: `limit ${i}`, capacity: 1, rate: '24h' }))
  const { call, limits, as } = await stand(t, policyOf(...many), { LIMITER_BUDGET: '1MiB' })
  const [{ id }] = await limits('text=limit+0')
  const bucketOf = (client: number) => `/limits/${id}/buckets?key=client+${client}`
  const sharedOf = async (client: number): Promise<number> => (await call(bucketOf(client))).json.shared
  let clients = 0
  let folded: number | undefined
  // Until the table is full, and a bucket of the first limit has left it.
  while (folded === undefined && clients < 1_000) {
    for (const end = clients + 50; clients < end; clients++) await as(`client ${clients}`)
    for (let one = 0; one < 50 && folded === undefined; one++) if ((await sharedOf(one)) > 0) folded = one
  }
  t.ok(folded !== undefined, 'some are folded')
  t.match(await call(bucketOf(folded ?? 0), { method: 'DELETE' }), {
    status: 409,
    json: { error_code: 'ERR_SLUICE_BUCKET_SHARED' }
  })
  t.same(await as(`client ${folded}`), [429])
})

t.test('limits of routes name their hosts and paths; the list is searched, ordered and paged', async (t) => {
  const { call, limits, sluice } = await stand(t)
  const shops = ['b.test', 'c.test', 'd.test']
  const routes = []
  for (const [i, host] of shops.entries()) {
    const value = policyOf(limit({ ...CLIENT, name: `limit ${i}`, bucket_key: ['req.host'], capacity: 1 }))
    routes.push(await site(sluice, host, { match: '/cart', traffic_policy: { value } }))
  }
  t.same(
    (await limits()).map(({ owner }: { owner: { name: string } }) => owner.name),
    ['b.test/cart/', 'c.test/cart/', 'd.test/cart/', 'every other host']
  )
  const names = async (query: string) => (await limits(query)).map(({ name }: { name: string }) => name)
  t.match(await limits('text=C.TEST'), [
    {
      owner: { kind: 'route', uri: new RegExp(`${routes[1]?.route}$`) },
      policy: { source: `${routes[1]?.route}/traffic_policy` }
    }
  ])
  for (let i = 0; i < 3; i++) await visit(sluice, 'd.test', { path: '/cart' })
  for (let i = 0; i < 2; i++) await visit(sluice, 'c.test', { path: '/cart' })
  t.same((await names('order=refused')).slice(0, 2), ['limit 2', 'limit 1'])
  const first = (await call('/limits?limit=3&order=owner')).json
  t.same([first.limits.length, first.total], [3, 4])
  const rest = (await call(first.next_page_uri.slice(first.uri.indexOf('/limits')))).json
  t.match(rest, { limits: [{ name: 'per client' }], next_page_uri: null, total: 4 })
  t.match((await call('/limits?before_id=lim_gone')).json, { error_code: 'ERR_SLUICE_QUERY_INVALID' })
  t.match((await call('/limits?order=size')).json, {
    error_code: 'ERR_SLUICE_QUERY_INVALID',
    details: { field: 'order' }
  })
  t.same((await call(String(routes[0]?.edge), { method: 'DELETE' })).status, 204)
  t.equal((await limits()).length, 3)
})

t.test('limits are the administrators alone', async (t) => {
  const { sluice, only } = await stand(t)
  const { id } = await only()
  const bot = await create(sluice, '/bot_users', { name: 'ann' })
  const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
  const ask = asker('127.0.0.1', sluice.apiPort)
  for (const [path, method] of [
    ['/limits', 'GET'],
    [`/limits/${id}`, 'GET'],
    [`/limits/${id}/buckets?key=a`, 'GET'],
    [`/limits/${id}/buckets?key=a`, 'DELETE'],
    [`/limits/${id}/top`, 'GET']
  ] as const) {
    const { status, json } = await ask(path, { method, key: token })
    t.match([status, json], [403, { error_code: 'ERR_SLUICE_ADMIN_REQUIRED' }], `${method} ${path}`)
  }
})
