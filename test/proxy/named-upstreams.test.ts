import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import { PlaceDialer } from '../../src/proxy/place-dialer.js'
import { Server as UpstreamServer } from '../../src/proxy/server.js'
import { DialError, type Dialer } from '../../src/transport/contract.js'
import { AbortList } from '../../src/transport/deadlines.js'
import { StreamPipe } from '../../src/transport/pipes.js'
import { account, create, site, visit } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import { type NameServer, startNameServer } from '../helpers/name-server.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { onEngines } from '../wire/engines.js'
import { freePort } from './free-port.js'

const HOST = 'shop.example.com'

/** Servers on one port of several addresses of this machine; each answers with its address. */
async function upstreams(t: Test, addresses: readonly string[], port = 0): Promise<number> {
  let at = port
  for (const address of addresses) {
    const server: Server = createServer((_request, response) => response.end(address))
    server.listen(at, address)
    await once(server, 'listening')
    at = (server.address() as AddressInfo).port
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
  }
  return at
}

async function stand(t: Test, names: Parameters<typeof startNameServer>[1], engine?: 'codec' | 'http-proxy') {
  const dns = await startNameServer(t, names)
  const clock = new ManualClock()
  const sluice = await startSluice(t, {
    clock,
    ...(engine === undefined ? {} : { engine }),
    options: { DNS_SERVERS: dns.address, DNS_RESOLVER: 'own' }
  })
  return { dns, clock, sluice }
}

async function serve(sluice: RunningSluice, fields: object): Promise<string> {
  const { id } = await create(sluice, '/backends/static', { ...fields })
  await site(sluice, HOST, { backend: { backend_id: id } })
  return id
}

async function stateOf(sluice: RunningSluice, id: string) {
  return (await account(sluice)(`/backends/static/${id}`)).json.state
}

/** How often each text is the answer. */
async function counted(sluice: RunningSluice, times: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (let i = 0; i < times; i++) {
    const { status, body } = await visit(sluice, HOST)
    const answer = status === 200 ? body : String(status)
    counts[answer] = (counts[answer] ?? 0) + 1
  }
  return counts
}

const resolved = (sluice: RunningSluice, id: string, servers: number) =>
  until(async () => {
    const { name, servers: found } = await stateOf(sluice, id)
    return name.status === 'resolved' && found.length === servers
  })

const asked = (dns: NameServer, what: string) => dns.asked.filter((one) => one === what).length

onEngines('each address of a name is a server, and they share the requests', async (t, engine) => {
  const { sluice } = await stand(t, { 'web.test': ['127.0.0.1', '127.0.0.2'] }, engine)
  const port = await upstreams(t, ['127.0.0.1', '127.0.0.2'])
  const id = await serve(sluice, { address: `web.test:${port}` })
  await resolved(sluice, id, 2)
  t.same(await counted(sluice, 8), { '127.0.0.1': 4, '127.0.0.2': 4 })
  const metrics = await account(sluice)('/metrics')
  t.match(
    metrics.text,
    `sluice_upstream_tries_total{backend="http://web.test:${port}",server="http://web.test:${port} (127.0.0.2)"} 4`
  )
  t.match(metrics.text, `sluice_upstream_name_resolved{backend="http://web.test:${port}"} 1`)
})

t.test('the first request waits for the name', async (t) => {
  const { sluice } = await stand(t, { 'web.test': ['127.0.0.1'] })
  const port = await upstreams(t, ['127.0.0.1'])
  await serve(sluice, { address: `web.test:${port}` })
  t.match(await visit(sluice, HOST), { status: 200, body: '127.0.0.1' })
})

