import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { onEngines } from './engines.js'
import { statusOf } from './message.js'
import { ask, field, ok, RawClient, Upstream } from './peers.js'

const get = (target: string, ...fields: string[]): string =>
  `${[`GET ${target} HTTP/1.1`, 'Host: a.test', ...fields].join('\r\n')}\r\n\r\n`

const marked = (mark: string): string => `
on_http_request:
  - actions: [{ type: add-headers, config: { headers: { x-mark: "${mark}" } } }]
on_http_response:
  - actions: [{ type: add-headers, config: { headers: { x-mark: "${mark}" } } }]
`

async function metric(sluice: RunningSluice, line: string): Promise<number | undefined> {
  const text = await metrics(sluice)
  const found = text.split('\n').find((each) => each.startsWith(`${line} `))
  return found === undefined ? undefined : Number(found.slice(line.length + 1))
}

async function metrics(sluice: RunningSluice): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${sluice.apiPort}/metrics`, {
    headers: { authorization: `Bearer ${sluice.apiKey}` }
  })
  t.equal(response.status, 200)
  return response.text()
}

onEngines('a reload under traffic drops nothing, and what runs ends as it began', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, {
    engine,
    upstream: upstream.address,
    policy: marked('0'),
    options: { ACCESS_LOG: 'off' }
  })

  const slow = await RawClient.open(sluice.port)
  upstream.reply = (request, connection) => (request.line.includes('/held') ? undefined : ok(request, connection))
  slow.write(get('/held'))
  await upstream.until(() => upstream.requests.length === 1)
  const [held] = upstream.connections
  t.match(await sluice.reload(marked('1')), { ok: true, changed: true })
  t.equal(field(await ask(sluice.port, get('/a')), 'x-mark'), '1', 'the next request has the new policy')
  held?.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  t.ok(await slow.until(() => slow.answers.length === 1))
  t.equal(field(slow.answers[0], 'x-mark'), '0', 'the one under way keeps the old one')
  t.equal(field(await slow.ask(get('/b')), 'x-mark'), '1', 'its connection goes on with the new one')
  slow.close()

  const clients = await Promise.all(Array.from({ length: 10 }, () => RawClient.open(sluice.port)))
  let over = false
  const counts = Promise.all(
    clients.map(async (client) => {
      let count = 0
      while (!over) {
        const answer = await client.ask(get('/a'))
        if (answer === undefined || statusOf(answer) !== 200 || client.closed) return `failed after ${count}`
        count++
      }
      return count
    })
  )
  for (let i = 2; i < 32; i++) {
    t.match(await sluice.reload(marked(String(i))), { ok: true })
    const answer = await ask(sluice.port, get('/a'))
    t.equal(field(answer, 'x-mark'), String(i), 'live when it is answered')
  }
  over = true
  t.same(
    (await counts).filter((count) => typeof count === 'string' || count === 0),
    [],
    'no request failed, no connection ended'
  )
  for (const client of clients) client.close()
})

onEngines('a broken policy changes nothing', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy: marked('good') })
  const revision = await metric(sluice, 'sluice_revision')
  for (const bad of [
    'on_http_request: [',
    'on_http_requests: []',
    'on_http_request: [{ actions: [{ type: no-such-action }] }]',
    'on_http_request: [{ actions: [{ type: deny, config: { status_code: 99 } }] }]',
    'on_http_request: [{ expressions: ["req.no_such"], actions: [{ type: deny }] }]',
    'on_http_request: [{ expressions: ["1 + 1"], actions: [{ type: deny }] }]',
    'on_http_request: [{ actions: [] }]'
  ]) {
    const applied = await sluice.reload(bad)
    t.equal(applied.ok, false, bad)
    t.equal(field(await ask(sluice.port, get('/a')), 'x-mark'), 'good', bad)
  }
  t.equal(await metric(sluice, 'sluice_revision'), revision)
  t.equal(await metric(sluice, 'sluice_configuration_changes_total{result="refused"}'), 7)
})

onEngines('buckets outlive a reload that leaves them alone', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const policy = (capacity: number, more = ''): string => `
on_http_request:
  - actions:
      - type: rate-limit
        config: { name: one, algorithm: sliding_window, capacity: ${capacity}, rate: 10m, bucket_key: ["'x'"] }
