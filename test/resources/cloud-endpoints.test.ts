import t from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { freePort } from '../proxy/free-port.js'

/** One product serves all tests here, each with hosts of its own. */
const sluice = await startSluice(t)

const answer = (text: string) =>
  `on_http_request:\n  - actions:\n      - type: custom-response\n        config: { status_code: 200, body: "${text}" }\n`
const leadTo = (url: string) =>
  `on_http_request:\n  - actions:\n      - type: forward-internal\n        config: { url: "${url}" }\n`

const cloud = (
  sluice: RunningSluice,
  url: string,
  traffic_policy: string,
  more: Readonly<Record<string, unknown>> = {}
) => create(sluice, '/endpoints', { type: 'cloud', url, traffic_policy, ...more })

/** The error of a refused creation. */
async function refusal(sluice: RunningSluice, body: Readonly<Record<string, unknown>>) {
  const { status, json } = await account(sluice)('/endpoints', { method: 'POST', body })
  return { status, code: json.error_code, field: json.details?.field, msg: json.msg }
}

t.test('a cloud endpoint answers by its policy from its creation to its deletion', async (t) => {
  const ask = account(sluice)
  const domain = await create(sluice, '/reserved_domains', { domain: '*.cloud.test' })
  const made = await cloud(sluice, 'HTTPS://Shop.Cloud.test.:443/', answer('one'), { metadata: '{"name":"shop"}' })
  t.match(made, {
    id: /^ep_[0-9A-Za-z]{27}$/,
    type: 'cloud',
    source: 'api',
    url: 'https://shop.cloud.test',
    public_url: 'https://shop.cloud.test',
    hostport: 'shop.cloud.test:443',
    host: 'shop.cloud.test',
    port: 443,
    proto: 'https',
    bindings: ['public'],
    pooling_enabled: false,
    domain: { id: domain.id },
    edge: null,
    traffic_policy: answer('one')
  })
  t.match(await visit(sluice, 'shop.cloud.test', { path: '/any/where' }), { status: 200, body: 'one' })
  t.same((await ask(`/endpoints/${made.id}`)).json, made)
  const patch = { method: 'PATCH', body: { traffic_policy: answer('two') } }
  t.match(await ask(`/endpoints/${made.id}`, patch), { status: 200, json: { url: made.url, metadata: made.metadata } })
  t.match(await visit(sluice, 'shop.cloud.test'), { body: 'two' })
  const moved = await ask(`/endpoints/${made.id}`, { method: 'PATCH', body: { url: 'http://other.cloud.test' } })
  t.match(moved.json, { proto: 'http', host: 'other.cloud.test', port: 80, traffic_policy: answer('two') })
  t.match(await visit(sluice, 'shop.cloud.test'), { status: 404 })
  t.match(await visit(sluice, 'other.cloud.test'), { status: 200, body: 'two' })
  const held = await ask(`/reserved_domains/${domain.id}`, { method: 'DELETE' })
  t.equal(held.status, 204, 'a wildcard is the domain of no one endpoint')
  t.equal((await ask(`/endpoints/${made.id}`, { method: 'DELETE' })).status, 204)
  t.equal((await ask(`/endpoints/${made.id}`)).status, 404)
  t.equal((await ask(`/endpoints/${made.id}`, patch)).status, 404)
  t.match(await visit(sluice, 'other.cloud.test'), { status: 404, headers: { 'sluice-error-code': 'NO_ROUTE' } })
})

t.test('a policy that ends without an answer gets 404', async (t) => {
  await cloud(sluice, 'https://silent.test', 'on_http_request: []')
  const seen = await visit(sluice, 'silent.test')
  t.match(seen, { status: 404, headers: { 'sluice-error-code': 'POLICY_WITHOUT_ANSWER' } })
})

