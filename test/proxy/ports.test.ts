import t from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'
import { freePort, occupied } from './free-port.js'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const IN_USE = { status: 409, json: { error_code: 'ERR_SLUICE_PORT_IN_USE' } }

const edgeBody = (...ports: readonly number[]) => ({ hostports: ports.map((port) => `localhost:${port}`) })

async function backend(sluice: RunningSluice, upstream: RawUpstream): Promise<object> {
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  return { backend: { enabled: true, backend_id: id } }
}

t.test('a port in use refuses the write, and nothing has changed', async (t) => {
  const sluice = await startSluice(t)
  const call = account(sluice)
  const [taken, free] = [await occupied(t), await freePort()]
  t.match(await call('/edges/tcp', { method: 'POST', body: edgeBody(taken) }), IN_USE)
  t.match(await call('/edges/tcp', { method: 'POST', body: edgeBody(free, taken) }), IN_USE)
  await t.rejects(rawClient(free), { code: 'ECONNREFUSED' }, 'the port that was free is free again')
  t.same((await call('/edges/tcp')).json.tcp_edges, [])
  const upstream = await RawUpstream.start(t)
  const edge = await create(sluice, '/edges/tcp', { ...edgeBody(free), ...(await backend(sluice, upstream)) })
  const open = await rawClient(free)
  open.send('x')
  const peer = await upstream.next()
  await peer.until('x')
  t.match(await call(`/edges/tcp/${edge.id}`, { method: 'PATCH', body: edgeBody(taken) }), IN_USE)
  t.match(await call(`/edges/tcp/${edge.id}`), { json: edgeBody(free) })
  open.send('y')
  await peer.until('xy')
  await rawClient(free)
})

t.test('what the process itself listens on is no port of an edge', async (t) => {
  const sluice = await startSluice(t)
  for (const port of [sluice.port, sluice.apiPort]) {
    t.match(await account(sluice)('/edges/tcp', { method: 'POST', body: edgeBody(port) }), IN_USE)
  }
})

t.test('two edges cannot share a port under two names, because bytes do not say which was meant', async (t) => {
  const sluice = await startSluice(t)
  const port = await freePort()
  const call = account(sluice)
  const first = await create(sluice, '/edges/tcp', { hostports: [`a.example.com:${port}`, `b.example.com:${port}`] })
  const second = { hostports: [`c.example.com:${port}`] }
  t.match(await call('/edges/tcp', { method: 'POST', body: second }), IN_USE)
  t.equal((await call(`/edges/tcp/${first.id}`, { method: 'DELETE' })).status, 204)
  t.equal((await call('/edges/tcp', { method: 'POST', body: second })).status, 201)
})

t.test(
  'an edge that moves opens its new port before it closes the old one; both serve their connections',
  async (t) => {
    const sluice = await startSluice(t, { options: { TIMEOUTS_DRAIN: '10s' } })
    const upstream = await RawUpstream.start(t)
    const [before, after] = [await freePort(), await freePort()]
    const edge = await create(sluice, '/edges/tcp', { ...edgeBody(before), ...(await backend(sluice, upstream)) })
    const old = await rawClient(before)
    old.send('x')
    const peer = await upstream.next()
    await peer.until('x')
    const moved = await account(sluice)(`/edges/tcp/${edge.id}`, { method: 'PATCH', body: edgeBody(after) })
    t.equal(moved.status, 200)
    await t.rejects(rawClient(before), { code: 'ECONNREFUSED' })
    const fresh = await rawClient(after)
    fresh.send('z')
    await (await upstream.next()).until('z')
    old.send('y')
    await peer.until('xy')
    for (const one of [old, fresh]) one.reset()
  }
)

