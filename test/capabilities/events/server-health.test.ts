import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { create, site, visit } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { receiver } from './receiver.js'

const HOST = 'shop.example.com'
const TYPES = ['backend_server_down.v0', 'backend_server_up.v0']

t.test('a server that goes down and comes back makes one event and one line each', async (t) => {
  let status = 200
  const server = createServer((_request, response) => response.writeHead(status).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'true' } })
  const sink = await receiver(t)
  const destination = (await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })).id
  const sources = TYPES.map((type) => ({ type }))
  await create(sluice, '/event_subscriptions', { sources, destination_ids: [destination] })
  const health = { path: '/', interval: 0.1, timeout: 0.5, rise: 1, fall: 1 }
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, health })
  await site(sluice, HOST, { backend: { backend_id: id } })
  await visit(sluice, HOST)
  status = 503
  await sink.until(() => sink.taken.length === 1)
  status = 200
  await sink.until(() => sink.taken.length === 2)
  const about = { backend_id: id, server: `http://127.0.0.1:${port}`, seen_by: 'check', since: /Z$/ }
  t.match(sink.taken, [
    { event_type: 'backend_server_down.v0', object: { ...about, status: 'down', reason: 'status 503' } },
    { event_type: 'backend_server_up.v0', object: { ...about, status: 'up', reason: 'status 200' } }
  ])
  const lines = sluice.log.filter(({ backend, msg }) => backend === id && msg !== 'exchange')
  t.match(lines, [
    { msg: 'an upstream is down: its health check fails', reason: 'status 503', by: 'check' },
    { msg: 'an upstream is up again', reason: 'status 200', by: 'check' }
  ])
  t.equal(lines.length, 2)
})

t.test('what traffic finds is an event, too', async (t) => {
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'true' } })
  const sink = await receiver(t)
  const gone = createServer().listen(0, '127.0.0.1')
  await once(gone, 'listening')
  const { port } = gone.address() as AddressInfo
  gone.close()
  await once(gone, 'close')
  const destination = (await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })).id
  const sources = [{ type: 'backend_server_down.v0' }]
  await create(sluice, '/event_subscriptions', { sources, destination_ids: [destination] })
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  await site(sluice, HOST, { backend: { backend_id: id } })
  t.equal((await visit(sluice, HOST)).status, 502)
  await sink.until(() => sink.taken.length === 1)
  t.match(sink.taken[0]?.object, { backend_id: id, status: 'down', reason: 'dial-refused', seen_by: 'traffic' })
})
