import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Browser, overNetwork } from '../../features/login/browser.js'
import { CLIENT, FakeProvider } from '../../features/login/fake-provider.js'
import { writeRules } from '../../features/waf/crs-like.js'
import { account, create, site, visit } from '../../helpers/account.js'
import { type RunningSluice, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'

const HOST = 'shop.localhost'
const POLICY = `on_http_request:
  - name: firewall
    actions: [{ type: owasp-crs-request, config: { enforce: false } }]
  - name: no scripts
    expressions: ["req.url.path.startsWith('/admin')"]
    actions: [{ type: deny, config: { status_code: 403 } }]
  - name: a few a minute
    actions:
      - type: rate-limit
        config:
          name: few
          algorithm: sliding_window
          capacity: 44
          rate: 60s
          bucket_key: [conn.client_ip]
`
const PATHS = [
  '/',
  '/cart',
  '/images/shoe.png',
  '/search?q=shoe',
  '/admin/users',
  '/search?q=%3Cscript%3E',
  '/products/42'
]
const LONG_PATH = `/catalogue/${'a-long-name-of-a-thing/'.repeat(6)}?page=2&sort=price`

interface Life {
  teardown(end: () => Promise<void>): void
}

/** A product at work, and every place of the dashboard that has something of it to show. */
export interface BusyProduct {
  readonly sluice: RunningSluice
  /** Names of pictures, and places of the dashboard. */
  readonly places: ReadonlyMap<string, string>
  /** Sends the request number `at` of a client. */
  visit(at: number): Promise<void>
}

/** Starts a shop with a limit, tests of its policy, a certificate that ends soon, and events that cannot be delivered. */
export async function startBusyProduct(life: Life): Promise<BusyProduct> {
  const upstream = createServer((request, response) => {
    response.statusCode = request.url === '/products/42' ? 404 : 200
    setTimeout(() => response.end('hello'), Math.random() * 20)
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  life.teardown(async () => {
    upstream.close()
    upstream.closeAllConnections()
  })
  const folder = await mkdtemp(join(tmpdir(), 'sluice-rules-'))
  life.teardown(() => rm(folder, { recursive: true }))
  const options = { OUTBOUND_ALLOW_PRIVATE: 'true', RECORDER_WHERE: 'true', WAF_RULES: writeRules(folder) }
  const { port } = upstream.address() as AddressInfo
  const sluice = await startSluice(life, { options, upstream: { port }, policy: POLICY })
  const ask = account(sluice)
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  const { route } = await site(sluice, HOST, { backend: { backend_id: backend.id }, traffic_policy: { value: POLICY } })
  const url = 'https://hooks.example.com/a/long/path/of/a/webhook/that/nobody/takes'
  const destination = await create(sluice, '/event_destinations', { target: { webhook: { url } } })
  const sources = [{ type: 'ip_policy_created.v0' }, { type: 'vault_created.v0' }]
  await create(sluice, '/event_subscriptions', { description: 'changes', sources, destination_ids: [destination.id] })
  await create(sluice, '/ip_policies', { description: 'office' })
  const visitAt = async (at: number) => {
    const path = at % 11 === 10 ? LONG_PATH : (PATHS[at % PATHS.length] as string)
    await visit(sluice, HOST, { path })
  }
  for (let at = 0; at < 60; at++) await visitAt(at)
  await logIn(life, sluice)
  const { exchanges } = (await ask('/exchanges?limit=1')).json
  const { limits } = (await ask('/limits?limit=1')).json
  const { revisions } = (await ask('/revisions?limit=1')).json
  const { application_users } = (await ask('/app/users')).json
  const places = new Map([
    ...PAGES.map((name) => [name, name] as const),
    ['exchange', `traffic/${exchanges[0].id}`],
    ['policy', `policies/${route.split('/').at(-1)}`],
    ['limit', `limits/${limits[0].id}`],
    ['user', `users/${application_users[0].id}`],
    ['not-delivered', `events/${destination.id}`],
    ['revision', `history/${revisions[0].id}`]
  ])
  return { sluice, places, visit: visitAt }
}

/** Lets a user with a long name log in at a site of its own, with two browsers. */
async function logIn(life: Life, sluice: RunningSluice): Promise<void> {
  const provider = await new FakeProvider().start(life)
  provider.user = {
    sub: 'u1',
    name: 'Ann of the Purchasing Department',
    email: 'ann.purchasing@example.com',
    email_verified: true
  }
  const login = { issuer: provider.url, client_id: CLIENT.id, client_secret: CLIENT.secret }
  const backend = await create(sluice, '/backends/http_response', { body: 'hello' })
  await site(sluice, 'members.localhost', { backend: { backend_id: backend.id }, oidc: login })
  const agent = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
  for (let n = 0; n < 2; n++) {
    const browser = new Browser((method, url, headers, body) =>
      overNetwork(method, url, { ...headers, 'user-agent': agent }, body)
    )
    await browser.visit(`http://members.localhost:${sluice.port}/`)
  }
  const listed = async () => (await account(sluice)('/app/sessions')).json.application_sessions.length === 2
  await until(listed)
}

/** Every page of the dashboard, by its place. */
export const PAGES = [
  'overview',
  'traffic',
  'routes',
  'policies',
  'firewall',
  'limits',
  'agents',
  'users',
  'certificates',
  'events',
  'history',
  'processes'
]
