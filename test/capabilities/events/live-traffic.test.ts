import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import t from 'tap'
import { account, create, visit } from '../../helpers/account.js'
import { engines, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { receiver } from './receiver.js'

for (const engine of engines) {
  t.test(`${engine}: requests tell of themselves to whom subscribed, without secrets`, async (t) => {
    const upstream = await receiver(t, (_request, response) =>
      response.writeHead(201, { 'set-cookie': 'id=1' }).end('hello')
    )
    const options = { OUTBOUND_ALLOW_PRIVATE: 'true' }
    const sluice = await startSluice(t, { engine, upstream: { port: upstream.port }, options })
    const sink = await receiver(t)
    await visit(sluice, 'localhost', { path: '/unheard' })
    const { id } = await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })
    const http = { type: 'http_request_complete.v0', filter: "ev.http.request.url.path != '/quiet'" }
    await create(sluice, '/event_subscriptions', { sources: [http], destination_ids: [id] })
    const headers = {
      authorization: 'Bearer hidden-1',
      cookie: 'session=hidden-2',
      'x-api-key': 'hidden-3',
      accept: 'a/b'
    }
    for (const path of ['/a?token=hidden-4&page=2', '/quiet', '/b']) await visit(sluice, 'localhost', { path, headers })
    await sink.until(() => sink.taken.length >= 2)
    t.match(sink.taken[0], {
      event_type: http.type,
      principal: null,
      object: {
        conn: { client_ip: '127.0.0.1', server_port: sluice.port },
        http: {
          request: {
            method: 'GET',
            body_length: 0,
            headers: { accept: ['a/b'] },
            url: { path: '/a', query: 'token=[redacted]&page=2' }
          },
          response: { status_code: 201, body_length: 5 }
        },
        oauth: { decision: null }
      }
    })
    t.equal(sink.taken.length, 2)
    // The receiver has them a moment before its answer is here.
    const delivered = `sluice_events_delivered_total{destination="${id}"} 2`
    let metrics = ''
    await until(async () => {
      metrics = (await account(sluice)('/metrics')).text
      return metrics.includes(delivered)
    })
    t.match(metrics, `sluice_events_dropped_total{destination="${id}"} 0`)
    t.match(metrics, `sluice_event_delivery_failures{destination="${id}"} 0`)
    for (const { body } of sink.all) t.notMatch(body, /hidden-|id=1/)
  })
}

t.test(
  'events gather for a moment, so that many requests make few posts; what gathers at the end still goes',
  async (t) => {
    const upstream = await receiver(t)
    const sluice = await startSluice(t, {
      upstream: { port: upstream.port },
      options: { OUTBOUND_ALLOW_PRIVATE: 'true' }
    })
    const sink = await receiver(t)
    const { id } = await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })
    const sources = [{ type: 'http_request_complete.v0', fields: ['http.request.url.path'] }]
    await create(sluice, '/event_subscriptions', { sources, destination_ids: [id] })
    const paths = Array.from({ length: 200 }, (_, n) => `/${n}`)
    for (let n = 0; n < paths.length; n += 20)
      await Promise.all(paths.slice(n, n + 20).map((path) => visit(sluice, 'localhost', { path })))
    await sluice.stop()
    const seen = sink.taken.map(
      ({ object }) => (object.http as { request: { url: { path: string } } }).request.url.path
    )
    t.same([...seen].sort(), [...paths].sort())
    t.ok(sink.all.length < 100, `${sink.all.length} posts`)
  }
)

t.test('connections to a TCP edge tell of themselves', async (t) => {
  const echo = createServer((socket) => socket.pipe(socket))
  echo.listen(0, '127.0.0.1')
  await once(echo, 'listening')
  t.teardown(() => echo.close())
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'true' } })
  const sink = await receiver(t)
  const { id } = await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })
  const sources = [{ type: 'tcp_connection_closed.v0', fields: ['conn.bytes_in', 'conn.bytes_out', 'conn.client_ip'] }]
  await create(sluice, '/event_subscriptions', { sources, destination_ids: [id] })
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  free.close()
  await once(free, 'close')
  await create(sluice, '/edges/tcp', { hostports: [`localhost:${port}`] })
  const client = connect(port, '127.0.0.1')
  client.on('error', () => undefined)
  client.end('hello')
  client.resume()
  await new Promise((resolve) => client.once('close', resolve))
  await sink.until(() => sink.taken.length >= 1)
  const [event] = sink.taken
  t.equal(event?.event_type, 'tcp_connection_closed.v0')
  t.same(Object.keys(event?.object.conn as object), ['bytes_in', 'bytes_out', 'client_ip'])
  t.match(event?.object, { conn: { client_ip: '127.0.0.1' } })
})
