import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type ConnectionOptions, connect } from 'node:tls'
import t from 'tap'
import { account, create, site } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, THREADS_SERVE } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'
import { helloOf } from '../transport/hello-of.js'
import { type Authority, askTls, authority, certificate } from './tls-client.js'
import { client, connectionOf, gone, refusedTls, start, tlsServer } from './tls-peers.js'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const HOST = 'db.example.com'

/** Creates a TLS edge for `host` with a backend at a port of this machine. */
async function tlsEdge(
  sluice: RunningSluice,
  upstream: number,
  more: Readonly<Record<string, unknown>> = {},
  host = HOST
): Promise<string> {
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream}` })
  const body = { hostports: [`${host}:443`], backend: { backend_id: backend.id }, ...more }
  return (await create(sluice, '/edges/tls', body)).id
}

/** Gives the names a certificate. */
async function shows(sluice: RunningSluice, ca: Authority, subject: string, names: readonly string[]): Promise<void> {
  const { pem, key } = await certificate(subject, ca, names)
  await create(sluice, '/tls_certificates', { certificate_pem: pem, private_key_pem: key })
}

/** An upstream of plain bytes that answers each chunk with `got` before it. */
const echoing = (t: Parameters<typeof RawUpstream.start>[0]) =>
  RawUpstream.start(t, (peer) => peer.socket.on('data', (chunk: Buffer) => peer.socket.write(`got ${chunk}`)))

/** Connects with TLS and sends `text`; returns the answer, or an empty text if the connection ends without one. */
async function exchange(port: number, ca: Authority, options: ConnectionOptions = {}, text = 'x'): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, servername: HOST, ca: ca.pem, ...options })
  socket.on('error', () => undefined)
  socket.on('secureConnect', () => socket.write(text))
  return await new Promise((resolve) => {
    socket.once('data', (chunk: Buffer) => {
      resolve(chunk.toString())
      socket.destroy()
    })
    socket.once('close', () => resolve(''))
  })
}

t.test('TLS ends at the edge: the client sees the certificate of the name, the backend the bytes in it', async (t) => {
  const { sluice, port, ca } = await start(t)
  await shows(sluice, ca, 'here', ['*.example.com'])
  const raw = await RawUpstream.start(t)
  const edge = await tlsEdge(sluice, raw.port, {
    metadata: JSON.stringify({ name: 'the database' }),
    tls_termination: { terminate_at: 'edge' }
  })
  const web = await RawUpstream.start(t, answering(OK))
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${web.port}` })
  await site(sluice, '*.example.com', { backend: { backend_id: id } })

  const { socket, subject } = await client(port, HOST, ca, undefined, { ALPNProtocols: ['h2', 'postgresql'] })
  t.equal(subject, 'CN=here')
  t.equal(socket.alpnProtocol, false, 'Sluice does not know what the backend speaks')
  const sent = randomBytes(300_000)
  socket.write(sent)
  const peer = await raw.next()
  await peer.until((text) => text.length >= sent.length)
  t.ok(Buffer.from(peer.text, 'latin1').equals(sent), 'every byte, in order')
  peer.send('answer')
  t.equal(String(((await once(socket, 'data')) as [Buffer])[0]), 'answer')
  // Half-closes pass in both directions.
  socket.end()
  await peer.until(() => peer.ended)
  peer.end()
  await gone(socket)
  t.match(await connectionOf(sluice, edge), {
    edge,
    site: 'the database',
    port: 443,
    tls: 'TLSv1.3',
    sni: HOST,
    code: undefined,
    bytes_out: Number
  })
  t.match(await askTls(port, 'web.example.com', { ca: ca.pem }), { status: 200 }, 'the wildcard of an HTTPS edge')

  const ask = account(sluice)
  const listed = (await ask('/endpoints')).json.endpoints.find((one: { proto: string }) => one.proto === 'tls')
  t.match(listed, { type: 'edge', url: `tls://${HOST}`, edge: { id: edge, uri: new RegExp(`/edges/tls/${edge}$`) } })
  const [mapped] = (await ask('/map')).json.tcp_edges
  t.match(mapped, { id: edge, name: 'the database', protocol: 'tls', ports: [{ host: HOST, port: 443 }] })
  t.match(mapped.modules, ['tls_termination'])
})

