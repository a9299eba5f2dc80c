import { createHmac, X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { TRAFFIC_FIELDS } from '../../../src/telemetry/event-fields.js'
import { Browser, overNetwork } from '../../features/login/browser.js'
import { CLIENT, FakeProvider } from '../../features/login/fake-provider.js'
import { startRoute } from '../../features/route.js'
import { create } from '../../helpers/account.js'
import { rawClient } from '../../helpers/raw-client.js'
import { engines, type RunningSluice } from '../../helpers/sluice.js'
import { freePort } from '../../proxy/free-port.js'
import { askTls, authority, certificate } from '../../proxy/tls-client.js'
import { receiver } from './receiver.js'

const HOST = 'app.example.com'
const HTTP = 'http_request_complete.v0'
const TCP = 'tcp_connection_closed.v0'

type Fields = Record<string, unknown>

/** A webhook that hears of all traffic; `next` answers the fields of the next event by their dotted paths. */
async function listening(t: Test, sluice: RunningSluice, type: string) {
  const sink = await receiver(t)
  const { id } = await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })
  await create(sluice, '/event_subscriptions', { sources: [{ type }], destination_ids: [id] })
  const paths = Object.keys(TRAFFIC_FIELDS.get(type) ?? {})
  let seen = 0
  return async (): Promise<Fields> => {
    seen += 1
    await sink.until(() => sink.taken.length >= seen)
    const { object } = sink.taken[seen - 1] as { object: Fields }
    return Object.fromEntries(paths.map((path) => [path, valueAt(object, path)]))
  }
}

function valueAt(object: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((at, part) => (at as Fields | null)?.[part], object)
}

const OUTBOUND = { OUTBOUND_ALLOW_PRIVATE: 'true' }

for (const engine of engines) {
  t.test(`${engine}: what decides nothing says null; edge, route and connection are named`, async (t) => {
    const served = await startRoute(t, (_request, response) => response.end('hello'), {}, { engine, options: OUTBOUND })
    const next = await listening(t, served.sluice, HTTP)
    await served.get()
    await served.get()
    await served.get({ headers: { host: 'nobody.example.com' } })
    const [first, second, lost] = [await next(), await next(), await next()]
    for (const [path, value] of Object.entries(first)) {
      if (/decision$|decided_by|^(oauth|compression|error|basic_auth)/.test(path)) t.equal(value, null, path)
    }
    t.match(first, { 'edge.id': served.edge, 'edge.route_id': served.route, 'backend.connection_reused': false })
    t.match(first, { 'edge.name': /^[a-z.]+$/, 'edge.route_name': `${first['edge.name']}/` })
    t.match(first, { 'upstream.backend': /^bk/, 'upstream.name': /^http:/ })
    t.equal(second['backend.connection_reused'], true)
    t.match(lost, {
      'edge.id': null,
      'error.code': 'NO_ROUTE',
      'http.response.status_code': 404,
      'backend.connection_reused': null
    })
  })

  t.test(`${engine}: how much compression saves`, async (t) => {
    const text = 'a page that repeats itself. '.repeat(500)
    const serve = (_request: unknown, response: import('node:http').ServerResponse) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end(text)
    const served = await startRoute(t, serve, { compression: {} }, { engine, options: OUTBOUND })
    const next = await listening(t, served.sluice, HTTP)
    for (const coding of ['gzip', 'br']) {
      const { body } = await served.get({ headers: { 'accept-encoding': coding } })
      const event = await next()
      t.match(event, { 'compression.algorithm': coding, 'http.response.body_length': text.length })
      t.equal(event['compression.bytes_saved'], text.length - body.length)
    }
    await served.get()
    t.match(await next(), { 'compression.algorithm': 'none', 'compression.bytes_saved': 0 })
  })
}

