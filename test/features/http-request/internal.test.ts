import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { create, site, visit } from '../../helpers/account.js'
import { rawClient } from '../../helpers/raw-client.js'
import { startSluice } from '../../helpers/sluice.js'
import { RawUpstream } from '../../helpers/upstream.js'
import { onEngines } from '../../wire/engines.js'

const HOST = 'shop.example.com'
const answer = (body: string, status = 200) =>
  `on_http_request: [{ actions: [{ type: custom-response, config: { status_code: ${status}, body: "${body}" } }] }]`
/** Asks, and answers with what `tell` makes of it. */
const asking = (config: string, tell: string) => `on_http_request:
  - actions:
      - { type: http-request, config: { ${config} } }
      - { type: custom-response, config: { status_code: 200, body: "${tell}" } }
`
const RESULT = 'actions.service.http_request'
const OUTCOME = `\${${RESULT}.res.status_code} \${${RESULT}.res.body}`
const FAILURE = `\${${RESULT}.error.code}`

onEngines('an internal entry answers a policy, with its own policy and upstream', async (t, engine) => {
  const upstream = await RawUpstream.start(t, async (peer) => {
    const request = await peer.request()
    const client = request.headers.find(([name]) => name.toLowerCase() === 'x-forwarded-for')?.[1]
    const host = request.headers.find(([name]) => name.toLowerCase() === 'host')?.[1]
    const body = `${request.line} ${host} ${client} ${request.body}`
    peer.send(`HTTP/1.1 201 Created\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  })
  const sluice = await startSluice(t, { engine })
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const inner = `on_http_request: [{ actions: [{ type: add-headers, config: { headers: { x-seen: "\${conn.client_ip}" } } }] }]`
  await site(sluice, 'id.internal', { backend: { backend_id: id }, traffic_policy: { value: inner } })
  const ask = 'url: "https://id.internal/api/user?a=1", method: POST, body: "{token}"'
  await site(sluice, HOST, { traffic_policy: { value: asking(ask, OUTCOME) } })
  const seen = await visit(sluice, HOST)
  t.equal(seen.body, '201 POST /api/user?a=1 HTTP/1.1 id.internal 127.0.0.1 {token}')
  t.match(await sluice.line(({ msg, host }) => msg === 'exchange' && host === 'id.internal'), {
    status: 201,
    client: '127.0.0.1'
  })
  const request = upstream.peers.flatMap(({ requests }) => requests)[0]
  t.same(
    request?.headers.filter(([name]) => name === 'x-seen'),
    [['x-seen', '127.0.0.1']]
  )
})

t.test('what the entry refuses, or does not have, the policy is told', async (t) => {
  const sluice = await startSluice(t)
  await site(sluice, 'no.internal', { traffic_policy: { value: answer('denied', 451) } })
  await site(sluice, 'empty.internal', {})
  const visits = async (url: string, tell: string) => {
    const host = `h${Math.random().toString(36).slice(2)}.example.com`
    await site(sluice, host, { traffic_policy: { value: asking(`url: "${url}"`, tell) } })
    return (await visit(sluice, host)).body
  }
  t.equal(await visits('http://no.internal/', OUTCOME), '451 denied')
  t.match(await visits('http://empty.internal/', OUTCOME), /^503 /)
  t.equal(await visits('http://gone.internal/', FAILURE), 'ENDPOINT_MISSING')
  t.equal(await visits('http://no.internal:8443/', FAILURE), 'ENDPOINT_MISSING', 'another port is another entry')
})

t.test('an entry that is too talkative, breaks off or never answers', async (t) => {
  // A connection whose long answer was read to its end is used again.
  const upstream = await RawUpstream.start(t, async (peer) => {
    for (let line = ''; !line.includes('/broken'); ) {
      line = (await peer.request()).line
      if (line.includes('/large')) peer.send(`HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n${'x'.repeat(300_000)}`)
    }
    peer.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc')
    peer.end()
  })
  const sluice = await startSluice(t)
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  await site(sluice, 'up.internal', { backend: { backend_id: id } })
  const told = asking('url: "http://up.internal${req.url.path}", timeout: 3s', FAILURE)
  await site(sluice, HOST, { traffic_policy: { value: told } })
  t.equal((await visit(sluice, HOST, { path: '/large' })).body, 'RESPONSE_TOO_LARGE')
  t.equal((await visit(sluice, HOST, { path: '/broken' })).body, 'BROKEN')
  t.equal((await visit(sluice, HOST, { path: '/never' })).body, 'TIMEOUT')
  await upstream.peers.at(-1)?.untilEnd()
  t.pass('the upstream of the entry is let go')
})

t.test('policies that ask each other end after three', async (t) => {
  const sluice = await startSluice(t)
  const ask = (to: string) => asking(`url: "http://${to}.internal/"`, `\${${RESULT}.error.code}\${${RESULT}.res.body}`)
  await site(sluice, 'a.internal', {
    traffic_policy: {
      value: `on_http_request:
  - actions:
      - { type: http-request, config: { url: "http://a.internal/" } }
  - expressions: ["actions.service.http_request.error.code != ''"]
    actions: [{ type: custom-response, config: { status_code: 200, body: "\${${RESULT}.error.code}" } }]
  - actions: [{ type: custom-response, config: { status_code: 200, body: "<\${${RESULT}.res.body}>" } }]
`
    }
  })
  await site(sluice, HOST, { traffic_policy: { value: ask('a') } })
  t.equal((await visit(sluice, HOST)).body, '<<LOOP>>')
})

t.test('redirects lead from entry to entry, and no server elsewhere leads inside', async (t) => {
  const outside = createServer((_request, response) =>
    response.writeHead(302, { location: 'http://two.internal/' }).end()
  )
  outside.listen(0, '127.0.0.1')
  await once(outside, 'listening')
  t.teardown(() => outside.close())
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'on' } })
  const lead =
    'on_http_request: [{ actions: [{ type: redirect, config: { to: "http://two.internal/there", status_code: 302 } }] }]'
  await site(sluice, 'one.internal', { traffic_policy: { value: lead } })
  await site(sluice, 'two.internal', { traffic_policy: { value: answer('${req.url.path}') } })
  await site(sluice, HOST, {
    traffic_policy: { value: asking('url: "http://one.internal/", max_redirects: 2', OUTCOME) }
  })
  t.equal((await visit(sluice, HOST)).body, '200 /there')
  const url = `http://127.0.0.1:${(outside.address() as AddressInfo).port}/`
  await site(sluice, 'other.example.com', {
    traffic_policy: { value: asking(`url: "${url}", max_redirects: 2`, FAILURE) }
  })
  t.not((await visit(sluice, 'other.example.com')).body, '')
})

t.test('only a host that the policy spells out leads inside, whatever a client writes', async (t) => {
  const sluice = await startSluice(t)
  await site(sluice, 'api.internal', { traffic_policy: { value: answer('inside ${req.url.path}') } })
  await site(sluice, 'secret.internal', { traffic_policy: { value: answer('secret') } })
  const cases: [url: string, sent: string, told: string][] = [
    ['http://${req.headers["x-to"][0]}/', 'secret.internal', 'ENDPOINT_UNNAMED'],
    ['http://${req.headers["x-to"][0]}/', 'secret.internal.', 'ENDPOINT_UNNAMED'],
    ['http://${req.headers["x-to"][0]}.internal/', 'secret', 'ENDPOINT_UNNAMED'],
    ['${req.headers["x-to"][0]}', 'http://secret.internal/', 'ENDPOINT_UNNAMED'],
    ['http://api.internal${req.headers["x-to"][0]}', '@secret.internal/', 'ENDPOINT_UNNAMED'],
    ['http://api.internal:${req.headers["x-to"][0]}/', '80@secret.internal', 'ENDPOINT_UNNAMED'],
    ['http://api.internal${req.headers["x-to"][0]}', '/there', 'inside /there'],
    ['http://API.internal./${req.headers["x-to"][0]}', 'there', 'inside /there'],
    ['http://secret.internal/', '', 'secret']
  ]
  const tell = `\${${RESULT}.error.code}\${${RESULT}.error.code == '' ? ${RESULT}.res.body : ''}`
  for (const [index, [url, sent, told]] of cases.entries()) {
    const host = `c${index}.example.com`
    await site(sluice, host, { traffic_policy: { value: asking(`url: '${url}'`, tell) } })
    t.equal((await visit(sluice, host, { headers: { 'x-to': sent } })).body, told, `${url} with ${sent}`)
  }
})

onEngines('a client that leaves ends the request that is made for it, and no other is tried', async (t, engine) => {
  const sluice = await startSluice(t, { engine, options: { OUTBOUND_ALLOW_PRIVATE: 'on' } })
  for (const inside of [false, true]) {
    const upstream = await RawUpstream.start(t)
    const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
    const host = `h${inside}.example.com`
    await site(sluice, `${host}.internal`, { backend: { backend_id: id } })
    const url = inside ? `http://${host}.internal/` : `http://127.0.0.1:${upstream.port}/`
    const config = `url: "${url}", timeout: 30s, retry_condition: "true"`
    await site(sluice, host, { traffic_policy: { value: asking(config, FAILURE) } })
    const client = await rawClient(sluice.port)
    client.send(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    const peer = await upstream.next()
    await peer.request()
    client.reset()
    await peer.untilEnd()
    await sluice.line((line) => line.msg === 'exchange' && line.host === host && line.failure === 'client-gone')
    t.equal(upstream.peers.length, 1, inside ? 'inside' : 'outside')
  }
})

t.test('an internal request is admitted by the configuration of the exchange that makes it', async (t) => {
  let release: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let asked: () => void = () => undefined
  const arrived = new Promise<void>((resolve) => {
    asked = resolve
  })
  const upstream = await RawUpstream.start(t, async (peer) => {
    await peer.request()
    asked()
    await held
    peer.send('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  })
  const sluice = await startSluice(t)
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  await site(sluice, 'slow.internal', { backend: { backend_id: id } })
  await site(sluice, 'next.internal', { traffic_policy: { value: answer('next') } })
  const value = `on_http_request:
  - actions:
      - { type: http-request, config: { url: "http://slow.internal/" } }
      - { type: http-request, config: { url: "http://next.internal/" } }
      - { type: custom-response, config: { status_code: 200, body: "${OUTCOME}" } }
`
  await site(sluice, HOST, { traffic_policy: { value } })
  const under = visit(sluice, HOST)
  await arrived
  const policy = await create(sluice, '/ip_policies', {})
  const restriction = { type: 'endpoints', enforced: true, ip_policy_ids: [policy.id] }
  await create(sluice, '/ip_restrictions', restriction)
  t.match(await visit(sluice, HOST), { status: 403 }, 'what comes now is refused')
  release()
  t.match(await under, { status: 200, body: '200 next' })
})