t.test('without termination the bytes go on unchanged, however the ClientHello is cut', async (t) => {
  const { sluice, port } = await start(t)
  const raw = await RawUpstream.start(t)
  const edge = await tlsEdge(sluice, raw.port)
  const hello = await helloOf({ servername: HOST })
  const message = hello.subarray(5)
  const half = message.length >> 1
  const part = (content: Buffer) =>
    Buffer.concat([Buffer.from([22, 3, 1, content.length >> 8, content.length & 255]), content])
  const inTwoRecords = Buffer.concat([part(message.subarray(0, half)), part(message.subarray(half))])
  for (const [name, bytes, step] of [
    ['whole', hello, hello.length],
    ['in crumbs', hello, 3],
    ['in two records', inTwoRecords, 100]
  ] as const) {
    const behind = randomBytes(100_000)
    const peer = await rawClient(port)
    for (let at = 0; at < bytes.length; at += step) peer.send(bytes.subarray(at, at + step))
    peer.send(behind)
    const there = await raw.next()
    const expected = Buffer.concat([bytes, behind])
    await there.until((text) => text.length >= expected.length)
    t.ok(Buffer.from(there.text, 'latin1').equals(expected), name)
    const back = randomBytes(50_000)
    there.send(back)
    await peer.until((text) => text.length >= back.length)
    t.ok(Buffer.from(peer.text, 'latin1').equals(back), `${name}: the way back`)
    there.end()
    await peer.untilEnd()
    peer.end()
    await there.closed
  }
  t.match(await connectionOf(sluice, edge), { tls: 'passthrough', sni: HOST })
})