t.test('IP restriction of a route, and the action', async (t) => {
  const served = await startRoute(t, (_request, response) => response.end(), {}, { options: OUTBOUND })
  const policy = await served.made('/ip_policies', {})
  await served.made('/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' })
  await served.put('ip_restriction', { ip_policy_ids: [policy.id] })
  const next = await listening(t, served.sluice, HTTP)
  await served.get({ from: '192.0.2.1' })
  await served.get({ from: '203.0.113.9' })
  t.match(await next(), { 'ip_policy.decision': 'allow', 'conn.client_ip': '192.0.2.1', 'error.code': null })
  t.match(await next(), { 'ip_policy.decision': 'block', 'error.code': 'IP_RESTRICTED' })
  await served.remove('ip_restriction')
  const value = `on_http_request: [{name: office, actions: [{type: restrict-ips, config: {allow: [192.0.2.0/24]}}]}]`
  await served.put('traffic_policy', { value })
  await served.get({ from: '203.0.113.9' })
  t.match(await next(), {
    'ip_policy.decision': 'block',
    'traffic_policy.decided_by.rule': 'office',
    'traffic_policy.decided_by.action': 'restrict-ips',
    'traffic_policy.decided_by.phase': 'on_http_request'
  })
  await served.remove('traffic_policy')
  await served.made('/ip_restrictions', { type: 'endpoints', enforced: true, ip_policy_ids: [policy.id] })
  await served.get({ from: '203.0.113.9' })
  t.match(await next(), { 'ip_policy.decision': 'block', 'error.code': 'IP_RESTRICTED', 'http.request.method': 'GET' })
})

t.test('circuit breaker, rate limit and basic auth', async (t) => {
  const settings = { tripped_duration: 60, rolling_window: 10, volume_threshold: 1, error_threshold_percentage: 0.1 }
  const fail = (_request: unknown, response: import('node:http').ServerResponse) => response.writeHead(500).end()
  const served = await startRoute(t, fail, { circuit_breaker: settings }, { options: OUTBOUND })
  const next = await listening(t, served.sluice, HTTP)
  await served.get()
  await served.get()
  t.match(await next(), { 'circuit_breaker.decision': 'allow', 'http.response.status_code': 500, 'error.code': null })
  t.match(await next(), { 'circuit_breaker.decision': 'block', 'error.code': 'CIRCUIT_OPEN' })
  await served.remove('circuit_breaker')
  const value = `on_http_request:
  - actions: [{type: basic-auth, config: {credentials: ["ann:password-1"]}}]
  - name: limit
    actions: [{type: rate-limit, config: {name: one, algorithm: sliding_window, capacity: 1, rate: 60s, bucket_key: ["'all'"]}}]
`
  await served.put('traffic_policy', { value })
  const authorization = (pair: string) => ({ authorization: `Basic ${Buffer.from(pair).toString('base64')}` })
  for (const pair of ['ann:wrong-password', 'ann:password-1', 'ann:password-1'])
    await served.get({ headers: authorization(pair) })
  await served.get()
  const user = 'basic_auth.username'
  t.match(await next(), { 'basic_auth.decision': 'block', [user]: 'ann', 'rate_limit.decision': null })
  t.match(await next(), { 'basic_auth.decision': 'allow', [user]: 'ann', 'rate_limit.decision': 'allow' })
  t.match(await next(), {
    'basic_auth.decision': 'allow',
    'rate_limit.decision': 'block',
    'error.code': 'RATE_LIMITED',
    'traffic_policy.decided_by.rule': 'limit',
    'traffic_policy.decided_by.action': 'rate-limit'
  })
  t.match(await next(), { 'basic_auth.decision': 'block', [user]: null })
})

