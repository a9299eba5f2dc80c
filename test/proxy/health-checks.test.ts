import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'shop.example.com'

/** A server whose health and answer a test sets. */
interface Patient {
  readonly port: number
  readonly server: Server
  health: number
  status: number
  /** Are answers given at all? */
  mute: boolean
  readonly asked: string[]
  readonly agents: Set<string>
}

async function patient(t: Test, name: string): Promise<Patient> {
  const server = createServer((request, response) => {
    if (request.url === '/healthz') {
      one.agents.add(String(request.headers['user-agent']))
      if (!one.mute) response.writeHead(one.health).end()
      return
    }
    one.asked.push(`${request.method} ${request.url}`)
    if (!one.mute) response.writeHead(one.status).end(name)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const one: Patient = { port, server, health: 200, status: 200, mute: false, asked: [], agents: new Set() }
  return one
}

const HEALTH = { path: '/healthz', interval: 0.1, timeout: 0.2, rise: 2, fall: 2 }

const stateOf = async (sluice: RunningSluice, id: string) =>
  (await account(sluice)(`/backends/static/${id}`)).json.state

async function pair(sluice: RunningSluice, ports: readonly number[], fields: object): Promise<string[]> {
  const ids: string[] = []
  for (const port of ports) {
    ids.push((await create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, ...fields })).id)
  }
  const failover = await create(sluice, '/backends/failover', { backends: ids })
  await site(sluice, HOST, { backend: { backend_id: failover.id } })
  return ids
}

onEngines('checks take a server out of traffic and bring it back, without a request that fails', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const [first, second] = [await patient(t, 'first'), await patient(t, 'second')]
  // Longer than a busy machine keeps a process of the test waiting.
  const [id = ''] = await pair(sluice, [first.port, second.port], { health: { ...HEALTH, timeout: 1 } })
  await until(async () => (await stateOf(sluice, id)).status === 'up')
  t.match(await stateOf(sluice, id), { status: 'up', reason: 'status 200', since: /Z$/ })
  t.same([...first.agents], ['Sluice-Health-Check'])
  t.equal((await visit(sluice, HOST)).body, 'first')
  first.health = 503
  const down = await sluice.line(({ msg }) => msg === 'an upstream is down: its health check fails')
  t.match(down, { upstream: `http://127.0.0.1:${first.port}`, reason: 'status 503' })
  t.match(await stateOf(sluice, id), { status: 'down', reason: 'status 503' })
  first.asked.length = 0
  for (let i = 0; i < 5; i++) t.equal((await visit(sluice, HOST)).body, 'second')
  t.same(first.asked, [], 'it gets no request, and no attempt of one')
  const metrics = (await account(sluice)('/metrics')).text
  t.match(
    metrics,
    new RegExp(
      `sluice_upstream_up\\{backend="http://127.0.0.1:${first.port}",server="http://127.0.0.1:${first.port}"\\} 0`
    )
  )
  first.health = 204
  await sluice.line(({ msg }) => msg === 'an upstream is up again')
  t.equal((await visit(sluice, HOST)).body, 'first')
  first.mute = true
  await until(async () => (await stateOf(sluice, id)).status === 'down')
  t.equal((await stateOf(sluice, id)).reason, 'no answer within 1000 ms', 'a server that hangs is found')
  t.equal((await visit(sluice, HOST)).body, 'second')
})

t.test('checks end with their backend and change with it', async (t) => {
  const sluice = await startSluice(t)
  const one = await patient(t, 'one')
  const call = account(sluice)
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${one.port}`, health: HEALTH })
  const path = `/backends/static/${backend.id}`
  await until(async () => (await stateOf(sluice, backend.id)).status === 'up')
  t.equal((await call(path, { method: 'PATCH', body: { health: { ...HEALTH, path: '/other' } } })).status, 200)
  await until(() => one.asked.includes('GET /other'))
  t.equal((await call(path, { method: 'PATCH', body: { health: null } })).status, 200)
  t.match((await call(path)).json, { health: null, state: { status: 'unchecked', reason: '', since: null } })
  one.asked.length = 0
  one.agents.clear()
  const other = await create(sluice, '/backends/static', { address: `127.0.0.1:${one.port}`, health: HEALTH })
  await until(() => one.agents.size > 0)
  t.equal((await call(`/backends/static/${other.id}`, { method: 'DELETE' })).status, 204)
  t.same(one.asked, [], 'what is no longer asked for is not asked')
})

t.test('a connection is enough for a server of plain TCP', async (t) => {
  const sluice = await startSluice(t)
  const one = await patient(t, 'one')
  const health = { type: 'tcp', interval: 0.1, timeout: 0.2, rise: 1, fall: 1 }
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${one.port}`, health })
  await until(async () => (await stateOf(sluice, backend.id)).status === 'up')
  one.server.closeAllConnections()
  one.server.close()
  await until(async () => (await stateOf(sluice, backend.id)).status === 'down')
  t.match(await stateOf(sluice, backend.id), { reason: /^dial-refused: ECONNREFUSED/ })
})