${more}`
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy: policy(2) })
  const status = async (): Promise<number> =>
    statusOf(
      (await ask(sluice.port, get('/a'))) ?? {
        line: 'HTTP/1.1 000',
        headers: [],
        framing: 'none',
        body: '',
        trailers: [],
        end: 0
      }
    )
  t.same([await status(), await status(), await status()], [200, 200, 429])
  await sluice.reload(policy(2, '  - actions: [{ type: add-headers, config: { headers: { x-a: "1" } } }]'))
  t.equal(await status(), 429, 'another rule does not empty it')
  await sluice.reload(policy(3))
  t.same([await status(), await status()], [200, 429], 'a larger capacity applies at once')
  await sluice.reload('on_http_request: [')
  t.equal(await status(), 429)
})

onEngines('a WebSocket outlives reloads', async (t, engine) => {
  const server = createServer()
  new WebSocketServer({ server }).on('connection', (socket) => socket.on('message', (data) => socket.send(data)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const sluice = await startSluice(t, {
    engine,
    upstream: { port: (server.address() as AddressInfo).port },
    policy: marked('0')
  })
  const socket = new WebSocket(`ws://127.0.0.1:${sluice.port}/`)
  await once(socket, 'open')
  for (let i = 1; i <= 5; i++) {
    await sluice.reload(marked(String(i)))
    socket.send(`after ${i}`)
    const [echo] = (await once(socket, 'message')) as [Buffer]
    t.equal(echo.toString(), `after ${i}`)
  }
  socket.terminate()
})

onEngines('draining: what runs may end, what idles ends at once, nothing new begins', async (t, engine) => {
  const upstream = await Upstream.start(t)
  upstream.reply = (request, connection) => (request.line.includes('/held') ? undefined : ok(request, connection))
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options: { TIMEOUTS_DRAIN: '10s' } })
  const idle = await RawClient.open(sluice.port)
  await idle.ask(get('/a'))
  const fresh = await RawClient.open(sluice.port)
  const busy = await RawClient.open(sluice.port)
  busy.write(get('/held'))
  await upstream.until(() => upstream.requests.some(({ line }) => line.includes('/held')))
  const stopped = sluice.stop()
  t.ok(await idle.until(() => idle.closed), 'the idle connection ends')
  t.ok(await fresh.until(() => fresh.closed), 'so does the one that was never used')
  const late = connect({ port: sluice.port })
  const [error] = (await once(late, 'error')) as [NodeJS.ErrnoException]
  t.equal(error.code, 'ECONNREFUSED', 'nobody listens any more')
  t.notOk(busy.closed)
  const [connection] = upstream.connections.filter(({ text }) => text.includes('/held'))
  connection?.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate')
  t.ok(await busy.until(() => busy.closed), 'the busy one ends behind its answer')
  t.equal(busy.answers[0]?.body, 'late')
  t.equal(field(busy.answers[0], 'connection'), 'close')
  t.equal((await stopped).cut, 0)
})

onEngines('draining ends at its time-out', async (t, engine) => {
  const upstream = await Upstream.start(t)
  upstream.reply = () => undefined
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options: { TIMEOUTS_DRAIN: '300ms' } })
  const busy = await RawClient.open(sluice.port)
  busy.write(get('/held'))
  await upstream.until(() => upstream.requests.length === 1)
  const begun = performance.now()
  const { cut } = await sluice.stop()
  t.equal(cut, 1)
  t.ok(performance.now() - begun < 3_000)
  t.ok(await busy.until(() => busy.closed))
  t.equal(upstream.connections.length, 0, 'its upstream connection too')
})