t.test('an internal endpoint is reached by policies alone', async (t) => {
  const made = await cloud(sluice, 'https://api.internal', answer('inside'), { bindings: ['internal'] })
  t.same(made.bindings, ['internal'])
  await cloud(sluice, 'http://plain.internal', answer('plain'))
  await site(sluice, 'edge.test', { traffic_policy: { value: leadTo('https://api.internal') } })
  await cloud(sluice, 'https://cloud.test', leadTo('http://plain.internal'))
  t.match(await visit(sluice, 'edge.test'), { status: 200, body: 'inside' })
  t.match(await visit(sluice, 'cloud.test'), { status: 200, body: 'plain' })
  t.match(await visit(sluice, 'api.internal'), { status: 404 })
})

t.test('a TCP endpoint runs its policy for each connection', async (t) => {
  const port = await freePort()
  const deny = 'on_tcp_connect: [{ actions: [{ type: deny }] }]'
  const made = await cloud(sluice, `tcp://localhost:${port}`, deny)
  t.match(made, { proto: 'tcp', url: `tcp://localhost:${port}`, port })
  const line = () => sluice.line(({ msg, edge }) => msg === 'connection' && edge === made.id)
  const client = await rawClient(port)
  client.end()
  await client.closed
  t.match(await line(), { status: undefined })
  const http = { url: made.url.replace(port, port - 1), traffic_policy: answer('x') }
  t.match(await refusal(sluice, http), { status: 400, code: /POLICY_PHASE/, field: 'traffic_policy' })
  t.equal((await account(sluice)(`/endpoints/${made.id}`, { method: 'DELETE' })).status, 204)
  await t.rejects(rawClient(port), 'its port is closed')
})

t.test('a TLS endpoint has the connections of a TLS listener by their names', async (t) => {
  const made = await cloud(sluice, 'tls://db.test', 'on_tcp_connect: [{ actions: [{ type: deny }] }]')
  t.match(made, { proto: 'tls', url: 'tls://db.test', port: 443 })
  const patch = { method: 'PATCH', body: { traffic_policy: answer('x') } }
  t.match(await account(sluice)(`/endpoints/${made.id}`, patch), { status: 400, json: { error_code: /POLICY_PHASE/ } })
  const moved = { method: 'PATCH', body: { url: 'https://db.test', traffic_policy: answer('web') } }
  t.match(await account(sluice)(`/endpoints/${made.id}`, moved), { status: 200, json: { proto: 'https' } })
  t.match(await visit(sluice, 'db.test'), { status: 200, body: 'web' })
})

t.test('what cannot be served is refused', async (t) => {
  const body = { url: 'https://a.test', traffic_policy: answer('x') }
  const cases = [
    [{ ...body, url: 'https://a.test/path' }, 'url'],
    [{ ...body, url: 'udp://a.test:1' }, 'url'],
    [{ ...body, url: 'a.test' }, 'url'],
    [{ ...body, url: 'tcp://a.test' }, 'url'],
    [{ ...body, url: 'https://user@a.test' }, 'url'],
    [{ ...body, url: 'tcp://*.a.test:7000', traffic_policy: 'on_tcp_connect: []' }, 'url'],
    [{ ...body, url: 'tls://a.internal', traffic_policy: 'on_tcp_connect: []' }, 'url'],
    [{ ...body, bindings: ['kubernetes'] }, 'bindings'],
    [{ ...body, bindings: ['internal'] }, 'bindings'],
    [{ ...body, url: 'https://a.internal', bindings: ['public'] }, 'bindings'],
    [{ ...body, type: 'edge' }, 'type'],
    [{ ...body, traffic_policy: 'on_http_request: [{ actions: [{ type: unheard-of }] }]' }, 'traffic_policy']
  ] as const
  for (const [asked, field] of cases)
    t.match(await refusal(sluice, asked), { status: 400, field }, JSON.stringify(asked))
  t.match(await refusal(sluice, { url: body.url }), { status: 400, field: 'traffic_policy', code: /FIELD_REQUIRED/ })
  const { endpoints } = (await account(sluice)('/endpoints?limit=100')).json
  t.notOk(endpoints.some(({ host }: { host: string }) => /^a\.(test|internal)$/.test(host)))
})