onEngines('an address that does not answer is down alone, and its requests go to the others', async (t, engine) => {
  const { sluice } = await stand(t, { 'web.test': ['127.0.0.1', '127.0.0.2', '2001:db8::1'] }, engine)
  const counting = createServer((request, response) => {
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    request.on('end', () => response.end(`127.0.0.2 ${bytes}`))
  })
  counting.listen(0, '127.0.0.2')
  await once(counting, 'listening')
  t.teardown(() => {
    counting.closeAllConnections()
    counting.close()
  })
  const { port } = counting.address() as AddressInfo
  const id = await serve(sluice, { address: `web.test:${port}`, retries: { attempts: 1, on: [] } })
  await resolved(sluice, id, 3)
  for (const body of ['', 'x'.repeat(200_000)]) {
    const answer = await visit(sluice, HOST, { method: 'POST', body })
    t.match(answer, { status: 200, body: `127.0.0.2 ${body.length}` }, 'its body was not touched')
  }
  t.same(await counted(sluice, 6), { '127.0.0.2 0': 6 }, 'even without retries')
  const { status, servers } = await stateOf(sluice, id)
  const down = servers
    .filter((one: { status: string }) => one.status === 'down')
    .map((one: { server: string }) => one.server)
  t.ok(down.includes(`http://web.test:${port} (127.0.0.1)`))
  t.notOk(down.includes(`http://web.test:${port} (127.0.0.2)`))
  t.not(status, 'down', 'the backend works')
})

t.test('health checks ask each address', async (t) => {
  const { sluice } = await stand(t, { 'web.test': ['127.0.0.1', '127.0.0.2'] })
  const port = await upstreams(t, ['127.0.0.1'])
  const id = await serve(sluice, { address: `web.test:${port}`, health: { interval: 0.1, fall: 1 } })
  await until(async () => {
    const { servers } = await stateOf(sluice, id)
    const by = new Map(servers.map((one: { server: string; status: string }) => [one.server, one.status]))
    return (
      by.get(`http://web.test:${port} (127.0.0.1)`) === 'up' && by.get(`http://web.test:${port} (127.0.0.2)`) === 'down'
    )
  })
  const line = await sluice.line(({ msg }) => msg === 'an upstream is down: its health check fails')
  t.match(line, { upstream: `http://web.test:${port} (127.0.0.2)` })
})

t.test('a name is asked for again when its answer has expired, and not before', async (t) => {
  const { sluice, dns, clock } = await stand(t, { 'web.test': ['127.0.0.1'] })
  const port = await upstreams(t, ['127.0.0.1', '127.0.0.2'])
  dns.ttl = 30
  const id = await serve(sluice, { address: `web.test:${port}` })
  await resolved(sluice, id, 1)
  dns.names.set('web.test', ['127.0.0.2'])
  clock.advance(29_000)
  t.same(await counted(sluice, 2), { '127.0.0.1': 2 })
  t.equal(asked(dns, 'web.test A'), 1)
  clock.advance(1_000)
  await until(async () => (await visit(sluice, HOST)).body === '127.0.0.2')
  t.equal(asked(dns, 'web.test A'), 2)
  t.same(await counted(sluice, 2), { '127.0.0.2': 2 })
})

t.test('a name that resolves no more keeps its addresses for ten minutes and says so once', async (t) => {
  const { sluice, dns, clock } = await stand(t, { 'web.test': ['127.0.0.1'] })
  const port = await upstreams(t, ['127.0.0.1'])
  dns.ttl = 30
  const id = await serve(sluice, { address: `web.test:${port}` })
  await resolved(sluice, id, 1)
  dns.names.delete('web.test')
  clock.advance(30_000)
  const is = (status: string) =>
    until(async () => {
      await visit(sluice, HOST)
      return (await stateOf(sluice, id)).name.status === status
    })
  await is('stale')
  t.match((await stateOf(sluice, id)).name, { reason: 'ENOTFOUND', since: String })
  t.match(
    (await account(sluice)('/metrics')).text,
    `sluice_upstream_name_resolved{backend="http://web.test:${port}"} 0`
  )
  for (let i = 0; i < 5; i++) {
    clock.advance(60_000)
    t.match(await visit(sluice, HOST), { status: 200, body: '127.0.0.1' })
  }
  dns.names.set('web.test', 'fails')
  clock.advance(240_000)
  t.equal((await visit(sluice, HOST)).status, 200, 'failures of servers are the same')
  const said = () => sluice.log.filter(({ msg }) => String(msg).startsWith('the name of an upstream does not resolve'))
  t.equal(said().length, 1)
  clock.advance(70_000)
  await is('unresolved')
  t.match(await visit(sluice, HOST), { status: 502, headers: { 'sluice-error-code': 'UPSTREAM_REFUSED' } })
  t.equal(said().length, 2)
  dns.names.set('web.test', ['127.0.0.1'])
  clock.advance(10_000)
  await is('resolved')
  t.match(await visit(sluice, HOST), { status: 200 })
  await sluice.line(({ msg }) => msg === 'the name of an upstream resolves again')
})

