import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { percentiles, TrafficMeter } from '../../src/telemetry/traffic-meter.js'
import { account, create, site, visit } from '../helpers/account.js'
import { API_KEY, startSluice } from '../helpers/sluice.js'

t.test('percentiles are off by less than five per cent', async (t) => {
  const meter = new TrafficMeter()
  t.same(percentiles(meter.durations, [0.5]), [undefined])
  for (let at = 1; at <= 10_000; at++) meter.count(200, at / 100, 10, 20)
  const [half = 0, most = 0] = percentiles(meter.durations, [0.5, 0.99])
  t.ok(Math.abs(half / 50 - 1) < 0.05, `${half}`)
  t.ok(Math.abs(most / 99 - 1) < 0.05, `${most}`)
  meter.count(0, 0, 0, 0)
  meter.count(599, 1e12, 0, 0)
  t.same([...meter.statuses], [1, 0, 10_000, 0, 0, 1], 'what is beyond the buckets is counted too')
  t.equal(meter.bytesIn, 100_000)
})

t.test('traffic is shown second by second, with what was refused', { timeout: 60_000 }, async (t) => {
  const policy = `on_http_request:
  - expressions: ["req.url.path == '/no'"]
    actions: [{type: deny, config: {status_code: 403}}]
  - actions: [{type: custom-response, config: {status_code: 200, body: hello}}]
`
  const upstream = createServer((_request, response) => response.end()).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  t.teardown(async () => void upstream.close())
  const sluice = await startSluice(t, { policy, upstream: { port: (upstream.address() as AddressInfo).port } })
  const ask = account(sluice)
  const seconds: Record<string, number>[] = []
  const stream = await follow(sluice.apiPort, (second) => seconds.push(second))
  t.teardown(async () => stream.destroy())
  for (const path of ['/', '/', '/no']) await visit(sluice, 'a.localhost', { path })
  const sum = (name: string) => seconds.reduce((all, second) => all + (second[name] ?? 0), 0)
  while (sum('requests') < 3) await new Promise((resolve) => stream.once('data', resolve))
  t.equal(sum('refused'), 1)
  const { json } = await ask('/traffic?seconds=600')
  t.match(json.last_minute, { requests: 3, statuses: { '2xx': 2, '4xx': 1, '5xx': 0 }, refused: 1, failed: 0 })
  t.match(json.last_minute.codes, { POLICY_DENIED: 1 })
  t.ok(json.last_minute.p50_ms > 0 && json.last_minute.p99_ms >= json.last_minute.p50_ms)
  t.ok(json.seconds.length >= 1 && json.seconds.at(-1).at > json.seconds[0].at === json.seconds.length > 1)
  t.ok(json.last_minute.bytes_out > 0)
  t.equal((await ask('/traffic?seconds=601')).status, 400)
  const ended = new Promise((resolve) => stream.once('close', resolve))
  await sluice.stop()
  await ended
  t.pass('a stop ends the stream')
})

t.test('the map leads from listeners to servers', { timeout: 60_000 }, async (t) => {
  const upstream = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  t.teardown(async () => void upstream.close())
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const address = `127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const backend = await create(sluice, '/backends/static', { address })
  const shared = await create(sluice, '/backends/weighted', { backends: { [backend.id]: 3 } })
  const { edge, route } = await site(sluice, 'shop.localhost', {
    match: '/a',
    backend: { backend_id: shared.id },
    traffic_policy: { value: 'on_http_request: []' }
  })
  await visit(sluice, 'shop.localhost', { path: '/a' })
  await visit(sluice, 'shop.localhost', { path: '/b' })
  const { json } = await ask('/map')
  t.match(json.listeners, [{ host: '127.0.0.1', port: sluice.port, tls: false }])
  const found = json.edges.find(({ id }: { id: string }) => edge.endsWith(id))
  t.match(found, {
    protocol: 'https',
    hosts: [{ host: 'shop.localhost', port: 443, certificate: null }],
    every_host: false,
    rates: { requests: 2, refused: 1, failed: 0 },
    routes: [
      {
        match: 'prefix',
        path: '/a',
        modules: ['traffic_policy'],
        rates: { requests: 1, refused: 0 },
        backend: {
          id: shared.id,
          form: 'weighted',
          members: [
            {
              weight: 3,
              backend: { id: backend.id, form: 'address', to: `http://${address}`, servers: [{ server: String }] }
            }
          ]
        }
      }
    ]
  })
  t.ok(route.endsWith(found.routes[0].id))
  t.notOk(JSON.stringify(json).includes('on_http_request'), 'no policy stands in it')
})

/** Reads the stream of seconds. */
async function follow(port: number, take: (second: Record<string, number>) => void) {
  const socket = connect(port, '127.0.0.1')
  await new Promise((connected) => socket.once('connect', connected))
  socket.setEncoding('utf8').on('data', (text: unknown) => {
    for (const [, data = ''] of String(text).matchAll(/event: second\r?\ndata: (.*)\n/g)) take(JSON.parse(data))
  })
  socket.write(
    `GET /traffic/stream HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${API_KEY}\r\nservice-version: 2\r\n\r\n`
  )
  return socket
}
