import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { statusPage } from '../../../src/capabilities/status/html.js'
import { Status } from '../../../src/capabilities/status/status.js'
import type { MappedBackend, TrafficMap } from '../../../src/control/traffic-answers.js'
import { asker } from '../../api/asking.js'
import { account, create, site, visit } from '../../helpers/account.js'
import { ManualClock } from '../../helpers/clock.js'
import { startSluice } from '../../helpers/sluice.js'

const RATES = { requests: 0, failed: 0, refused: 0, client_errors: 0 }

type Form = MappedBackend['form']

const backend = (
  form: Form,
  servers: readonly string[] = [],
  members: readonly MappedBackend[] = []
): MappedBackend => ({
  id: 'bk_secret',
  name: 'app',
  form,
  to: 'http://10.0.0.9:3000',
  servers: servers.map((status) => ({ server: '10.0.0.9:3000', status, reason: 'refused', since: null })),
  members: members.map((one) => ({ weight: 1, backend: one }))
})

const edge = (
  host: string,
  backends: readonly (MappedBackend | null)[],
  id = 'edghts_1'
): TrafficMap['edges'][number] => ({
  id,
  name: host,
  protocol: 'https',
  hosts: [{ host, port: 443, certificate: null }],
  every_host: false,
  on_http: null,
  rates: RATES,
  routes: backends.map((to) => ({
    id: 'rt_1',
    name: 'a.test/hidden',
    match: 'prefix',
    path: '/hidden',
    modules: [],
    policies: [],
    rates: RATES,
    backend: to
  }))
})

const mapOf = (edges: TrafficMap['edges'], more: Partial<TrafficMap> = {}): TrafficMap => ({
  listeners: [],
  edges,
  tcp_edges: [],
  omitted: 0,
  ...more
})

const viewOf = (map: TrafficMap) => new Status({ clock: new ManualClock(), map: () => map }).current().view

const up = backend('address', ['up'])
const down = backend('address', ['down'])

t.test('the state of a site follows from its routes and servers', async (t) => {
  const cases: readonly [string, readonly (MappedBackend | null)[]][] = [
    ['up', [up]],
    ['up', [backend('address', ['unchecked'])]],
    ['degraded', [backend('address', ['up', 'down'])]],
    ['down', [backend('address', ['down', 'down'])]],
    ['down', [backend('address')]],
    ['down', [backend('tunnels')]],
    ['up', [backend('response')]],
    ['up', [null]],
    ['degraded', [up, down]],
    ['down', [backend('missing')]],
    ['degraded', [backend('weighted', [], [up, down])]],
    ['down', [backend('weighted', [], [down])]],
    ['up', [backend('failover', [], [up, down])]],
    ['degraded', [backend('failover', [], [down, up])]],
    ['down', [backend('failover', [], [down, down])]]
  ]
  for (const [expected, backends] of cases) {
    const view = viewOf(mapOf([edge('a.test', backends)]))
    t.same(view.sites, [{ name: 'a.test', status: expected }], JSON.stringify(backends.map((one) => one?.form)))
    t.equal(view.status, expected)
  }
})

t.test('a name is listed once, and the worst of its edges shows', async (t) => {
  const view = viewOf(
    mapOf([edge('b.test', [up]), edge('a.test', [up]), edge('a.test', [down])], {
      tcp_edges: [
        {
          id: 'edgtcp_1',
          name: 'db',
          protocol: 'tcp',
          ports: [{ host: '0.0.0.0', port: 5432 }],
          modules: [],
          policies: [],
          rates: RATES,
          backend: down
        }
      ]
    })
  )
  t.same(view, {
    status: 'degraded',
    checked_at: '2026-01-01T00:00:00Z',
    sites: [
      { name: 'a.test', status: 'degraded' },
      { name: 'b.test', status: 'up' },
      { name: 'tcp 5432', status: 'down' }
    ],
    omitted: 0
  })
})