t.test('where TLS ends changes for new connections, while those there are go on', async (t) => {
  const { sluice, port, ca } = await start(t)
  await shows(sluice, ca, 'here', [HOST])
  const own = await tlsServer(t, 'own', ca, [HOST])
  const edge = await tlsEdge(sluice, own.port)
  const ask = account(sluice)
  const put = (path: string, body: object) => ask(`/edges/tls/${edge}${path}`, { method: 'PUT', body })
  const first = await client(port, HOST, ca)
  t.equal(first.subject, 'CN=own')

  t.match(await put('/tls_termination', { enabled: true, terminate_at: 'edge', min_version: '1.3' }), {
    status: 200,
    json: { enabled: true, terminate_at: 'edge', min_version: '1.3' }
  })
  const plain = await echoing(t)
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${plain.port}` })
  t.equal((await put('/backend', { backend_id: backend.id })).status, 200)
  const second = await client(port, HOST, ca)
  t.equal(second.subject, 'CN=here')
  t.equal(await second.say('a'), 'got a')
  t.equal(await first.say('b'), `own ${HOST} b`, 'the connection from before')
  t.equal(await exchange(port, ca, { maxVersion: 'TLSv1.2' }), '', 'TLS 1.2 is below the lowest version')
  t.match(await connectionOf(sluice, edge), { code: 'TLS_HANDSHAKE_FAILED', reason: /handshake/ })

  for (const terminate_at of ['upstream', 'agent']) {
    t.match(await put('/tls_termination', { terminate_at }), { json: { terminate_at, min_version: null } })
    t.equal((await put('/backend', { backend_id: (await backendOf(sluice, own.port)).id })).status, 200)
    t.equal((await client(port, HOST, ca)).subject, 'CN=own', terminate_at)
  }
  t.equal((await put('/tls_termination', { terminate_at: 'edge' })).status, 200)
  t.equal((await client(port, HOST, ca)).subject, 'CN=here')
  t.equal((await ask(`/edges/tls/${edge}/tls_termination`, { method: 'DELETE' })).status, 204)
  t.equal((await ask(`/edges/tls/${edge}/tls_termination`)).status, 404)
  t.equal((await client(port, HOST, ca)).subject, 'CN=own')
  t.equal(await second.say('c'), 'got c')
  t.equal((await ask(`/edges/tls/${edge}`, { method: 'DELETE' })).status, 204)
  t.match(await refusedTls(port, HOST), 'shown CN=here', 'the listener ends TLS of a name without an edge')
  await gone(second.socket)
})

const backendOf = (sluice: RunningSluice, port: number) =>
  create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })

t.test('mutual TLS: only certificates of the named authorities pass, and policies see them', async (t) => {
  const { sluice, port, ca } = await start(t)
  await shows(sluice, ca, 'here', [HOST])
  const raw = await echoing(t)
  const clients = await authority('Clients')
  const { id } = await create(sluice, '/certificate_authorities', { ca_pem: clients.pem })
  const deny = `on_tcp_connect: [{ expressions: ["conn.tls.client.subject.common_name == 'mallory'"], actions: [{ type: deny }] }]`
  const edge = await tlsEdge(sluice, raw.port, {
    mutual_tls: { certificate_authority_ids: [id] },
    traffic_policy: { value: deny }
  })
  const shown = async (name: string, issuer: Authority) => {
    const { pem, key } = await certificate(name, issuer)
    return { cert: pem, key }
  }
  t.equal(await exchange(port, ca, await shown('ann', clients)), 'got x', 'mutual_tls alone ends TLS')
  t.equal(await exchange(port, ca), '', 'no certificate')
  t.match(await sluice.line(({ msg, failure }) => msg === 'handshake failed' && failure !== undefined), {
    listener: edge,
    failure: 'certificate-missing'
  })
  t.match(await connectionOf(sluice, edge), { edge })
  t.equal(await exchange(port, ca, await shown('eve', await authority('Others'))), '', 'another authority')
  t.equal(await exchange(port, ca, await shown('mallory', clients)), '', 'refused by the policy')
  t.match(await sluice.line(({ msg, action }) => msg === 'connection' && action === 'deny'), {
    code: 'CONNECTION_REFUSED'
  })
  t.equal(raw.peers.length, 1, 'no byte of the others reached the backend')

  const ask = account(sluice)
  t.match(await ask(`/certificate_authorities/${id}`, { method: 'DELETE' }), { status: 409, text: new RegExp(edge) })
  const refused = await ask(`/edges/tls/${edge}/tls_termination`, {
    method: 'PUT',
    body: { terminate_at: 'upstream' }
  })
  t.match(refused, { status: 400, text: /CONFLICTING_FIELDS.*mutual_tls needs TLS to end at the edge/ })
  t.equal(await exchange(port, ca), '', 'a refused write changes nothing')
  t.equal((await ask(`/edges/tls/${edge}/mutual_tls`, { method: 'DELETE' })).status, 204)
  const own = await tlsServer(t, 'own', ca, [HOST])
  const body = { backend_id: (await backendOf(sluice, own.port)).id }
  t.equal((await ask(`/edges/tls/${edge}/backend`, { method: 'PUT', body })).status, 200)
  t.equal((await client(port, HOST, ca)).subject, 'CN=own', 'nothing asks for the end of TLS any more')
})

t.test(
  'a backend of TLS gets TLS of its own where TLS ended at the edge, and that of the client elsewhere',
  async (t) => {
    const { sluice, port, ca } = await start(t)
    await shows(sluice, ca, 'here', [HOST])
    const own = await tlsServer(t, 'own', ca, ['inside.example.com', HOST])
    const tls = { enabled: true, ca_pem: ca.pem, server_name: 'inside.example.com' }
    const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${own.port}`, tls })
    const edge = await create(sluice, '/edges/tls', {
      hostports: [`${HOST}:443`],
      backend: { backend_id: backend.id },
      tls_termination: {}
    })
    const ended = await client(port, HOST, ca)
    t.equal(ended.subject, 'CN=here')
    t.equal(await ended.say('x'), 'own inside.example.com x')
    await account(sluice)(`/edges/tls/${edge.id}/tls_termination`, { method: 'DELETE' })
    const passed = await client(port, HOST, ca)
    t.equal(passed.subject, 'CN=own')
    t.equal(await passed.say('x'), `own ${HOST} x`)
  }
)

t.test('an address that is not allowed gets no handshake', async (t) => {
  const { sluice, port, ca } = await start(t)
  await shows(sluice, ca, 'here', [HOST])
  const raw = await echoing(t)
  const ip = await create(sluice, '/ip_policies', {})
  await create(sluice, '/ip_policy_rules', { ip_policy_id: ip.id, cidr: '192.0.2.0/24', action: 'allow' })
  const edge = await tlsEdge(sluice, raw.port, {
    tls_termination: {},
    ip_restriction: { ip_policy_ids: [ip.id] }
  })
  t.notMatch(await refusedTls(port, HOST), /shown/)
  t.match(await connectionOf(sluice, edge), { code: 'CONNECTION_REFUSED' })
  await create(sluice, '/ip_policy_rules', { ip_policy_id: ip.id, cidr: '127.0.0.0/8', action: 'allow' })
  t.equal(await exchange(port, ca), 'got x')
})

