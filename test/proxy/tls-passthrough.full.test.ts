import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { connect } from 'node:tls'
import t from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import type { RunningSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'
import { askTls, authority, certificate, session } from './tls-client.js'
import { client, connectionOf, gone, refusedTls, start, tlsServer } from './tls-peers.js'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

async function passthrough(
  sluice: RunningSluice,
  hosts: readonly string[],
  upstream: number,
  more: Record<string, unknown> = {}
): Promise<string> {
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream}` })
  const body = {
    hostports: hosts.map((host) => `${host}:443`),
    tls: 'passthrough',
    backend: { backend_id: backend.id }
  }
  return (await create(sluice, '/edges/tcp', { ...body, ...more })).id
}

t.test(
  'TLS of its names is not ended: the client sees the certificate of the server, other names are ended here',
  async (t) => {
    const { sluice, port, ca } = await start(t)
    const own = await tlsServer(t, 'own', ca, ['own.example.com', '*.wild.example.com'])
    const edge = await passthrough(sluice, ['own.example.com', '*.wild.example.com'], own.port)
    const web = await RawUpstream.start(t, answering(OK))
    const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${web.port}` })
    for (const host of ['web.example.com', 'ended.wild.example.com'])
      await site(sluice, host, { backend: { backend_id: id } })
    const shown = await certificate('here', ca, ['web.example.com', '*.wild.example.com'])
    await create(sluice, '/tls_certificates', { certificate_pem: shown.pem, private_key_pem: shown.key })

    const passed = await client(port, 'own.example.com', ca)
    t.equal(passed.subject, 'CN=own')
    t.equal(await passed.say('hello'), 'own own.example.com hello')
    const below = await client(port, 'a.wild.example.com', ca)
    t.equal(await below.say('x'), 'own a.wild.example.com x')
    t.match(await askTls(port, 'web.example.com', { ca: ca.pem }), { status: 200, certificate: 'CN=here' })
    t.match(await askTls(port, 'ended.wild.example.com', { ca: ca.pem }), { status: 200, certificate: 'CN=here' })
    const { read, written } = { read: passed.socket.bytesRead, written: passed.socket.bytesWritten }
    passed.socket.end()
    const line = await connectionOf(sluice, edge)
    t.match(line, {
      edge,
      listener: edge,
      client: '127.0.0.1',
      port: 443,
      tls: 'passthrough',
      sni: 'own.example.com',
      code: undefined,
      upstream: { server: String, try_count: 1 }
    })
    t.ok(
      Number(line.bytes_in) > 200 && Number(line.bytes_in) >= written,
      `${line.bytes_in} bytes, ClientHello included`
    )
    t.ok(Number(line.bytes_out) >= read - 64)
    const metrics = await account(sluice)('/metrics')
    t.match(metrics.text, /sluice_tcp_connections_total\{[^}]*site="own.example.com"/)
  }
)

t.test('a ClientHello that comes in crumbs, and one that is larger than a segment, are passed on whole', async (t) => {
  const { sluice, port, ca } = await start(t)
  const own = await tlsServer(t, 'own', ca, ['own.example.com'])
  await passthrough(sluice, ['own.example.com'], own.port)
  const raw = connectTcp({ host: '127.0.0.1', port, noDelay: true })
  await once(raw, 'connect')
  const write = raw.write.bind(raw) as (chunk: Uint8Array) => boolean
  let first = true
  // Only the ClientHello is cut; what follows goes as it is.
  raw.write = ((chunk: Uint8Array | string, ...rest: unknown[]) => {
    const done = rest.find((one) => typeof one === 'function') as ((error?: Error) => void) | undefined
    const bytes = Buffer.from(chunk as Uint8Array)
    const step = first ? 7 : bytes.length
    first = false
    for (let at = 0; at < bytes.length; at += step) write(bytes.subarray(at, at + step))
    done?.()
    return true
  }) as typeof raw.write
  const { subject, say } = await client(port, 'own.example.com', ca, raw)
  t.equal(subject, 'CN=own')
  t.equal(await say('crumbs'), 'own own.example.com crumbs')
})

t.test('a name of nobody gets what it got before; a client without a name, too', async (t) => {
  const { sluice, port, ca } = await start(t)
  const own = await tlsServer(t, 'own', ca, ['own.example.com'])
  await passthrough(sluice, ['own.example.com'], own.port)
  t.match(await refusedTls(port, 'other.example.com'), /shown CN=.*development/)
  t.match(await refusedTls(port), /shown CN=.*development/)
  t.equal(own.sockets.size, 0)
})

