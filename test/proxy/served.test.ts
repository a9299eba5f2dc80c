import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { receiver } from '../capabilities/events/receiver.js'
import { account, create, site, visit } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import { startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { onEngines } from '../wire/engines.js'
import { freePort } from './free-port.js'

const HOST = 'shop.example.com'

async function listening(t: Test, answering: RequestListener): Promise<number> {
  const server = createServer(answering)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

onEngines('log and event name the backend and the server of each try, with its times', async (t, engine) => {
  // The failed server stays down for as long as the clock stands, however slow the machine is.
  const clock = new ManualClock()
  const sluice = await startSluice(t, { engine, clock, options: { OUTBOUND_ALLOW_PRIVATE: 'true' } })
  const sink = await receiver(t)
  const port = await listening(t, (_request, response) => {
    clock.advance(20)
    response.end('here')
  })
  const dead = await freePort()
  const bad = (await create(sluice, '/backends/static', { address: `127.0.0.1:${dead}` })).id
  const good = (await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })).id
  const { id } = await create(sluice, '/backends/failover', { backends: [bad, good] })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const destination = (await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })).id
  const fields = ['upstream.backend', 'upstream.name', 'upstream.server', 'upstream.try_count', 'upstream.tries']
  const source = { type: 'http_request_complete.v0', fields, filter: 'ev.upstream.try_count > 1' }
  await create(sluice, '/event_subscriptions', { sources: [source], destination_ids: [destination] })
  t.match(await visit(sluice, HOST, { path: '/one' }), { status: 200, body: 'here' })
  const server = `http://127.0.0.1:${port}`
  const served = {
    backend: good,
    server,
    try_count: 2,
    tries: [
      { backend: bad, server: `http://127.0.0.1:${dead}`, failure: 'dial-refused' },
      { backend: good, server, status: 200, connect_ms: Number, first_byte_ms: Number }
    ]
  }
  const line = await sluice.line(({ msg, path }) => msg === 'exchange' && path === '/one')
  t.match(line.upstream, served)
  const [, last] = (line.upstream as { tries: { connect_ms: number; first_byte_ms: number }[] }).tries
  t.ok((last?.first_byte_ms ?? 0) >= 20 && (last?.first_byte_ms ?? 0) >= (last?.connect_ms ?? 0))
  await sink.until(() => sink.taken.length === 1)
  t.match(sink.taken[0]?.object, { upstream: { ...served, name: server } })
  const { text } = await account(sluice)('/metrics')
  t.match(text, `sluice_upstream_tries_total{backend="http://127.0.0.1:${dead}",server="http://127.0.0.1:${dead}"} 1`)
  t.match(
    text,
    `sluice_upstream_tries_failed_total{backend="http://127.0.0.1:${dead}",server="http://127.0.0.1:${dead}"} 1`
  )
  t.match(text, `sluice_upstream_tries_total{backend="${server}",server="${server}"} 1`)
  t.match(text, `sluice_upstream_tries_failed_total{backend="${server}",server="${server}"} 0`)
  await visit(sluice, HOST, { path: '/two' })
  const second = await sluice.line(({ msg, path }) => msg === 'exchange' && path === '/two')
  t.match(
    second.upstream,
    { try_count: 1, tries: [{ backend: good, connect_ms: undefined }] },
    'a connection was reused'
  )
})

t.test('the line of a connection to a TCP edge names what was tried, too', async (t) => {
  const sluice = await startSluice(t)
  const port = await listening(t, (_request, response) => response.end('here'))
  const dead = await freePort()
  const bad = (await create(sluice, '/backends/static', { address: `127.0.0.1:${dead}` })).id
  const good = (await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })).id
  const { id } = await create(sluice, '/backends/failover', { backends: [bad, good] })
  const at = await freePort()
  await create(sluice, '/edges/tcp', { hostports: [`localhost:${at}`], backend: { backend_id: id } })
  const client = connect(at, '127.0.0.1')
  client.end('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  client.resume()
  await once(client, 'close')
  const line = await sluice.line(({ msg }) => msg === 'connection')
  t.match(line.upstream, {
    backend: good,
    server: `http://127.0.0.1:${port}`,
    try_count: 2,
    tries: [
      { backend: bad, failure: 'dial-refused' },
      { backend: good, connect_ms: Number }
    ]
  })
})

t.test('an answer without an upstream names none', async (t) => {
  const sluice = await startSluice(t)
  await visit(sluice, 'nowhere.example.com')
  const line = await sluice.line(({ msg }) => msg === 'exchange')
  t.notOk('upstream' in line)
})

t.test('durations are spread by route and backend, until these are gone', async (t) => {
  const sluice = await startSluice(t)
  const port = await listening(t, (_request, response) => response.end('here'))
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  const paths = await site(sluice, HOST, { backend: { backend_id: id } })
  for (let i = 0; i < 3; i++) await visit(sluice, HOST)
  const metrics = async () => (await account(sluice)('/metrics')).text
  const ofRoute = `sluice_route_duration_seconds_count{site="${HOST}",route="${HOST}/"} 3`
  const ofBackend = `sluice_upstream_duration_seconds_count{backend="http://127.0.0.1:${port}"} 3`
  await until(async () => (await metrics()).includes(ofRoute))
  const shown = await metrics()
  t.match(shown, ofBackend)
  t.match(shown, `sluice_route_duration_seconds_bucket{site="${HOST}",route="${HOST}/",le="+Inf"} 3`)
  t.equal((await account(sluice)(paths.edge, { method: 'DELETE' })).status, 204)
  t.equal((await account(sluice)(`/backends/static/${id}`, { method: 'DELETE' })).status, 204)
  const after = await metrics()
  t.notMatch(after, ofRoute)
  t.notMatch(after, ofBackend)
})