t.test('one host and port has one holder', async (t) => {
  const ask = account(sluice)
  const traffic_policy = answer('x')
  const edge = await create(sluice, '/edges/https', { hostports: ['held-by-edge.test:443'] })
  const made = await cloud(sluice, 'https://held.test', traffic_policy, { pooling_enabled: true })
  const taken = { status: 409, code: /ALREADY_EXISTS/, field: 'url' }
  t.match(await refusal(sluice, { url: 'https://held-by-edge.test', traffic_policy }), {
    ...taken,
    msg: new RegExp(edge.id)
  })
  const pooled = { url: 'https://held.test', traffic_policy, pooling_enabled: true }
  t.match(await refusal(sluice, { ...pooled, pooling_enabled: false }), { ...taken, msg: /pooling_enabled/ })
  t.match(await refusal(sluice, { ...pooled, url: 'tls://held.test', traffic_policy: 'on_tcp_connect: []' }), taken)
  const other = await ask('/edges/https', { method: 'POST', body: { hostports: ['held.test:443'] } })
  t.match(other, { status: 409, json: { msg: new RegExp(`endpoint ${made.id}`) } })
  await cloud(sluice, 'http://held-by-edge.test', traffic_policy)
  const own = await create(sluice, '/reserved_domains', { domain: 'held.test' })
  const held = await ask(`/reserved_domains/${own.id}`, { method: 'DELETE' })
  t.match(held, { status: 409, json: { details: { used_by: `endpoint ${made.id}` } } })
  await ask(`/endpoints/${made.id}`, { method: 'DELETE' })
  t.equal((await ask(`/reserved_domains/${own.id}`, { method: 'DELETE' })).status, 204)
  await cloud(sluice, 'https://held.test', traffic_policy)
})

t.test('the list has them among those of edges, in pages too', async (t) => {
  const ask = account(sluice)
  const ids: string[] = []
  for (let n = 0; n < 3; n++) {
    await create(sluice, '/edges/https', { hostports: [`e${n}.test:443`] })
    ids.push((await cloud(sluice, `https://c${n}.test`, answer('x'))).id)
  }
  const page = async (path: string): Promise<{ host: string; id: string; uri: string }[]> =>
    (await ask(path)).json.endpoints
  const all = (await page('/endpoints')).map(({ host }) => host)
  t.same(all.slice(0, 6), ['c2.test', 'e2.test', 'c1.test', 'e1.test', 'c0.test', 'e0.test'])
  for (const one of await page('/endpoints')) t.same((await ask(`/endpoints/${one.id}`)).json, one)
  const first = await ask('/endpoints?limit=3')
  await ask(`/endpoints/${ids[1]}`, { method: 'DELETE' })
  const rest = await ask(`/endpoints?${new URL(first.json.next_page_uri).search.slice(1)}`)
  t.same(
    rest.json.endpoints.slice(0, 3).map(({ host }: { host: string }) => host),
    ['e1.test', 'c0.test', 'e0.test'],
    'the cursor may be deleted'
  )
  t.match(await ask('/endpoints?before_id=ep_000000000000000000000000000'), { status: 400 })
})

t.test('names must be reserved where the process asks for that', async (t) => {
  const sluice = await startSluice(t, { options: { REQUIRE_RESERVED: 'on' } })
  const traffic_policy = answer('x')
  t.match(await refusal(sluice, { url: 'https://a.test', traffic_policy }), {
    status: 400,
    field: 'url',
    code: /REF_NOT_FOUND/
  })
  await cloud(sluice, 'https://a.internal', traffic_policy)
  await create(sluice, '/reserved_domains', { domain: 'a.test' })
  await cloud(sluice, 'https://a.test', traffic_policy)
})
