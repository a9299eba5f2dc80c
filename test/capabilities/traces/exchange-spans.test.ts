import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { type RunningSluice, type SluiceSetup, startSluice } from '../../helpers/sluice.js'
import { type ReceivedSpan, Receiver } from './receiver.js'

const SERVER = 2
const CLIENT = 3
const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

interface Seen {
  readonly url: string
  readonly traceparent: string | undefined
  readonly tracestate: string | undefined
}

/** An upstream that answers the status that the path begins with, after what it was told is noted. */
async function upstream(t: Test) {
  const seen: Seen[] = []
  const server = createServer((incoming, response) => {
    const { traceparent, tracestate } = incoming.headers
    seen.push({ url: incoming.url ?? '', traceparent: traceparent as string, tracestate: tracestate as string })
    if (incoming.url?.startsWith('/broken') === true) {
      incoming.socket.destroy()
      return
    }
    response.statusCode = Number(incoming.url?.slice(1, 4)) || 200
    response.end('yes')
  })
  server.on('upgrade', (incoming, socket) => {
    seen.push({ url: incoming.url ?? '', traceparent: incoming.headers.traceparent as string, tracestate: undefined })
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { seen, port: (server.address() as AddressInfo).port }
}

async function started(t: Test, options: Record<string, string> = {}, setup: Partial<SluiceSetup> = {}) {
  const receiver = await Receiver.start(t)
  const origin = await upstream(t)
  const sluice = await startSluice(t, {
    upstream: { port: origin.port },
    ...setup,
    options: { OTLP_ENDPOINT: receiver.url, OTLP_DELAY: '10ms', OTLP_PROTOCOL: 'http/json', ...options }
  })
  return { receiver, origin, sluice }
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

function ask(
  sluice: RunningSluice,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET'
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: sluice.port, path, method, headers, agent: false }
    const outgoing = request(options, (answer) => {
      answer.resume().once('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers }))
    })
    outgoing.once('upgrade', (answer, socket) => {
      socket.resume().once('close', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers }))
      socket.end()
    })
    outgoing.once('error', reject).end()
  })
}

const serverOf = (spans: readonly ReceivedSpan[]) => spans.filter(({ kind }) => kind === SERVER)
const clientsOf = (spans: readonly ReceivedSpan[]) => spans.filter(({ kind }) => kind === CLIENT)

for (const protocol of ['http/json', 'http/protobuf']) {
  t.test(`a server span and a client span, sent as ${protocol} with gzip`, async (t) => {
    const { receiver, origin, sluice } = await started(t, {
      OTLP_PROTOCOL: protocol,
      OTLP_COMPRESSION: 'gzip',
      OTLP_HEADERS: 'x-team=a%20b',
      OTLP_SERVICE_NAME: 'edge',
      OTLP_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,zone=z%2C1'
    })
    const headers = { 'user-agent': 'tests/1', host: 'App.example:8080', traceparent: PARENT }
    t.equal((await ask(sluice, '/a/b?c=d&token=hidden', headers)).status, 200)
    const spans = await receiver.received(2)
    const [server] = serverOf(spans)
    const [client] = clientsOf(spans)
    if (server === undefined || client === undefined) throw new Error('a span is missing')

    const [sent] = receiver.requests
    t.equal(sent?.path, '/v1/traces')
    t.match(sent?.headers, {
      'content-type': protocol === 'http/json' ? 'application/json' : 'application/x-protobuf',
      'content-encoding': 'gzip',
      'x-team': 'a b'
    })
    t.match(sent?.resource, {
      'service.name': 'edge',
      'deployment.environment.name': 'test',
      zone: 'z,1',
      'service.version': String,
      'process.pid': process.pid
    })

    t.match(server, { name: 'GET /*', parentSpanId: '', error: false, flags: 0x101 })
    t.not(server.traceId, PARENT.split('-')[1], 'a trace of a client that is not trusted is not gone on with')
    t.match(server.attributes, {
      'http.request.method': 'GET',
      'url.scheme': 'http',
      'url.path': '/a/b',
      'url.query': 'c=d&token=[redacted]',
      'http.route': '/*',
      'server.address': 'app.example',
      'server.port': 8080,
      'client.address': '127.0.0.1',
      'network.peer.address': '127.0.0.1',
      'network.protocol.version': '1.1',
      'user_agent.original': 'tests/1',
      'http.response.status_code': 200,
      'sluice.request_id': String
    })
    t.notOk('error.type' in server.attributes)
    t.match(client, { name: 'GET', traceId: server.traceId, parentSpanId: server.spanId, error: false })
    t.match(client.attributes, {
      'http.request.method': 'GET',
      'url.full': `http://127.0.0.1:${origin.port}/a/b?c=d&token=[redacted]`,
      'server.address': '127.0.0.1',
      'server.port': origin.port,
      'http.response.status_code': 200
    })
    t.notOk('http.request.resend_count' in client.attributes)
    t.same(origin.seen, [
      {
        url: '/a/b?c=d&token=hidden',
        traceparent: `00-${server.traceId}-${client.spanId}-01`,
        tracestate: undefined
      }
    ])
    t.ok(server.start <= client.start && client.start <= client.end && client.end <= server.end)
    const now = BigInt(Date.now()) * 1_000_000n
    t.ok(now - server.start < 60_000_000_000n && server.end <= now + 1_000_000_000n, 'times of the wall clock')
    const line = await sluice.line(({ msg }) => msg === 'exchange')
    t.equal(line.trace_id, server.traceId)
    t.equal(line.request_id, server.attributes['sluice.request_id'])
  })
}

