import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import t, { type Test } from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'shop.example.com'

interface Named {
  readonly port: number
  readonly server: Server
  readonly seen: string[]
}

/** A server that answers its name; `held` keeps its answers back. */
async function named(t: Test, name: string, port = 0, held?: ServerResponse[]): Promise<Named> {
  const seen: string[] = []
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    if (held === undefined) response.end(name)
    else held.push(response)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, server, seen }
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
}

const backend = async (sluice: RunningSluice, port: number, fields: object = {}): Promise<string> =>
  (await create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, ...fields })).id

onEngines('a fixed response answers without an upstream', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const { id } = await create(sluice, '/backends/http_response', {
    status_code: 418,
    headers: { 'X-Kind': 'teapot' },
    body: 'short and stout'
  })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const answer = await visit(sluice, HOST)
  t.match(answer, { status: 418, body: 'short and stout', headers: { 'x-kind': 'teapot', 'content-length': '15' } })
  t.equal(answer.headers['sluice-error-code'], undefined)
  t.match(await visit(sluice, HOST, { method: 'HEAD' }), { status: 418, body: '' })
  await account(sluice)(`/backends/http_response/${id}`, { method: 'PATCH', body: { status_code: 200 } })
  t.equal((await visit(sluice, HOST)).status, 200, 'a change is live')
})

onEngines('weights share traffic, and who is down is left out', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const [one, two] = [await named(t, 'one'), await named(t, 'two')]
  const [heavy, light, off] = [
    await backend(sluice, one.port),
    await backend(sluice, two.port),
    await backend(sluice, 1)
  ]
  const { id } = await create(sluice, '/backends/weighted', { backends: { [heavy]: 3, [light]: 1, [off]: 0 } })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const answers: string[] = []
  for (let i = 0; i < 12; i++) answers.push((await visit(sluice, HOST)).body)
  t.equal(answers.filter((name) => name === 'one').length, 9)
  t.equal(answers.filter((name) => name === 'two').length, 3)
  await closed(one.server)
  for (let i = 0; i < 6; i++) t.match(await visit(sluice, HOST), { status: 200, body: 'two' })
})

t.test('failover takes the first that works, tries the next at once, and comes back after the pause', async (t) => {
  const clock = new ManualClock()
  const sluice = await startSluice(t, { clock })
  const [first, second] = [await named(t, 'first'), await named(t, 'second')]
  const backends = [await backend(sluice, first.port), await backend(sluice, second.port)]
  const { id } = await create(sluice, '/backends/failover', { backends })
  await site(sluice, HOST, { backend: { backend_id: id } })
  t.equal((await visit(sluice, HOST)).body, 'first')
  await closed(first.server)
  t.match(await visit(sluice, HOST), { status: 200, body: 'second' }, 'the client sees nothing of it')
  t.match(await visit(sluice, HOST), { status: 200, body: 'second' })
  const again = await named(t, 'first again', first.port)
  t.equal((await visit(sluice, HOST)).body, 'second', 'it is not tried during its pause')
  clock.advance(1_001)
  t.equal((await visit(sluice, HOST)).body, 'first again')
  t.equal(again.seen.length, 1)
})

t.test('a body goes elsewhere as long as none of it was sent, and nowhere else afterwards', async (t) => {
  const sluice = await startSluice(t)
  const second = await named(t, 'second')
  const first = createTcpServer((socket) => {
    socket.on('error', () => undefined)
    // It reads the body and is gone.
    socket.on('data', (chunk) => chunk.includes('once') && socket.destroy())
  })
  first.listen(0, '127.0.0.1')
  await once(first, 'listening')
  t.teardown(() => first.close())
  const route = async (...ports: number[]) => {
    const backends = await Promise.all(ports.map((port) => backend(sluice, port)))
    const { id } = await create(sluice, '/backends/failover', { backends })
    return { backend: { backend_id: id } }
  }
  const posted = { method: 'POST', body: 'once', headers: { 'content-length': '4' } }
  await site(sluice, HOST, await route(1, second.port))
  t.match(await visit(sluice, HOST, posted), { status: 200, body: 'second' }, 'the first one was not reached')
  t.equal(second.seen.length, 1)
  await site(sluice, 'other.example.com', await route((first.address() as AddressInfo).port, second.port))
  t.match(await visit(sluice, 'other.example.com', posted), { status: 502 })
  t.equal(second.seen.length, 1, 'what the first one may have processed is not sent again')
})