t.test('an edge with * takes every name that no other edge has, and clients without a name', async (t) => {
  const { sluice, port, ca } = await start(t)
  const own = await tlsServer(t, 'own', ca, ['any.example.org'])
  await passthrough(sluice, ['*'], own.port)
  t.equal(await (await client(port, 'any.example.org', ca)).say('x'), 'own any.example.org x')
  t.equal(await refusedTls(port), 'shown CN=own')
  const web = await RawUpstream.start(t, answering(OK))
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${web.port}` })
  await site(sluice, 'web.example.com', { backend: { backend_id: id } })
  t.match(await askTls(port, 'web.example.com'), { status: 200 })
})

t.test(
  'a backend of https is reached without TLS of our own, and the PROXY header comes before the ClientHello',
  async (t) => {
    const { sluice, port, ca } = await start(t)
    const own = await tlsServer(t, 'own', ca, ['own.example.com'])
    const { id } = await create(sluice, '/backends/static', {
      address: `127.0.0.1:${own.port}`,
      tls: { enabled: true }
    })
    const body = { hostports: ['own.example.com:443'], tls: 'passthrough', backend: { backend_id: id } }
    const edge = await create(sluice, '/edges/tcp', body)
    t.equal(await (await client(port, 'own.example.com', ca)).say('x'), 'own own.example.com x')

    const raw = await RawUpstream.start(t)
    const proxied = await create(sluice, '/backends/static', { address: `127.0.0.1:${raw.port}`, proxy_protocol: 'v1' })
    const changed = await account(sluice)(`/edges/tcp/${edge.id}`, {
      method: 'PATCH',
      body: { backend: { backend_id: proxied.id } }
    })
    t.equal(changed.status, 200)
    const socket = connect({ host: '127.0.0.1', port, servername: 'own.example.com' })
    socket.on('error', () => undefined)
    const peer = await raw.next()
    await peer.until('\r\n')
    t.match(peer.text, /^PROXY TCP4 127\.0\.0\.1 127\.0\.0\.1 \d+ \d+\r\n/)
    await peer.until('\r\n\u0016\u0003')
    socket.destroy()
  }
)

t.test('on_tcp_connect sees the name; restrictions and policies refuse before a byte reaches the server', async (t) => {
  const { sluice, port, ca } = await start(t)
  const own = await tlsServer(t, 'own', ca, ['*.example.com'])
  const policy = `on_tcp_connect: [{ expressions: ["conn.tls.sni == 'no.example.com'"], actions: [{ type: deny }] }]`
  const edge = await passthrough(sluice, ['*.example.com'], own.port, { traffic_policy: { value: policy } })
  t.equal(await (await client(port, 'yes.example.com', ca)).say('x'), 'own yes.example.com x')
  t.not(await refusedTls(port, 'no.example.com'), /shown/)
  t.match(await sluice.line(({ msg, sni }) => msg === 'connection' && sni === 'no.example.com'), {
    edge,
    code: 'CONNECTION_REFUSED',
    action: 'deny'
  })
  const ip = await create(sluice, '/ip_policies', {})
  await create(sluice, '/ip_policy_rules', { ip_policy_id: ip.id, cidr: '192.0.2.0/24', action: 'allow' })
  const put = await account(sluice)(`/edges/tcp/${edge}/ip_restriction`, {
    method: 'PUT',
    body: { enabled: true, ip_policy_ids: [ip.id] }
  })
  t.equal(put.status, 200, put.text)
  t.not(await refusedTls(port, 'yes.example.com'), /shown/)
  t.equal(own.sockets.size, 1)
})

t.test('a policy may end TLS of some of its connections', async (t) => {
  const { sluice, port, ca } = await start(t)
  const { pem, key } = await certificate('policy', ca, ['own.example.com'])
  const raw = await RawUpstream.start(t)
  const value = JSON.stringify({
    on_tcp_connect: [
      { actions: [{ type: 'terminate-tls', config: { server_certificate: pem, server_private_key: key } }] }
    ]
  })
  const edge = await passthrough(sluice, ['own.example.com'], raw.port, { traffic_policy: { value } })
  const { socket, subject } = await client(port, 'own.example.com', ca)
  t.equal(subject, 'CN=policy')
  socket.write('clear')
  const peer = await raw.next()
  await peer.until('clear')
  peer.end()
  socket.end()
  t.match(await connectionOf(sluice, edge), { tls: 'TLSv1.3', sni: 'own.example.com' })
})

t.test(
  'its connections keep to the idle time-out of TCP edges and to the limit of connections of the listener',
  async (t) => {
    const clock = new ManualClock()
    const { sluice, port, ca } = await start(t, { TIMEOUTS_IDLE: '1m', LIMITS_CONNECTIONS: '2' }, clock)
    const own = await tlsServer(t, 'own', ca, ['own.example.com'])
    const edge = await passthrough(sluice, ['own.example.com'], own.port)
    const one = await client(port, 'own.example.com', ca)
    const two = await client(port, 'own.example.com', ca)
    t.not(await refusedTls(port, 'own.example.com'), /shown/, 'a third one has no place')
    two.socket.destroy()
    await connectionOf(sluice, edge)
    await one.say('still here')
    const closed = gone(one.socket)
    const timer = setInterval(() => clock.advance(10_000), 20)
    await closed
    clearInterval(timer)
    t.match(await sluice.line(({ msg, code }) => msg === 'connection' && code === 'IDLE'), { edge })
  }
)

t.test('an edge that goes while connections live gives them the time of a drain; others are not touched', async (t) => {
  const { sluice, port, ca } = await start(t)
  const own = await tlsServer(t, 'own', ca, ['own.example.com', 'stays.example.com'])
  const edge = await passthrough(sluice, ['own.example.com'], own.port)
  await passthrough(sluice, ['stays.example.com'], own.port)
  const live = await client(port, 'own.example.com', ca)
  const other = await client(port, 'stays.example.com', ca)
  t.equal((await account(sluice)(`/edges/tcp/${edge}`, { method: 'DELETE' })).status, 204)
  t.match(await refusedTls(port, 'own.example.com'), /development/, 'no new ones')
  t.equal(await live.say('last words'), 'own own.example.com last words')
  await gone(live.socket)
  t.match(await connectionOf(sluice, edge), { code: 'DRAINING' })
  t.equal(await other.say('x'), 'own stays.example.com x')
})

t.test('a listener that stops waits for them as long as a drain lasts', async (t) => {
  const { sluice, port, ca } = await start(t)
  const own = await tlsServer(t, 'own', ca, ['own.example.com'])
  const edge = await passthrough(sluice, ['own.example.com'], own.port)
  const live = await client(port, 'own.example.com', ca)
  const stopping = sluice.stop()
  t.equal(await live.say('during'), 'own own.example.com during')
  const over = gone(live.socket)
  t.match(await stopping, { cut: 1 })
  await over
  t.match(await connectionOf(sluice, edge), { code: 'DRAINING' })
})

t.test('a name is either passed on or ended here: the second claim is refused at the write', async (t) => {
  const { sluice } = await start(t)
  const own = await tlsServer(t, 'own', await authority('CA'), ['own.example.com'])
  const edge = await passthrough(sluice, ['own.example.com'], own.port)
  const ask = account(sluice)
  const taken = await ask('/edges/https', { method: 'POST', body: { hostports: ['own.example.com:443'] } })
  t.equal(taken.status, 409)
  t.match(taken.text, new RegExp(`hostports is taken by tcp_edge ${edge}`))
  await create(sluice, '/edges/https', { hostports: ['web.example.com:443'] })
  const body = { hostports: ['web.example.com:443'], tls: 'passthrough' }
  t.match(await ask('/edges/tcp', { method: 'POST', body }), { status: 409, text: /hostports is taken by https_edge/ })
})

t.test('what has no meaning there is refused with the reason', async (t) => {
  const { sluice } = await start(t)
  const post = (body: Record<string, unknown>) => account(sluice)('/edges/tcp', { method: 'POST', body })
  t.match(await post({ hostports: ['*.example.com:443'] }), { status: 400, text: /only with tls: passthrough/ })
  t.match(await post({ hostports: ['db.internal:443'], tls: 'passthrough' }), {
    status: 400,
    text: /must not be internal/
  })
  t.match(await post({ hostports: ['a.example.com:443'], tls: 'terminate' }), { status: 400, text: /off.*passthrough/ })
  for (const name of ['tls_termination', 'mutual_tls', 'compression', 'jwt']) {
    const refused = await post({ hostports: ['a.example.com:443'], tls: 'passthrough', [name]: { enabled: true } })
    t.match(refused, { status: 400, text: new RegExp(name) })
  }
  const open = await create(sluice, '/edges/tcp', { hostports: ['a.example.com:443'], tls: 'passthrough' })
  const patch = { method: 'PATCH', body: { hostports: ['*.example.com:443'], tls: 'off' } }
  t.match(await account(sluice)(`/edges/tcp/${open.id}`, patch), { status: 400, text: /only with tls: passthrough/ })
  t.equal(open.tls, 'passthrough')
})

t.test(
  'no request for such a name passes on a connection whose TLS ends here; without TLS it is not found or led to https',
  async (t) => {
    const { sluice, port, ca } = await start(t, { EDGES_ON_HTTP: 'redirect' })
    const own = await tlsServer(t, 'own', ca, ['own.example.com'])
    await passthrough(sluice, ['own.example.com'], own.port)
    const web = await RawUpstream.start(t, answering(OK))
    const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${web.port}` })
    await site(sluice, 'web.example.com', { backend: { backend_id: id } })
    const shown = await certificate('here', ca, ['*.example.com'])
    await create(sluice, '/tls_certificates', { certificate_pem: shown.pem, private_key_pem: shown.key })
    const h2 = session(port, 'web.example.com')
    t.match(await h2.ask('web.example.com'), { status: 200 })
    t.match(await h2.ask('own.example.com'), { status: 421, code: 'MISDIRECTED_REQUEST' })
    h2.close()
    t.match(await visit(sluice, 'own.example.com', { path: '/a?b' }), {
      status: 308,
      headers: { location: `https://own.example.com:${port}/a?b` }
    })
  }
)