t.test('a name server that says nothing costs requests nothing once an answer is known', async (t) => {
  const { sluice, dns, clock } = await stand(t, { 'web.test': ['127.0.0.1'] })
  const port = await upstreams(t, ['127.0.0.1'])
  const id = await serve(sluice, { address: `web.test:${port}` })
  await resolved(sluice, id, 1)
  dns.names.set('web.test', 'silent')
  clock.advance(60_000)
  const begun = performance.now()
  t.same(await counted(sluice, 3), { '127.0.0.1': 3 })
  t.ok(performance.now() - begun < 1_500)
})

t.test('a TCP edge takes the other address, too', async (t) => {
  // No other process listens at the first address, whatever its ports are.
  const { sluice } = await stand(t, { 'tcp.test': ['127.0.0.77', '127.0.0.78'] })
  const server = createTcpServer((socket) => socket.end('here'))
  server.listen(0, '127.0.0.78')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const { id } = await create(sluice, '/backends/static', { address: `tcp.test:${port}` })
  await resolved(sluice, id, 2)
  const edge = await freePort()
  await create(sluice, '/edges/tcp', { hostports: [`localhost:${edge}`], backend: { backend_id: id } })
  for (let i = 0; i < 3; i++) {
    const socket = connect(edge, '127.0.0.1')
    let text = ''
    for await (const chunk of socket) text += chunk
    t.equal(text, 'here')
  }
})

onEngines('records SRV name the servers, with priorities and weights', async (t, engine) => {
  const { sluice, dns, clock } = await stand(
    t,
    { 'a.test': ['127.0.0.1'], 'b.test': ['127.0.0.2'], 'c.test': ['127.0.0.3'] },
    engine
  )
  const one = await upstreams(t, ['127.0.0.1'])
  const two = await upstreams(t, ['127.0.0.2'])
  const three = await upstreams(t, ['127.0.0.3'])
  dns.services.set('_http._tcp.web.test', [`10 3 ${one} a.test`, `10 1 ${two} b.test`, `20 1 ${three} c.test`])
  const id = await serve(sluice, { address: '_http._tcp.web.test' })
  await resolved(sluice, id, 3)
  t.same(await counted(sluice, 8), { '127.0.0.1': 6, '127.0.0.2': 2 }, 'the second priority waits')
  const { servers } = await stateOf(sluice, id)
  t.match(servers, [{ server: `http://a.test:${one} (127.0.0.1)` }])
  dns.services.set('_http._tcp.web.test', [`10 0 1 a.test`, `20 0 ${three} c.test`])
  clock.advance(60_000)
  await until(async () => (await visit(sluice, HOST)).body === '127.0.0.3')
  t.same(await counted(sluice, 4), { '127.0.0.3': 4 }, 'nothing of the first priority works')
})