t.test('webhook verification', async (t) => {
  const secret = 'a-secret-of-the-sender'
  const modules = { webhook_verification: { provider: 'github', secret } }
  const served = await startRoute(t, (_request, response) => response.end(), modules, { options: OUTBOUND })
  const next = await listening(t, served.sluice, HTTP)
  const signature = createHmac('sha256', secret).update('').digest('hex')
  await served.get({ method: 'POST', headers: { 'x-hub-signature-256': `sha256=${signature}` } })
  await served.get({ method: 'POST', headers: { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` } })
  t.match(await next(), { 'webhook_verification.decision': 'allow', 'error.code': null })
  t.match(await next(), { 'webhook_verification.decision': 'block', 'error.code': 'WEBHOOK_UNVERIFIED' })
})

t.test('a login: who it is, and through which application', async (t) => {
  const provider = await new FakeProvider().start(t)
  provider.user = { id: 7, login: 'ann', name: 'Ann' }
  const file = join(t.testdir({}), 'providers.yaml')
  await writeFile(
    file,
    `github: {authorization_url: '${provider.url}/authorize', token_url: '${provider.url}/token', api_url: '${provider.url}'}`
  )
  const oauth = { provider: { github: { client_id: CLIENT.id, client_secret: CLIENT.secret } } }
  const options = { ...OUTBOUND, LOGIN_PROVIDERS: file }
  const served = await startRoute(t, (_request, response) => response.end(), { oauth }, { options })
  const next = await listening(t, served.sluice, HTTP)
  const page = await new Browser(overNetwork).visit(`http://${HOST}:${served.sluice.port}/start`)
  t.equal(page.status, 200)
  const [begun, back, passed] = [await next(), await next(), await next()]
  const application = { 'oauth.app_client_id': CLIENT.id }
  const nobody = { 'oauth.decision': 'block', 'oauth.user.id': null, 'oauth.user.name': null }
  t.match(begun, { ...application, ...nobody, 'http.request.url.path': '/start' })
  t.match(back, { ...application, ...nobody, 'http.request.url.path': '/.sluice/callback' })
  t.match(passed, { ...application, 'oauth.decision': 'allow', 'oauth.user.id': '7', 'oauth.user.name': 'Ann' })
  t.notMatch(JSON.stringify([begun, back, passed]), new RegExp(CLIENT.secret))
})

t.test('TLS and the certificate of the client', async (t) => {
  const port = await freePort()
  const options = { ...OUTBOUND, LISTENERS: `https://127.0.0.1:${port}` }
  const served = await startRoute(t, (_request, response) => response.end(), {}, { options })
  const clients = await authority('Clients')
  const ca = await served.made('/certificate_authorities', { ca_pem: clients.pem })
  const mutual = { enabled: true, certificate_authority_ids: [ca.id] }
  t.equal((await served.api('PUT', `/edges/https/${served.edge}/mutual_tls`, mutual)).status, 200)
  const alice = await certificate('alice', clients)
  const next = await listening(t, served.sluice, HTTP)
  t.equal((await askTls(port, HOST, { cert: alice.pem, key: alice.key })).status, 200)
  const event = await next()
  t.match(event, {
    'tls.version': 'TLSv1.3',
    'tls.cipher_suite': /^TLS_/,
    'tls.client_cert.subject.cn': 'alice',
    'tls.client_cert.serial_number': new X509Certificate(alice.pem).serialNumber.toLowerCase(),
    'conn.server_name': HOST,
    'http.request.url.scheme': 'https'
  })
})

t.test('connections to a TCP edge: who was kept out, and by what', async (t) => {
  const served = await startRoute(t, (_request, response) => response.end(), {}, { options: OUTBOUND })
  const policy = await served.made('/ip_policies', {})
  const port = await freePort()
  const edge = await served.made('/edges/tcp', {
    hostports: [`db.example.com:${port}`],
    ip_restriction: { ip_policy_ids: [policy.id] }
  })
  const next = await listening(t, served.sluice, TCP)
  const knock = async () => {
    const client = await rawClient(port)
    await client.untilEnd()
  }
  await knock()
  t.match(await next(), { 'edge.id': edge.id, 'ip_policy.decision': 'block', 'error.code': 'CONNECTION_REFUSED' })
  await served.made('/ip_policy_rules', { ip_policy_id: policy.id, cidr: '127.0.0.0/8', action: 'allow' })
  const value = 'on_tcp_connect: [{name: shut, actions: [{type: deny}]}]'
  await served.api('PATCH', `/edges/tcp/${edge.id}`, { traffic_policy: { value } })
  await knock()
  t.match(await next(), {
    'ip_policy.decision': 'allow',
    'traffic_policy.decided_by.rule': 'shut',
    'traffic_policy.decided_by.phase': 'on_tcp_connect',
    'traffic_policy.decided_by.action': 'deny'
  })
})
