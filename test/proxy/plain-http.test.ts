import t, { type Test } from 'tap'
import { startRefusingAuthority } from '../capabilities/certificates/authority-double.js'
import { account, create, type Seen, site, visit } from '../helpers/account.js'
import { engines, type RunningSluice, startSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'
import { freePort } from './free-port.js'
import { askTls, authority, certificate, session } from './tls-client.js'

const OK = 'HTTP/1.1 200 OK\r\nstrict-transport-security: max-age=5\r\ncontent-length: 2\r\n\r\nok'
const SHOP = 'shop.example.com'
const BARE = 'bare.example.com'
const YEAR = 31_536_000

/** A product with a TLS listener and two edges, of which one has a certificate. `query`: of the URL of that listener. */
async function start(t: Test, options: Readonly<Record<string, string>> = {}, query = '') {
  const port = await freePort()
  const sluice = await startSluice(t, {
    options: { LISTENERS: `https://127.0.0.1:${port}${query}`, TRUSTED_PROXIES: '127.0.0.2/32', ...options }
  })
  const upstream = await RawUpstream.start(t, answering(OK))
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const route = { backend: { backend_id: id } }
  const ca = await authority('Test CA')
  const { pem, key } = await certificate('Shop', ca, [SHOP, '*.wild.example.com'])
  await create(sluice, '/tls_certificates', { certificate_pem: pem, private_key_pem: key })
  const shop = await site(sluice, SHOP, route)
  const bare = await site(sluice, BARE, route)
  return { sluice, port, ca, route, shop: shop.edge, bare: bare.edge }
}

const patch = async (sluice: RunningSluice, edge: string, body: object): Promise<void> => {
  const answer = await account(sluice)(edge, { method: 'PATCH', body })
  if (answer.status !== 200) throw new Error(answer.text)
}

const code = ({ headers }: Seen) => headers['sluice-error-code']

t.test('by default HTTPS edges answer without TLS as with it, and the start says so in one line', async (t) => {
  const data = t.testdir({})
  const first = await start(t, { DATA: data })
  t.match(await visit(first.sluice, SHOP), { status: 200, body: 'ok' })
  const told = (sluice: RunningSluice) => sluice.log.filter(({ msg }) => /answer in plain HTTP/.test(String(msg)))
  t.same(told(first.sluice), [], 'at the start there were none')
  await first.sluice.stop()
  const alone = await startSluice(t, { options: { DATA: data } })
  t.same(told(alone), [], 'without a listener with TLS there is no HTTPS that clients could use')
  await alone.stop()
  const LISTENERS = `https://127.0.0.1:${first.port}`
  const second = await startSluice(t, { options: { DATA: data, LISTENERS } })
  t.match(told(second), [{ level: 30, names: 2, first: /^(shop|bare)\.example\.com$/, option: 'serve' }])
  t.equal(told(second).length, 1)
  await second.stop()
  const third = await startSluice(t, { options: { DATA: data, EDGES_ON_HTTP: 'redirect', LISTENERS } })
  t.match(told(third), [{ names: 1, first: BARE, option: 'redirect' }], 'the one without a certificate')
  await third.stop()
  const fourth = await startSluice(t, { options: { DATA: data, EDGES_ON_HTTP: 'refuse', LISTENERS } })
  t.same(told(fourth), [])
})

for (const engine of engines) {
  t.test(`${engine}: redirect leads to the same host, path and query by https`, async (t) => {
    const { sluice, port, shop, bare, route, ca } = await start(t, { EDGES_ON_HTTP: 'redirect', ENGINE: engine })
    const at = `https://${SHOP}:${port}`
    const moved = await visit(sluice, SHOP, { path: '/a/../b%20c?x=1&y=%2F', method: 'POST', body: 'a body' })
    t.match(moved, { status: 308, headers: { location: `${at}/b%20c?x=1&y=%2F` }, body: '' })
    t.equal(code(moved), undefined, 'it is no refusal')
    t.equal(moved.headers['strict-transport-security'], undefined)
    t.match(await visit(sluice, 'SHOP.example.com:8080', { path: '/none' }), { headers: { location: `${at}/none` } })
    t.match(await askTls(port, SHOP, { ca: ca.pem }), { status: 200, body: 'ok' })
    t.match(await visit(sluice, BARE), { status: 200 }, 'without a certificate there is no other place')
    t.match(await visit(sluice, 'none.example.com'), { status: 404 })
    await site(sluice, '*.wild.example.com', route)
    const wild = { status: 308, headers: { location: `https://a.wild.example.com:${port}/` } }
    t.match(await visit(sluice, 'a.wild.example.com'), wild)
    const login = await visit(sluice, SHOP, { path: '/.sluice/callback?state=x' })
    t.not(login.status, 308, 'paths of logins stay where the login began')
    await patch(sluice, shop, { on_http: 'serve' })
    t.match(await visit(sluice, SHOP), { status: 200 })
    await patch(sluice, bare, { on_http: 'refuse' })
    t.match(await visit(sluice, BARE), { status: 403, headers: { 'sluice-error-code': 'HTTPS_REQUIRED' } })
  })
}

t.test('redirect leads to the public port where clients know one, and nowhere while no listener has TLS', async (t) => {
  const { sluice, port, shop, route } = await start(t, { EDGES_ON_HTTP: 'redirect' }, '?public_port=443')
  t.match(await visit(sluice, SHOP, { path: '/x' }), { status: 308, headers: { location: `https://${SHOP}/x` } })
  const other = await create(sluice, '/edges/https', { hostports: ['plain.wild.example.com:80'] })
  await create(sluice, `/edges/https/${other.id}/routes`, { match: '/', ...route })
  const tls = { tls: true, proxy_protocol: false }
  const plain = { ...sluice, port: await freePort() }
  await sluice.listeners([
    { ...tls, listen: { host: '127.0.0.1', port }, public_port: 443 },
    { ...tls, listen: { host: '127.0.0.1', port: plain.port }, tls: false, public_port: 80 }
  ])
  t.match(await visit(sluice, 'plain.wild.example.com'), { status: 404 }, 'a name on port 80 is served there alone')
  t.match(await visit(plain, 'plain.wild.example.com'), { status: 200 }, 'and is none for HTTPS')
  await patch(sluice, `/edges/https/${other.id}`, { on_http: 'redirect' })
  t.match(await visit(plain, 'plain.wild.example.com'), { status: 200 }, 'it has no place with TLS here')
  await sluice.listeners([{ ...tls, listen: { host: '127.0.0.1', port }, public_port: 8443 }])
  t.match(await visit(sluice, SHOP), { status: 200 }, 'that listener does not serve the name')
  await patch(sluice, shop, { hostports: [`${SHOP}:443`, `${SHOP}:8443`] })
  t.match(await visit(sluice, SHOP), { status: 308, headers: { location: `https://${SHOP}:8443/` } })
  await sluice.listeners([])
  t.match(await visit(sluice, SHOP), { status: 200 })
  await sluice.listeners([{ ...tls, listen: { host: '127.0.0.1', port: 0 }, public_port: undefined }])
  const { headers } = await visit(sluice, SHOP)
  const [, found] = /^https:\/\/shop\.example\.com:(\d+)\/$/.exec(String(headers.location)) ?? []
  t.match(await askTls(Number(found), SHOP), { status: 200 }, 'a free port is the one that was taken')
})

t.test('refuse lets nothing in without TLS but where a proxy that we trust has ended it', async (t) => {
  const { sluice, port, ca } = await start(t, { EDGES_ON_HTTP: 'refuse', TRUSTED_PROXIES: '127.0.0.1/32' })
  const refused = await visit(sluice, SHOP)
  t.equal(refused.status, 403)
  t.equal(code(refused), 'HTTPS_REQUIRED')
  t.equal((await visit(sluice, BARE, { path: '/.sluice/login' })).status, 403)
  t.match(await askTls(port, SHOP, { ca: ca.pem }), { status: 200 })
  t.match(await visit(sluice, SHOP, { headers: { 'x-forwarded-proto': 'https' } }), { status: 200 })
  t.equal((await visit(sluice, SHOP, { headers: { 'x-forwarded-proto': 'http' } })).status, 403)
  const line = await sluice.line(({ code }) => code === 'HTTPS_REQUIRED')
  t.match(line, { status: 403 })
})

t.test('what a client says of TLS without being trusted is nothing', async (t) => {
  const { sluice } = await start(t, { EDGES_ON_HTTP: 'redirect' })
  t.equal((await visit(sluice, SHOP, { headers: { 'x-forwarded-proto': 'https' } })).status, 308)
})

t.test('an edge that asks for client certificates leads there too, and stays shut', async (t) => {
  const { sluice, shop } = await start(t, { TRUSTED_PROXIES: '127.0.0.1/32' })
  const { pem } = await authority('Clients')
  const { id } = await create(sluice, '/certificate_authorities', { ca_pem: pem })
  await patch(sluice, shop, { mutual_tls: { certificate_authority_ids: [id] } })
  t.equal((await visit(sluice, SHOP)).status, 421)
  await patch(sluice, shop, { on_http: 'redirect' })
  t.equal((await visit(sluice, SHOP)).status, 308)
  t.equal((await visit(sluice, SHOP, { headers: { 'x-forwarded-proto': 'https' } })).status, 421)
  t.equal((await visit(sluice, SHOP, { path: '/.sluice/login' })).status, 421)
  await patch(sluice, shop, { on_http: 'refuse' })
  t.equal((await visit(sluice, SHOP)).status, 403)
  await patch(sluice, shop, { on_http: 'serve' })
  t.equal((await visit(sluice, SHOP)).status, 421)
})

t.test('the proof of a certificate authority is found without TLS, whatever the edge says', async (t) => {
  const looked: Seen[] = []
  const running: { sluice?: RunningSluice } = {}
  const acme = await startRefusingAuthority(t, {
    looks: async (host, path) => {
      if (running.sluice !== undefined) looked.push(await visit(running.sluice, host, { path }))
    }
  })
  const { sluice } = await start(t, {
    EDGES_ON_HTTP: 'refuse',
    ACME_AGREE_TERMS: 'on',
    ACME_DIRECTORY: acme.directory
  })
  running.sluice = sluice
  await create(sluice, '/reserved_domains', {
    domain: BARE,
    certificate_management_policy: { authority: 'letsencrypt' }
  })
  await sluice.line(({ msg }) => /certificate/.test(String(msg)) && looked.length > 0)
  t.match(looked, [{ status: 200, body: /^token-0\./ }])
  t.equal((await visit(sluice, BARE, { path: '/.well-known/acme-challenge/other' })).status, 403)
})

t.test(
  'HSTS goes with every answer over TLS, in place of the one of the upstream, and with none without',
  async (t) => {
    const { sluice, port, shop } = await start(t, { HSTS_MAX_AGE: '8760h' })
    t.match(await askTls(port, SHOP), { status: 200, hsts: `max-age=${YEAR}` })
    t.match(await askTls(port, 'none.example.com'), { status: 404, hsts: undefined }, 'nobody serves the host')
    t.equal((await visit(sluice, SHOP)).headers['strict-transport-security'], 'max-age=5', 'only the upstream says it')
    await patch(sluice, shop, { hsts: { max_age: 2 * YEAR, include_subdomains: true, preload: true } })
    const full = `max-age=${2 * YEAR}; includeSubDomains; preload`
    t.match(await askTls(port, SHOP), { hsts: full })
    t.match(await askTls(port, BARE), { hsts: `max-age=${YEAR}` }, 'the others say what the process says')
    const policy = { on_http_request: [{ actions: [{ type: 'deny' }] }] }
    const routes = (await account(sluice)(shop)).json.routes
    const path = `${shop}/routes/${routes[0].id}`
    await account(sluice)(`${path}/traffic_policy`, { method: 'PUT', body: { value: JSON.stringify(policy) } })
    t.match(await askTls(port, SHOP), { status: 403, hsts: full }, 'refusals too')
    await account(sluice)(path, { method: 'DELETE' })
    t.match(await askTls(port, SHOP), { status: 404, hsts: full })
    const h2 = session(port, SHOP)
    t.match(await h2.ask(SHOP), { status: 404 })
    h2.close()
    await patch(sluice, shop, { hsts: { max_age: 0 } })
    t.match(await askTls(port, SHOP), { hsts: 'max-age=0' }, 'browsers forget it')
    await patch(sluice, shop, { hsts: { enabled: false } })
    t.match(await askTls(port, SHOP), { hsts: `max-age=${YEAR}` })
    for (const hsts of [
      { preload: true },
      { preload: true, include_subdomains: true, max_age: 60 },
      { max_age: -1 },
      { max_age: 'an hour' }
    ])
      t.equal((await account(sluice)(shop, { method: 'PATCH', body: { hsts } })).status, 400, JSON.stringify(hsts))
  }
)