t.test('the trace of a trusted peer goes on, with its state', async (t) => {
  const { receiver, origin, sluice } = await started(t, { TRUSTED_PROXIES: '127.0.0.0/8' })
  await ask(sluice, '/', { traceparent: PARENT, tracestate: 'a=1 , b=2' })
  const spans = await receiver.received(2)
  const [server] = serverOf(spans)
  const [client] = clientsOf(spans)
  t.match(server, {
    traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    parentSpanId: '00f067aa0ba902b7',
    traceState: 'a=1,b=2',
    flags: 0x301
  })
  t.match(client, { traceState: 'a=1,b=2', parentSpanId: server?.spanId })
  t.match(origin.seen, [{ traceparent: `00-${server?.traceId}-${client?.spanId}-01`, tracestate: 'a=1,b=2' }])

  await ask(sluice, '/', { traceparent: PARENT, tracestate: 'a=1,a=2' })
  t.match(origin.seen[1], { traceparent: /^00-4bf92f3577b34da6a3ce929d0e0e4736-/, tracestate: undefined })
  await ask(sluice, '/', { traceparent: PARENT.toUpperCase(), tracestate: 'a=1' })
  t.notMatch(origin.seen[2]?.traceparent, /4bf92f3577b34da6/i, 'a context that is none begins a trace')
  t.equal(origin.seen[2]?.tracestate, undefined)
})

t.test('an unsampled trace of a trusted peer passes as it came and leaves no span', async (t) => {
  const { receiver, origin, sluice } = await started(t, { TRUSTED_PROXIES: '127.0.0.0/8' })
  const unsampled = PARENT.replace(/01$/, '00')
  await ask(sluice, '/unsampled', { traceparent: unsampled, tracestate: 'a=1' })
  await ask(sluice, '/sampled')
  const spans = await receiver.received(2)
  t.same(
    serverOf(spans).map(({ attributes }) => attributes['url.path']),
    ['/sampled']
  )
  t.match(origin.seen[0], { traceparent: unsampled, tracestate: 'a=1' })
  t.match(await sluice.line(({ msg, path }) => msg === 'exchange' && path === '/unsampled'), {
    trace_id: '4bf92f3577b34da6a3ce929d0e0e4736'
  })
})