t.test(
  'listeners beside the first: plain and TLS, with the port that clients know, opened and closed while running',
  async (t) => {
    const [plain, known] = [await freePort(), await freePort()]
    const sluice = await startSluice(t, { options: { LISTENERS: `http://127.0.0.1:${plain}` } })
    const upstream = await RawUpstream.start(t, answering(OK))
    const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
    await site(sluice, 'a.example.com', { backend: { backend_id: id } })
    const at = (port: number) => visit({ ...sluice, port }, 'a.example.com')
    t.match(await at(plain), { status: 200 })
    const listen = (port: number, more: object = {}) => ({
      listen: { host: '127.0.0.1', port },
      tls: false,
      public_port: undefined,
      proxy_protocol: false,
      ...more
    })
    const kept = await rawClient(plain)
    kept.send('GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n')
    t.equal((await kept.answer()).status, 200)
    t.match(await sluice.listeners([listen(plain), listen(known, { public_port: 8443 })]), { ok: true, changed: true })
    t.match(await at(known), { status: 404 }, 'the edge stands on 443')
    kept.send('GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n')
    t.equal((await kept.answer()).status, 200, 'who is not concerned is not dropped')
    t.match(await sluice.listeners([listen(plain), listen(known, { public_port: 443 })]), { ok: true })
    t.match(await at(known), { status: 200 }, 'the same address with another port for clients')
    const taken = await occupied(t)
    t.match(await sluice.listeners([listen(taken), listen(await freePort())]), {
      ok: false,
      ports: [{ port: taken, reason: 'EADDRINUSE' }]
    })
    t.match(await at(known), { status: 200 }, 'nothing has changed')
    t.match(await sluice.listeners([]), { ok: true })
    await t.rejects(rawClient(plain), { code: 'ECONNREFUSED' })
    t.match(await at(sluice.port), { status: 200 })
  }
)

t.test('PROXY headers are believed when trusted peers send them', async (t) => {
  const port = await freePort()
  const options = { LISTENERS: `http://127.0.0.1:${port}?proxy_protocol=on`, TRUSTED_PROXIES: '127.0.0.1/32' }
  const upstream = await RawUpstream.start(t, answering(OK))
  const sluice = await startSluice(t, { options, upstream })
  const client = await rawClient(port)
  client.send('PROXY TCP4 203.0.113.9 192.0.2.1 4711 80\r\nGET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n')
  t.equal((await client.answer()).status, 200)
  t.match(await sluice.line(({ msg }) => msg === 'exchange'), { client: '203.0.113.9' })
  const without = await rawClient(port)
  without.send('GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n')
  await without.untilEnd()
  t.equal(without.text, '')
  t.match(await sluice.line(({ msg }) => msg === 'handshake failed'), { failure: 'proxy-header-missing' })
})

t.test(
  'the restriction of all endpoints keeps clients away from edges, and only tells when it is not enforced',
  async (t) => {
    const sluice = await startSluice(t, { options: { TRUSTED_PROXIES: '127.0.0.1/32' } })
    const call = account(sluice)
    const upstream = await RawUpstream.start(t, answering(OK))
    const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
    await site(sluice, 'a.example.com', { backend: { backend_id: id } })
    const raw = await RawUpstream.start(t, (peer) => peer.send('welcome'))
    const port = await freePort()
    await create(sluice, '/edges/tcp', { ...edgeBody(port), ...(await backend(sluice, raw)) })
    const policy = await create(sluice, '/ip_policies', { description: 'office' })
    await create(sluice, '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '203.0.113.0/24', action: 'allow' })
    const wanted = { type: 'endpoints', enforced: false, ip_policy_ids: [policy.id] }
    const restriction = await create(sluice, '/ip_restrictions', wanted)
    const asked = (client: string) => visit(sluice, 'a.example.com', { headers: { 'x-forwarded-for': client } })
    t.match(await asked('198.51.100.1'), { status: 200 })
    t.match(await sluice.line(({ msg }) => /would refuse/.test(String(msg))), { client: '198.51.100.1' })
    await (await rawClient(port)).until('welcome')
    await call(`/ip_restrictions/${restriction.id}`, { method: 'PATCH', body: { enforced: true } })
    t.match(await asked('198.51.100.1'), { status: 403, headers: { 'sluice-error-code': 'IP_RESTRICTED' } })
    t.match(await asked('203.0.113.5'), { status: 200 })
    t.match(await visit(sluice, 'nobody.example.com', { headers: { 'x-forwarded-for': '198.51.100.1' } }), {
      status: 403
    })
    const client = await rawClient(port)
    await client.untilEnd()
    t.equal(client.text, '')
    t.match(await sluice.line(({ code }) => code === 'IP_RESTRICTED'), {})
    t.equal((await call(`/ip_restrictions/${restriction.id}`, { method: 'DELETE' })).status, 204)
    t.match(await asked('198.51.100.1'), { status: 200 })
  }
)
