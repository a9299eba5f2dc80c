import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { account, create, site, visit } from '../../helpers/account.js'
import { type RunningSluice, startSluice } from '../../helpers/sluice.js'

const KEY = 'sk_live_do_not_show'

const LIMIT = `on_http_request:
  - actions:
      - type: rate-limit
        config: { name: per key, algorithm: sliding_window, capacity: 1, rate: 60s, bucket_key: ["req.headers['x-api-key']"] }
`

async function upstream(t: Test): Promise<number> {
  const server = createServer((_request, response) => response.end('here'))
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => server.close(done)))
  return (server.address() as AddressInfo).port
}

const indented = (text: string, spaces: number) => text.replace(/^(?=.)/gm, ' '.repeat(spaces))

/** A product with a site file: a limited route, one whose server is down, and nothing at other hosts. */
async function withSiteFile(t: Test): Promise<RunningSluice> {
  const file = join(await mkdtemp(join(tmpdir(), 'sluice-names-')), 'site.yaml')
  const text = `sites:
  app.test:
    redirect: off
    routes:
      /api/:
        backend: shop
        policy:
${indented(LIMIT, 10)}
      /dead/: dead
backends:
  shop: { servers: [http://127.0.0.1:${await upstream(t)}] }
  dead: { servers: [http://127.0.0.1:9] }
`
  await writeFile(file, text)
  return await startSluice(t, { options: { SITE_FILE: file } })
}

/** The same through the API. */
async function withRecords(t: Test): Promise<RunningSluice> {
  const sluice = await startSluice(t)
  const named = (name: string, port: number) =>
    create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, metadata: JSON.stringify({ name }) })
  const shop = await named('shop', await upstream(t))
  const dead = await named('dead', 9)
  const { edge } = await site(sluice, 'app.test', {
    match: '/api/',
    backend: { backend_id: shop.id },
    traffic_policy: { value: LIMIT }
  })
  await create(sluice, `${edge}/routes`, { match: '/dead/', backend: { backend_id: dead.id } })
  return sluice
}

interface Line {
  readonly site: string | null
  readonly route_name: string | null
  readonly decision: { readonly status: number; readonly reason: string | null }
  readonly upstream: { readonly name: string } | null
}

for (const [how, start] of [
  ['a site file', withSiteFile],
  ['records of the API', withRecords]
] as const) {
  t.test(`${how}: a refusal is found afterwards, with names and its reason, without any option`, async (t) => {
    const sluice = await start(t)
    const ask = (path: string, host = 'app.test') => visit(sluice, host, { path, headers: { 'x-api-key': KEY } })
    t.same([(await ask('/api/a')).status, (await ask('/api/b')).status], [200, 429])
    t.same([(await ask('/dead/')).status, (await ask('/other')).status], [502, 404])
    t.equal((await ask('/', 'unknown.test')).status, 404)

    const list = async (query = ''): Promise<Line[]> => (await account(sluice)(`/exchanges${query}`)).json.exchanges
    const all = (await list()).reverse()
    t.match(all, [
      {
        site: 'app.test',
        route_name: 'app.test/api/',
        decision: { status: 200, reason: null },
        upstream: { name: 'shop' }
      },
      {
        route_name: 'app.test/api/',
        decision: { reason: /^429 by limit "per key": 1 of 1 in 60s; free again in \d+s$/ }
      },
      {
        route_name: 'app.test/dead/',
        decision: {
          reason:
            '502 from backend "dead" (http://127.0.0.1:9) after 2 tries: no connection to the upstream could be opened'
        }
      },
      { site: 'app.test', route_name: null, decision: { reason: '404: the site app.test has no route for this path' } },
      { site: null, decision: { reason: '404: no site has this host' } }
    ])
    t.notMatch(JSON.stringify(all), KEY)
    const statuses = (lines: Line[]) => lines.map(({ decision }) => decision.status)
    t.same(statuses(await list('?site=app.test&status=4xx')), [404, 429])
    t.same(statuses(await list('?route=app.test/api')), [429, 200], 'the slash at the end may be left out')
    t.same(statuses(await list('?route=app.test/dead/')), [502])

    const line = await sluice.line(({ msg, status }) => msg === 'exchange' && status === 429)
    t.match(line, { site: 'app.test', route_name: 'app.test/api/', reason: /^429 by limit "per key"/ })
    t.match(await sluice.line(({ msg, status }) => msg === 'exchange' && status === 200), {
      upstream: { name: 'shop' }
    })

    const { text } = await account(sluice)('/metrics')
    for (const series of [
      'sluice_requests_total{site="app.test",status="429"} 1',
      'sluice_route_duration_seconds_count{site="app.test",route="app.test/api/"} 2',
      'sluice_upstream_duration_seconds_count{backend="shop"} 1',
      'sluice_rate_limit_total{owner="app.test/api/",name="per key",result="refused"} 1'
    ])
      t.match(text, `\n${series}\n`)
    t.match((await account(sluice)('/limits')).json.limits, [{ name: 'per key', owner: { name: 'app.test/api/' } }])
    const [edge] = (await account(sluice)('/map')).json.edges
    t.equal(edge.name, 'app.test')
    const routes = edge.routes.map(({ name, backend }: Record<string, { name: string }>) => [name, backend?.name])
    t.same(routes.sort(), [
      ['app.test/api/', 'shop'],
      ['app.test/dead/', 'dead']
    ])
    await acceptsNames(t, sluice)
  })
}

/** Explain, replay and shadow take the names of routes, and list them for an unknown one. */
async function acceptsNames(t: Test, sluice: RunningSluice): Promise<void> {
  const post = (path: string, body: object) => account(sluice)(path, { method: 'POST', body })
  const policies = (route: string) => [{ route, text: 'on_http_request: [{ actions: [{ type: deny }] }]' }]
  const asked = { url: 'http://app.test/api/x' }
  const explained = await post('/explain', { ...asked, policies: policies('app.test/api') })
  t.match(explained.json.explanations, [
    {
      edge: { name: 'app.test' },
      route: { name: 'app.test/api/' },
      decision: { reason: '403 by deny (on_http_request, rule 1)' }
    }
  ])
  t.match((await post('/replay', { policies: policies('app.test/api/') })).json, { exchanges: 5, changed: 2 })
  t.equal((await post('/shadows', { policies: policies('app.test/api') })).status, 201)
  const list =
    /no route app\.test\/ap with a traffic policy serves here; did you mean "app\.test\/api\/"\?; there are app\.test\/api\/$/
  for (const [path, body] of Object.entries({ '/explain': asked, '/replay': {}, '/shadows': {} })) {
    const answer = await post(path, { ...body, policies: policies('app.test/ap') })
    t.match(answer, { status: 404, json: { msg: list, details: { field: 'policies.route' } } })
  }
  t.match(
    (await post('/replay', { policies: policies('default') })).json.msg,
    /no route default .*there are app\.test\/api\//
  )
}