t.test('samplers: ratio, without regard to the parent, and a condition', async (t) => {
  await t.test('always_off tells upstreams so, with a span of its own where the parent was sampled', async (t) => {
    const options = { TRACES_SAMPLER: 'always_off', TRACES_ACCEPT_FROM: 'everyone' }
    const { receiver, origin, sluice } = await started(t, options)
    await ask(sluice, '/')
    await ask(sluice, '/', { traceparent: PARENT })
    t.match(origin.seen[0]?.traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
    t.match(origin.seen[1]?.traceparent, /^00-4bf92f3577b34da6a3ce929d0e0e4736-(?!00f067aa0ba902b7)[0-9a-f]{16}-00$/)
    await sluice.stop()
    t.same(receiver.spans, [])
  })
  await t.test('a ratio decides by the trace id', async (t) => {
    const options = { TRACES_SAMPLER: 'traceidratio', TRACES_RATIO: '0.25', TRACES_ACCEPT_FROM: 'everyone' }
    const { receiver, sluice } = await started(t, options)
    for (const digit of '0123456789abcdef')
      await ask(sluice, `/x${digit}`, { traceparent: `00-${'1'.repeat(18)}${digit.repeat(14)}-00f067aa0ba902b7-00` })
    await sluice.stop()
    const taken = serverOf(receiver.spans).map(({ attributes }) => attributes['url.path'])
    t.same(taken, ['/xc', '/xd', '/xe', '/xf'])
  })
  await t.test('a condition', async (t) => {
    const { receiver, sluice } = await started(t, { TRACES_WHERE: "req.url.path != '/health'" })
    for (const path of ['/health', '/work']) await ask(sluice, path)
    await sluice.stop()
    t.same(
      serverOf(receiver.spans).map(({ attributes }) => attributes['url.path']),
      ['/work']
    )
  })
})

t.test('propagation: none leaves the fields as they are; accept_from: none removes them', async (t) => {
  const silent = await started(t, { TRACES_PROPAGATION: 'none' })
  await ask(silent.sluice, '/', { traceparent: PARENT, tracestate: 'a=1' })
  t.match(silent.origin.seen, [{ traceparent: PARENT, tracestate: 'a=1' }])
  const spans = await silent.receiver.received(2)
  t.not(spans[0]?.traceId, PARENT.split('-')[1])
  const strict = await started(t, { TRACES_ACCEPT_FROM: 'none', TRUSTED_PROXIES: '127.0.0.0/8' })
  await ask(strict.sluice, '/', { traceparent: PARENT, tracestate: 'a=1' })
  t.equal(strict.origin.seen[0]?.tracestate, undefined)
  t.notMatch(strict.origin.seen[0]?.traceparent, '4bf92f3577b34da6')
})

t.test('each try has a span, and errors are told as the conventions want them', async (t) => {
  const { receiver, origin, sluice } = await started(t)
  t.equal((await ask(sluice, '/404')).status, 404)
  t.equal((await ask(sluice, '/503')).status, 503)
  const broken = await ask(sluice, '/broken')
  t.equal(broken.status, 502)
  await sluice.stop()
  const of = (path: string) => {
    const server = serverOf(receiver.spans).find(({ attributes }) => attributes['url.path'] === path)
    return { server, clients: clientsOf(receiver.spans).filter(({ parentSpanId }) => parentSpanId === server?.spanId) }
  }
  const missing = of('/404')
  t.equal(missing.server?.error, false, 'what the client has done wrong is no error of the server')
  t.match(missing.clients, [{ error: true, attributes: { 'error.type': '404' } }])
  const failed = of('/503')
  t.match(failed.server, { error: true, attributes: { 'error.type': '503', 'http.response.status_code': 503 } })
  t.match(failed.clients, [{ error: true, attributes: { 'error.type': '503' } }])
  const gone = of('/broken')
  t.match(gone.server, {
    error: true,
    attributes: { 'error.type': 'UPSTREAM_GONE', 'sluice.code': 'UPSTREAM_GONE' }
  })
  t.equal(broken.headers['x-trace-id'], gone.server?.traceId, 'the answer that is an error names its trace')
  t.ok(gone.clients.length >= 2, 'it was tried again')
  t.same(
    gone.clients.map(({ attributes }) => attributes['http.request.resend_count']),
    [undefined, ...Array.from({ length: gone.clients.length - 1 }, (_, i) => i + 1)]
  )
  t.ok(gone.clients.every(({ error, attributes }) => error && attributes['error.type'] === 'upstream-gone'))
  const told = origin.seen.filter(({ url }) => url === '/broken').map(({ traceparent }) => traceparent?.split('-')[2])
  t.same(
    told,
    gone.clients.map(({ spanId }) => spanId),
    'each try was told its own span'
  )
})

t.test('decisions of policies are events of the server span', async (t) => {
  const policy = `
on_http_request:
  - name: three a minute
    actions:
      - type: rate-limit
        config: { name: per-client, algorithm: sliding_window, capacity: 1, rate: 60s, bucket_key: [conn.client_ip] }
`
  const { receiver, sluice } = await started(t, {}, { policy })
  t.equal((await ask(sluice, '/')).status, 200)
  t.equal((await ask(sluice, '/')).status, 429)
  await sluice.stop()
  const [admitted, refused] = serverOf(receiver.spans)
  const about = { 'sluice.phase': 'on_http_request', 'sluice.rule': 'three a minute', 'sluice.action': 'rate-limit' }
  t.match(admitted?.events, [
    {
      name: 'sluice.action',
      attributes: {
        ...about,
        'sluice.outcome': 'continued',
        'sluice.limit.limited': false,
        'sluice.limit.remaining': 0,
        'sluice.limit.capacity': 1,
        'sluice.limit.cost': 1,
        'sluice.limit.bucket': '["127.0.0.1"]'
      }
    }
  ])
  t.match(refused, {
    error: false,
    attributes: {
      'http.response.status_code': 429,
      'sluice.code': 'RATE_LIMITED',
      'sluice.rule': 'three a minute',
      'sluice.action': 'rate-limit'
    }
  })
  t.match(refused?.events, [{ attributes: { ...about, 'sluice.outcome': 'ended', 'sluice.limit.limited': true } }])
  const at = refused?.events[0]?.at ?? 0n
  t.ok(at >= (refused?.start ?? 0n) && at <= (refused?.end ?? 0n))
  t.equal(clientsOf(receiver.spans).length, 1, 'what is refused reaches no upstream')
})

t.test('a WebSocket, a method that nobody has declared, and a request that is not admitted', async (t) => {
  const { receiver, origin, sluice } = await started(t)
  const upgrade = {
    connection: 'upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA=='
  }
  t.equal((await ask(sluice, '/socket', upgrade)).status, 101)
  await ask(sluice, '/', {}, 'PROPFIND')
  await ask(sluice, '/', {}, 'TRACE')
  await sluice.stop()
  const spans = receiver.spans
  const socket = spans.find(({ attributes }) => attributes['url.path'] === '/socket')
  t.match(socket, { error: false, attributes: { 'http.response.status_code': 101 } })
  t.match(origin.seen[0]?.traceparent, socket?.traceId ?? 'none')
  t.match(
    spans.find(({ attributes }) => attributes['http.request.method_original'] === 'PROPFIND'),
    { name: 'HTTP /*', attributes: { 'http.request.method': '_OTHER' } }
  )
  t.match(
    spans.find(({ attributes }) => attributes['http.request.method'] === 'TRACE'),
    { name: 'TRACE', attributes: { 'http.response.status_code': 405 } }
  )
})

t.test('without a receiver nothing is traced', async (t) => {
  const origin = await upstream(t)
  const sluice = await startSluice(t, { upstream: { port: origin.port } })
  await ask(sluice, '/', { traceparent: PARENT, tracestate: 'a=1' })
  t.match(origin.seen, [{ traceparent: PARENT, tracestate: 'a=1' }])
  const refused = await ask(sluice, '/broken')
  t.notOk('x-trace-id' in refused.headers)
  t.notOk('trace_id' in (await sluice.line(({ msg }) => msg === 'exchange')))
})

t.test('a condition that cannot be compiled ends the start, with its place', async (t) => {
  const begin = (where: string) =>
    startSluice(t, { options: { OTLP_ENDPOINT: 'http://127.0.0.1:1', TRACES_WHERE: where } })
  await t.rejects(begin('req.url.path ==\n  nothing'), {
    code: 'TRACES',
    message: /^traces\.where: line 2, column 3: /
  })
  await t.rejects(begin('1 + 1'), { code: 'TRACES', message: 'traces.where: is of type int; give one of type bool' })
})