onEngines(
  'statuses of a failing server send requests to another one, but never twice what may not be',
  async (t, engine) => {
    const sluice = await startSluice(t, { engine })
    const [first, second] = [await patient(t, 'first'), await patient(t, 'second')]
    const passive_health = { failures: 3, statuses: ['503', '500-501'] }
    const [id = ''] = await pair(sluice, [first.port, second.port], { passive_health })
    first.status = 503
    t.match(await visit(sluice, HOST), { status: 200, body: 'second' })
    t.match(await visit(sluice, HOST, { method: 'POST', body: 'x' }), { status: 503, body: 'first' }, 'as it came')
    t.same(second.asked, ['GET /'])
    first.status = 502
    t.equal((await visit(sluice, HOST)).status, 502, 'a status that is not named is an answer')
    first.status = 500
    for (let i = 0; i < 3; i++) t.equal((await visit(sluice, HOST)).body, 'second')
    t.match(await stateOf(sluice, id), { status: 'down', reason: 'status 500' })
    second.status = 503
    t.match(
      await visit(sluice, HOST, { path: '/last' }),
      { status: /50[03]/ },
      'when all fail, the last answer goes to the client'
    )
  }
)

onEngines('a backend has time-outs of its own', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const [first, second] = [await patient(t, 'first'), await patient(t, 'second')]
  first.mute = true
  await pair(sluice, [first.port, second.port], { timeouts: { response: 0.1 }, passive_health: { failures: 1 } })
  t.equal((await visit(sluice, HOST)).status, 504, 'who has waited is not kept waiting for another server')
  first.asked.length = 0
  t.equal((await visit(sluice, HOST)).body, 'second')
  t.same(first.asked, [], 'a server that hung once is left out')
})

t.test('the least loaded backend gets the next request', async (t) => {
  const sluice = await startSluice(t)
  const servers = [await patient(t, 'a'), await patient(t, 'b')]
  const ids: string[] = []
  for (const { port } of servers)
    ids.push((await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })).id)
  const backends = { [ids[0] as string]: 3, [ids[1] as string]: 1 }
  const weighted = await create(sluice, '/backends/weighted', { backends, balance: 'least_requests' })
  await site(sluice, HOST, { backend: { backend_id: weighted.id } })
  const [a, b] = servers as [Patient, Patient]
  a.mute = true
  b.mute = true
  const waiting: Promise<unknown>[] = []
  for (let n = 1; n <= 8; n++) {
    waiting.push(visit(sluice, HOST).catch(() => undefined))
    await until(() => a.asked.length + b.asked.length === n)
  }
  t.same([a.asked.length, b.asked.length], [6, 2], 'in proportion to their weights')
  for (const { server } of servers) server.closeAllConnections()
  await Promise.all(waiting)
})

t.test('what cannot be is refused with its place', async (t) => {
  const sluice = await startSluice(t)
  for (const fields of [
    { health: { statuses: ['600'] } },
    { health: { statuses: ['300-200'] } },
    { health: { path: 'healthz' } },
    { health: { host: 'a b' } },
    { health: { interval: -1 } },
    { health: { every: 3 } },
    { passive_health: { statuses: ['5xx'] } },
    { timeouts: { connect: -1 } },
    { tls: { enabled: true, ca_pem: 'no certificate' } },
    { tls: { enabled: true, min_version: '1.1' } }
  ]) {
    const body = { address: 'a.test:1', ...fields }
    const answer = await account(sluice)('/backends/static', { method: 'POST', body })
    t.equal(answer.status, 400, JSON.stringify(fields))
    t.match(answer.text, new RegExp(Object.keys(fields)[0] ?? ''), 'the field is named')
  }
})