onEngines('one access log line for each exchange, without secrets', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, {
    engine,
    upstream: upstream.address,
    policy: `
on_http_request:
  - name: notes
    actions: [{ type: log, config: { metadata: { note: "\${req.method}", api_key: canary-6 } } }]
  - name: no entry
    expressions: ["req.url.path == '/secret'"]
    actions: [{ type: deny, config: { status_code: 404 } }]
`
  })
  const secrets = [
    'Authorization: Bearer canary-1',
    'Cookie: session=canary-2',
    'X-Api-Key: canary-3',
    'Proxy-Authorization: canary-4'
  ]
  const body = 'hello'
  const answer = await ask(
    sluice.port,
    `${['POST /a/../b?access_token=canary-5&page=2 HTTP/1.1', 'Host: a.test', ...secrets, `Content-Length: ${body.length}`].join('\r\n')}\r\n\r\n${body}`
  )
  t.equal(answer?.body, 'ok')
  const line = await sluice.line((each) => each.msg === 'exchange' && each.path === '/b')
  t.match(line, {
    client: '127.0.0.1',
    method: 'POST',
    host: 'a.test',
    path: '/b',
    query: 'access_token=[redacted]&page=2',
    status: 200,
    bytes_in: Number,
    bytes_out: Number,
    duration_ms: Number,
    upstream_ms: Number,
    revision: Number,
    logs: [{ note: 'POST', api_key: '[redacted]' }]
  })
  t.ok((line.bytes_in as number) >= body.length)
  t.ok((line.bytes_out as number) >= 'ok'.length)
  await ask(sluice.port, get('/signed?sig=canary-6&X-Amz-Signature=canary-7&SAMLResponse=canary-8&keyword=ok'))
  t.match(await sluice.line((each) => each.path === '/signed'), {
    query: 'sig=[redacted]&X-Amz-Signature=[redacted]&SAMLResponse=[redacted]&keyword=ok'
  })
  await ask(sluice.port, get('/secret'))
  t.match(await sluice.line((each) => each.path === '/secret'), { status: 404, rule: 'no entry', action: 'deny' })
  await ask(sluice.port, 'GET /%0a{"forged":1} HTTP/1.1\r\nHost: a.test\r\n\r\n')
  t.match(await sluice.line((each) => String(each.path).includes('forged')), {
    status: 400,
    code: 'PATH_ENCODED_CONTROL',
    path: '/%0a{"forged":1}'
  })
  await ask(sluice.port, 'GET /{"forged":2} HTTP/1.1\r\nHost: a.test\r\n\r\n')
  t.match(await sluice.line((each) => String(each.path).includes('2')), { path: '/%7B%22forged%22:2%7D' })
  await ask(sluice.port, 'GET /x HTTP/1.1\r\n\r\n')
  t.match(await sluice.line((each) => each.msg === 'refused'), { status: 400, failure: 'client-malformed' })
  t.equal(sluice.log.filter((each) => each.msg === 'exchange').length, 5)
  t.notMatch(JSON.stringify(sluice.log), 'canary')
  t.notMatch(JSON.stringify(sluice.log), sluice.apiKey)
})

onEngines('metrics: what happened, in series that no client can multiply', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const policy = `
on_http_request:
  - name: shut
    expressions: ["req.url.path == '/shut'"]
    actions: [{ type: deny }]
`
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy, options: { ACCESS_LOG: 'off' } })
  await ask(sluice.port, get('/a'))
  const before = (await metrics(sluice)).split('\n').length
  for (let i = 0; i < 50; i++)
    await ask(sluice.port, `GET /${i}?${i} HTTP/1.1\r\nHost: host-${i}.test\r\nX-${i}: ${i}\r\n\r\n`)
  t.equal((await metrics(sluice)).split('\n').length, before, 'no new series')
  await ask(sluice.port, get('/shut'))
  await ask(sluice.port, 'nonsense\r\n\r\n')
  const text = await metrics(sluice)
  t.match(text, /^sluice_requests_total\{site="[^"]*",status="200"\} 51$/m)
  t.match(text, /^sluice_requests_total\{site="[^"]*",status="403"\} 1$/m)
  t.match(text, /^sluice_malformed_total\{status="400"\} 1$/m)
  t.match(text, /^sluice_policy_rule_matches_total\{[^}]*rule="shut"[^}]*\} 1$/m)
  t.match(text, /^sluice_policy_decisions_total\{[^}]*rule="shut",action="deny"\} 1$/m)
  t.match(text, /^sluice_requests_in_flight 0$/m)
  for (const each of text.split('\n')) {
    t.ok(
      each === '' ||
        /^# (HELP|TYPE) /.test(each) ||
        /^[a-z_:][a-z0-9_:]*(\{[^\n]*\})? (-?[\d.]+(e[+-]?\d+)?|\+Inf|NaN)$/i.test(each),
      each
    )
  }
  const bare = await fetch(`http://127.0.0.1:${sluice.apiPort}/metrics`)
  t.equal(bare.status, 401, 'they need a key')
  const health = await fetch(`http://127.0.0.1:${sluice.apiPort}/healthz`)
  t.equal(health.status, 200, 'health does not')
})

onEngines('without an upstream every host is unknown', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const answer = await ask(sluice.port, get('/a'))
  t.equal(answer && statusOf(answer), 404)
  t.equal(field(answer, 'sluice-error-code'), 'NO_ROUTE')
})