t.test('a policy behind the edge cannot end TLS that the edge has ended: the connection is closed', async (t) => {
  const { sluice, port, ca } = await start(t)
  await shows(sluice, ca, 'here', [HOST])
  const raw = await echoing(t)
  const value = 'on_tcp_connect: [{ actions: [{ type: terminate-tls }] }]'
  const inner = await backendOf(sluice, raw.port)
  const body = { hostports: ['db.internal:5432'], backend: { backend_id: inner.id }, traffic_policy: { value } }
  await create(sluice, '/edges/tcp', body)
  const lead = 'on_tcp_connect: [{ actions: [{ type: forward-internal, config: { url: "tcp://db.internal:5432" } }] }]'
  const edge = await tlsEdge(sluice, raw.port, { tls_termination: {}, traffic_policy: { value: lead } })
  t.equal(await exchange(port, ca), '')
  t.match(await connectionOf(sluice, edge), { code: 'CONNECTION_REFUSED', action: 'terminate-tls' })
  const changed = await account(sluice)(`/edges/tls/${edge}`, {
    method: 'PATCH',
    body: { tls_termination: { terminate_at: 'upstream' } }
  })
  t.equal(changed.status, 200, changed.text)
  t.equal(await exchange(port, ca), 'got x', 'there the policy alone ends it')
})

/** A client that closes its side when the other one does. */
async function closing(port: number) {
  const peer = await rawClient(port)
  peer.socket.on('end', () => peer.end())
  return peer
}

t.test('a ClientHello that is malformed, cut off, too large or never ends reaches no backend', async (t) => {
  const { sluice, port } = await start(t, { TIMEOUTS_HEADERS: '1s' })
  const raw = await RawUpstream.start(t)
  await tlsEdge(sluice, raw.port)
  await tlsEdge(sluice, raw.port, { tls_termination: {} }, 'ended.example.com')
  const good = await helloOf({ servername: HOST })
  const length = (size: number) => [size >> 8, size & 255]
  const cases: Readonly<Record<string, Buffer>> = {
    'plain text': Buffer.from('GET / HTTP/1.1\r\nhost: db.example.com\r\n\r\n'),
    'another record': Buffer.from([23, 3, 3, 0, 1, 0]),
    'an empty record': Buffer.from([22, 3, 1, 0, 0]),
    'another message': Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0]),
    'a name that is cut': Buffer.concat([
      good.subarray(0, 3),
      Buffer.from(length(good.length - 6)),
      good.subarray(5, -1)
    ]),
    'a message of 16 MB': Buffer.from([22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff]),
    'a record that is too large': Buffer.from([22, 3, 1, 0xff, 0xff, 1]),
    zeros: Buffer.alloc(20_000)
  }
  for (const [name, bytes] of Object.entries(cases)) {
    const peer = await closing(port)
    peer.send(bytes)
    await peer.closed
    t.equal(peer.text.length <= 7, true, `${name}: at most an alert`)
  }
  for (const [name, bytes] of Object.entries({
    'half a header': good.subarray(0, 3),
    'half a hello': good.subarray(0, good.length >> 1),
    'a message whose rest never comes': Buffer.from([22, 3, 1, 0, 4, 1, 0, 0x30, 0])
  })) {
    const peer = await closing(port)
    peer.send(bytes)
    await peer.closed
    t.equal(peer.text, '', `${name}: closed at the deadline`)
  }
  const left = await closing(port)
  left.send(good.subarray(0, 50))
  left.reset()
  await left.closed
  const metrics = (await account(sluice)('/metrics')).text
  t.match(metrics, /sluice_handshake_failures_total\{reason="timeout"\} [3-9]/)
  t.equal(raw.peers.length, 0)
})

t.test('a client that does not end the handshake at the edge is closed at the deadline', async (t) => {
  const { sluice, port } = await start(t, { TIMEOUTS_HEADERS: '1s' })
  const raw = await RawUpstream.start(t)
  const edge = await tlsEdge(sluice, raw.port, { tls_termination: {} })
  const peer = await closing(port)
  peer.send(await helloOf({ servername: HOST }))
  await peer.closed
  t.equal(peer.text.charCodeAt(0), 22, 'it got a ServerHello')
  t.match(await connectionOf(sluice, edge), { code: 'TLS_HANDSHAKE_FAILED', sni: HOST, tls: undefined })
  t.equal(raw.peers.length, 0)
  const unnamed = sluice.log.filter(({ msg }) => /^no certificate for this name/.test(String(msg)))
  t.match(unnamed, [{ edge, name: HOST }], 'the certificate that it saw is that of development')
})