t.test('with least_requests the one that is least busy is taken', async (t) => {
  const sluice = await startSluice(t)
  const held: ServerResponse[] = []
  const [busy, idle] = [await named(t, 'busy', 0, held), await named(t, 'idle')]
  const weights = { [await backend(sluice, busy.port)]: 1, [await backend(sluice, idle.port)]: 1 }
  const { id } = await create(sluice, '/backends/weighted', { backends: weights, balance: 'least_requests' })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const answers = [visit(sluice, HOST), visit(sluice, HOST)]
  const first = await Promise.race(answers)
  t.equal(first.body, 'idle')
  for (let i = 0; i < 5; i++) t.equal((await visit(sluice, HOST)).body, 'idle')
  t.equal(held.length, 1)
  held[0]?.end('late')
  t.same((await Promise.all(answers)).map(({ body }) => body).sort(), ['idle', 'late'])
})

t.test('a backend that is missing or empty answers 503 with its code, and heals when it appears', async (t) => {
  const sluice = await startSluice(t)
  const { route } = await site(sluice, HOST, {})
  t.match(await visit(sluice, HOST), { status: 503, headers: { 'sluice-error-code': 'NO_UPSTREAM' } })
  const group = await create(sluice, '/backends/tunnel_group', { labels: { app: 'web' } })
  const put = (id: string) => account(sluice)(`${route}/backend`, { method: 'PUT', body: { backend_id: id } })
  await put(group.id)
  t.match(await visit(sluice, HOST), { status: 503, headers: { 'sluice-error-code': 'NO_TUNNEL' } })
  const server = await named(t, 'here')
  await put(await backend(sluice, server.port))
  t.match(await visit(sluice, HOST), { status: 200, body: 'here' })
})

t.test(
  'a server that fails for one backend is out for every other that names it, and comes back for all',
  async (t) => {
    const clock = new ManualClock()
    const sluice = await startSluice(t, { clock })
    const [first, second] = [await named(t, 'first'), await named(t, 'second')]
    const [one, same, other] = [
      await backend(sluice, first.port),
      await backend(sluice, first.port, { metadata: '{"name":"same"}' }),
      await backend(sluice, second.port)
    ]
    const groups = {
      'alone.example.com': one,
      'failover.example.com': (await create(sluice, '/backends/failover', { backends: [same, other] })).id,
      'weighted.example.com': (await create(sluice, '/backends/weighted', { backends: { [same]: 9, [other]: 1 } })).id
    }
    for (const [host, backend_id] of Object.entries(groups)) await site(sluice, host, { backend: { backend_id } })
    const state = async (id: string) => (await account(sluice)(`/backends/static/${id}`)).json.state
    t.equal((await visit(sluice, 'failover.example.com')).body, 'first')
    await closed(first.server)
    t.equal((await visit(sluice, 'alone.example.com')).status, 502)
    for (const id of [one, same]) t.match(await state(id), { status: 'down', reason: 'dial-refused' })
    t.match(await state(other), { status: 'unchecked' })
    for (let i = 0; i < 5; i++)
      for (const host of ['failover.example.com', 'weighted.example.com'])
        t.equal((await visit(sluice, host)).body, 'second')
    const { text } = await account(sluice)('/metrics')
    t.match(text, `sluice_upstream_tries_failed_total{backend="same",server="http://127.0.0.1:${first.port}"} 0`)
    t.equal(
      sluice.log.filter(({ msg }) => String(msg).startsWith('an upstream is down')).length,
      2,
      'one line for each'
    )
    const late = await backend(sluice, first.port)
    t.match(await state(late), { status: 'down' }, 'a backend that comes later knows it')
    await account(sluice)(`/backends/static/${late}`, { method: 'PATCH', body: { description: 'the same place' } })
    t.match(await state(late), { status: 'down' }, 'so does one that is changed')

    await named(t, 'first', first.port)
    clock.advance(30_000)
    t.equal((await visit(sluice, 'alone.example.com')).body, 'first')
    for (const id of [one, same, late]) t.match(await state(id), { status: 'up', reason: 'it answers again' })
    t.equal((await visit(sluice, 'failover.example.com')).body, 'first')
  }
)