t.test('a service that is not there is said', async (t) => {
  const { sluice } = await stand(t, {})
  const id = await serve(sluice, { address: '_http._tcp.nothing.test' })
  t.equal((await visit(sluice, HOST)).status, 502)
  t.match(await stateOf(sluice, id), { name: { status: 'unresolved', reason: 'ENOTFOUND' } })
  const write = (body: object) => account(sluice)('/backends/static', { method: 'POST', body })
  for (const address of ['_http.web.test', '_http._tcp', '_http._sctp.web.test'])
    t.match((await write({ address })).text, /_http\._tcp\.web\.internal/, address)
  t.equal((await write({ address: '_HTTP._tcp.web.test.' })).json.address, '_http._tcp.web.test')
})

/** Dials when the test says so. */
function held(key: string) {
  let resolve: (pipe: StreamPipe) => void = () => undefined
  let reject: (error: Error) => void = () => undefined
  const pipe = new Promise<StreamPipe>((...both) => {
    ;[resolve, reject] = both
  })
  const dialer: Dialer = { key, reusable: true, open: () => pipe }
  return {
    dialer,
    opens: () => resolve(new StreamPipe(new PassThrough())),
    fails: (error: Error) => reject(error)
  }
}

function race() {
  const clock = new ManualClock()
  const [slow, fast] = [held('slow'), held('fast')]
  const servers: UpstreamServer[] = []
  const [one, two] = [slow, fast].map(({ dialer }, index) => {
    const placed: PlaceDialer = new PlaceDialer(dialer, () => servers.filter(({ dialer }) => dialer !== placed))
    placed.server = new UpstreamServer(placed, String(index), clock)
    servers.push(placed.server)
    return placed
  }) as [PlaceDialer, PlaceDialer]
  const client = { ...facts, listener: 'http' }
  const why = { client, deadline: 5_000, signal: new AbortList() }
  return { slow, fast, one, two, why }
}

async function failureOf(opening: Promise<unknown>): Promise<string> {
  try {
    await opening
    return 'opened'
  } catch (error) {
    return error instanceof DialError ? error.failure : String(error)
  }
}

const facts = {
  id: 1,
  local: { address: '', port: 0 },
  peer: { address: '', port: 0 },
  startedAt: 0,
  bytesIn: 0,
  bytesOut: 0
}

t.test('an address that is slow to connect is outrun, and avoided until it has connected', async (t) => {
  const { slow, fast, one, two, why } = race()
  const begun = performance.now()
  const opening = one.open(why)
  fast.opens()
  await t.rejects(opening, new DialError('dial-outrun', '1 answered first'))
  const waited = performance.now() - begun
  t.ok(waited >= 240 && waited < 2_000, 'after 250 milliseconds')
  t.equal(one.server?.successor, two.server)
  t.notOk(one.server?.isUp())
  t.ok((await two.open(why)).duplex.writable, 'its connection waited')
  slow.opens()
  await new Promise((resolve) => setImmediate(resolve))
  t.ok(one.server?.isUp())
})

t.test('one that is refused gives way at once, and its failure counts', async (t) => {
  const { slow, fast, one, why } = race()
  const begun = performance.now()
  const opening = one.open(why)
  slow.fails(new DialError('dial-refused', 'ECONNREFUSED'))
  fast.opens()
  t.equal(await failureOf(opening), 'dial-outrun')
  t.ok(performance.now() - begun < 200)
  t.equal(one.server?.state.state, 'down')
})

t.test('when all fail the failure of the own address counts, and a check asks no other', async (t) => {
  const { slow, fast, one, two, why } = race()
  const opening = one.open(why)
  fast.fails(new DialError('dial-timeout', 'late'))
  slow.fails(new DialError('dial-refused', 'ECONNREFUSED'))
  t.equal(await failureOf(opening), 'dial-refused')
  t.equal(two.server?.state.state, 'down')
  const again = race()
  again.slow.fails(new DialError('dial-refused', 'ECONNREFUSED'))
  again.fast.opens()
  t.equal(await failureOf(again.one.open({ ...again.why, client: { ...facts, listener: '' } })), 'dial-refused')
})