t.test(
  'a host and port belongs to one edge or endpoint of any kind; the nearest name has the connection',
  async (t) => {
    const { sluice, port, ca } = await start(t)
    const ask = account(sluice)
    const own = await tlsServer(t, 'own', ca, ['*.example.com'])
    const edge = await tlsEdge(sluice, own.port)
    const hostports = [`${HOST}:443`]
    const post = (path: string, body: object) => ask(path, { method: 'POST', body })
    const taken = { status: 409, text: new RegExp(`ALREADY_EXISTS.*is taken by tls_edge ${edge}.*one edge`) }
    t.match(await post('/edges/https', { hostports }), taken)
    t.match(await post('/edges/tls', { hostports }), taken)
    t.match(await post('/edges/tcp', { hostports, tls: 'passthrough' }), taken)
    t.match(await post('/endpoints', { url: `tls://${HOST}`, traffic_policy: 'on_tcp_connect: []' }), taken)
    t.match(await post('/endpoints', { url: `https://${HOST}`, traffic_policy: 'on_http_request: []' }), taken)
    const web = await RawUpstream.start(t, answering(OK))
    const { id } = await backendOf(sluice, web.port)
    await site(sluice, '*.example.com', { backend: { backend_id: id } })
    await create(sluice, '/edges/https', { hostports: [`${HOST}:8443`] })
    t.equal((await client(port, HOST, ca)).subject, 'CN=own')
    t.match(await askTls(port, 'a.example.com'), { status: 200 })
    const wild = await tlsEdge(sluice, own.port, {}, '*.b.example.com')
    t.equal((await client(port, 'a.b.example.com', ca, undefined, { rejectUnauthorized: false })).subject, 'CN=own')
    const domain = await create(sluice, '/reserved_domains', { domain: HOST })
    const kept = await ask(`/reserved_domains/${domain.id}`, { method: 'DELETE' })
    t.match(kept, { status: 409, text: new RegExp(`IN_USE.*tls_edge ${edge}`) })
    t.match(await ask(`/edges/tls/${wild}`), { json: { hostports: ['*.b.example.com:443'] } })
  }
)

t.test('a cloud endpoint of tls:// passes its connections to its policy', async (t) => {
  const { sluice, port, ca } = await start(t)
  const raw = await echoing(t)
  await shows(sluice, ca, 'here', ['cloud.example.com'])
  const backend = await backendOf(sluice, raw.port)
  await create(sluice, '/edges/tcp', { hostports: ['db.internal:5432'], backend: { backend_id: backend.id } })
  const actions = [{ type: 'terminate-tls' }, { type: 'forward-internal', config: { url: 'tcp://db.internal:5432' } }]
  await create(sluice, '/endpoints', {
    url: 'tls://cloud.example.com',
    traffic_policy: JSON.stringify({ on_tcp_connect: [{ actions }] })
  })
  const { subject, say } = await client(port, 'cloud.example.com', ca)
  t.equal(subject, 'CN=here')
  t.equal(await say('x'), 'got x')
})

t.test('worker threads serve TLS edges the same way', { skip: !THREADS_SERVE }, async (t) => {
  const { sluice, port, ca } = await start(t, {}, undefined, 2)
  await shows(sluice, ca, 'here', ['*.example.com'])
  const clients = await authority('Clients')
  const { id } = await create(sluice, '/certificate_authorities', { ca_pem: clients.pem })
  const plain = await echoing(t)
  const own = await tlsServer(t, 'own', ca, ['own.example.com'])
  await tlsEdge(sluice, own.port, {}, 'own.example.com')
  const edge = await tlsEdge(sluice, plain.port, { mutual_tls: { certificate_authority_ids: [id] } })
  const { pem, key } = await certificate('ann', clients)
  for (let n = 0; n < 4; n++) {
    t.equal(await exchange(port, ca, { cert: pem, key }), 'got x')
    t.equal(await exchange(port, ca), '')
    t.equal((await client(port, 'own.example.com', ca)).subject, 'CN=own')
  }
  const ask = account(sluice)
  t.equal((await ask(`/edges/tls/${edge}/mutual_tls`, { method: 'DELETE' })).status, 204)
  t.equal((await ask(`/edges/tls/${edge}/tls_termination`, { method: 'PUT', body: {} })).status, 200)
  for (let n = 0; n < 4; n++) t.equal(await exchange(port, ca), 'got x', 'every thread has the change')
})
