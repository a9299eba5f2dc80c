import t from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { startSluice } from '../helpers/sluice.js'
import { RawUpstream } from '../helpers/upstream.js'
import { freePort } from './free-port.js'

const SEEN = '${endpoint.id} ${endpoint.addr} ${endpoint.protocol} ${endpoint.url}'
const telling = (text: string) =>
  `on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "${text}" } }] }]`
const id = (path: string) => path.split('/').at(-1)

t.test('endpoint.* is the edge at the hostport that serves, not the listener', async (t) => {
  const sluice = await startSluice(t)
  const value = telling(SEEN)
  const { edge } = await site(sluice, 'shop.example.com', { traffic_policy: { value } })
  t.equal(
    (await visit(sluice, 'shop.example.com')).body,
    `${id(edge)} shop.example.com:443 https https://shop.example.com`
  )
  const wild = await create(sluice, '/edges/https', { hostports: ['*.example.com:443', 'other.example.com:8443'] })
  await create(sluice, `/edges/https/${wild.id}/routes`, { match: '/', traffic_policy: { value } })
  t.equal(
    (await visit(sluice, 'a.example.com')).body,
    `${wild.id} *.example.com:443 https https://*.example.com`,
    'a wildcard is what is configured'
  )
  const port = await freePort()
  const listen = { host: '127.0.0.1', port }
  await sluice.listeners([{ listen, tls: false, proxy_protocol: false, public_port: 8443 }])
  t.equal(
    (await visit({ ...sluice, port }, 'other.example.com')).body,
    `${wild.id} other.example.com:8443 https https://other.example.com:8443`,
    'of several hostports the one that was asked for'
  )
})

t.test('a host that no edge claims is served by the listener', async (t) => {
  const upstream = await RawUpstream.start(t)
  const sluice = await startSluice(t, { upstream, policy: telling(SEEN) })
  const { body } = await visit(sluice, 'nobody.example.com')
  t.match(body, /^default 127\.0\.0\.1:0 http /)
})

t.test('an internal endpoint sees itself, and the one that led there sees itself again', async (t) => {
  const sluice = await startSluice(t)
  const tag = (name: string) =>
    `on_http_response: [{ actions: [{ type: add-headers, config: { headers: { ${name}: "\${endpoint.host}" } } }] }]`
  await site(sluice, 'inner.internal', { traffic_policy: { value: `${telling(SEEN)}\n${tag('x-inner')}` } })
  const led = 'on_http_request: [{ actions: [{ type: forward-internal, config: { url: "https://inner.internal" } }] }]'
  await site(sluice, 'outer.example.com', { traffic_policy: { value: `${led}\n${tag('x-outer')}` } })
  const seen = await visit(sluice, 'outer.example.com')
  t.match(seen.body, / inner\.internal:443 https https:\/\/inner\.internal$/)
  t.match(seen.headers, { 'x-inner': 'inner.internal', 'x-outer': 'outer.example.com' })
})

t.test('a TCP edge is its own endpoint, and so is the internal one that it leads to', async (t) => {
  const sluice = await startSluice(t)
  const port = await freePort()
  const log = '{ type: log, config: { metadata: { at: "${endpoint.url}", id: "${endpoint.id}" } } }'
  const upstream = await RawUpstream.start(t, (peer) => peer.send('welcome'))
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const inner = await create(sluice, '/edges/tcp', {
    hostports: ['db.internal:5432'],
    backend: { enabled: true, backend_id: backend.id },
    traffic_policy: { enabled: true, value: `on_tcp_connect: [{ actions: [${log}] }]` }
  })
  const outer = await create(sluice, '/edges/tcp', {
    hostports: [`db.example.com:${port}`],
    traffic_policy: {
      enabled: true,
      value: `on_tcp_connect: [{ actions: [${log}, { type: forward-internal, config: { url: "tcp://db.internal:5432" } }] }]`
    }
  })
  const client = await rawClient(port)
  await client.until('welcome')
  client.reset()
  t.match(await sluice.line(({ msg, port: at }) => msg === 'connection' && at === port), {
    logs: [
      { at: `tcp://db.example.com:${port}`, id: outer.id },
      { at: 'tcp://db.internal:5432', id: inner.id }
    ]
  })
  t.equal((await account(sluice)(`/edges/tcp/${outer.id}`, { method: 'DELETE' })).status, 204)
})