t.test('endpoints of agents and internal names are not shown', async (t) => {
  const agent = edge('k3j4h5.sluice.localhost', [up], 'ephemeral/https/k3j4h5.sluice.localhost')
  t.same(viewOf(mapOf([agent, edge('db.internal', [up])])).sites, [])
})

t.test('a state is computed once in five seconds, and has a bounded number of sites', async (t) => {
  const clock = new ManualClock()
  let maps = 0
  const edges = Array.from({ length: 600 }, (_, i) => edge(`s${i}.test`, [up]))
  const status = new Status({
    clock,
    map: () => {
      maps++
      return mapOf(edges, { omitted: 7 })
    }
  })
  for (let i = 0; i < 100; i++) status.current()
  clock.advance(4_999)
  const { view } = status.current()
  t.equal(maps, 1)
  t.equal(view.sites.length, 500)
  t.equal(view.omitted, 107)
  clock.advance(1)
  t.not(status.current().view, view)
  t.equal(maps, 2)
})

t.test('the page is HTML without script; names are escaped', async (t) => {
  const page = statusPage({
    status: 'down',
    checked_at: '2026-01-01T00:00:00Z',
    sites: [{ name: '<b>"x"', status: 'down' }],
    omitted: 2
  })
  t.match(page, '<td>&lt;b&gt;&quot;x&quot;</td><td class="down">down</td>')
  t.match(page, 'All sites are down')
  t.match(page, '2 more are not listed')
  t.notMatch(page, /<script|https?:/)
})

t.test('the page is off by default', async (t) => {
  const sluice = await startSluice(t)
  const ask = asker('127.0.0.1', sluice.apiPort)
  t.equal((await ask('/status', { key: null })).status, 404)
  t.notMatch((await account(sluice)('/openapi.json')).json.paths, { '/status': {} })
  t.notMatch((await account(sluice)('/metrics')).text, 'sluice_status_sites')
})

t.test('when it is on, everybody sees which sites are up, and nothing else of them', async (t) => {
  const clock = new ManualClock()
  const { port, close } = await server(t)
  const sluice = await startSluice(t, { options: { STATUS_PAGE: 'on' }, clock })
  const address = `127.0.0.1:${port}`
  const made = await create(sluice, '/backends/static', { address })
  await site(sluice, 'shop.example.com', { backend: { backend_id: made.id } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const anonymous = { key: null, headers: { 'service-version': '' } }
  const answer = await ask('/status?from=probe', anonymous)
  t.match(answer, {
    status: 200,
    headers: { 'content-type': /^application\/json/, 'cache-control': 'public, max-age=5' }
  })
  t.match(answer.json, { status: 'up', sites: [{ name: 'shop.example.com', status: 'up' }], omitted: 0 })
  for (const secret of [address, made.id, 'edghts_']) t.notOk(answer.text.includes(secret), secret)
  await close()
  for (let i = 0; i < 5; i++) t.equal((await visit(sluice, 'shop.example.com')).status, 502)
  clock.advance(5_000)
  t.match((await ask('/status', anonymous)).json, { status: 'down', sites: [{ status: 'down' }] })
  const page = await ask('/status', { key: null, headers: { accept: 'text/html,*/*;q=0.8' } })
  t.match(page.headers, {
    'content-type': /^text\/html/,
    vary: 'accept',
    'content-security-policy': /^default-src 'none'; style-src 'sha256-/
  })
  t.match(page.text, '<td>shop.example.com</td><td class="down">down</td>')
  t.match((await account(sluice)('/metrics')).text, 'sluice_status_sites{status="down"} 1')
  t.equal((await ask('/status', { ...anonymous, method: 'POST' })).status, 405)
  t.equal((await ask('/status', { ...anonymous, headers: { host: 'evil.example' } })).status, 403)
})

async function server(t: Test) {
  const upstream = createServer((_request, response) => response.end('ok'))
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  const close = async () => {
    upstream.closeAllConnections()
    if (upstream.listening) await new Promise((done) => upstream.close(done))
  }
  t.teardown(close)
  return { port: (upstream.address() as AddressInfo).port, close }
}
