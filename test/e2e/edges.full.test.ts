import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { account, create } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { startSluice } from '../helpers/sluice.js'
import { freePort } from '../proxy/free-port.js'
import { authority, certificate } from '../proxy/tls-client.js'
import { installed, run } from './tool.js'

/** Sends back what comes. A client that breaks off is no matter. */
function echoed(socket: Socket): void {
  socket.on('error', () => socket.destroy())
  socket.pipe(socket)
}

const missing = ['curl', 'openssl'].filter((program) => !installed(program))
const skip = missing.length === 0 ? {} : { skip: `not installed: ${missing.join(', ')}` }

t.test('a TCP edge from its creation to its end', async (t) => {
  const sluice = await startSluice(t)
  const call = account(sluice)
  const echo = createTcpServer(echoed)
  echo.listen(0, '127.0.0.1')
  await once(echo, 'listening')
  t.teardown(() => echo.close())
  const backend = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${(echo.address() as AddressInfo).port}`
  })
  const office = await create(sluice, '/ip_policies', { description: 'office' })
  const everybody = { ip_policy_id: office.id, cidr: '127.0.0.0/8', action: 'allow' }
  const allowed = await create(sluice, '/ip_policy_rules', everybody)
  const port = await freePort()
  const edge = await create(sluice, '/edges/tcp', {
    description: 'database',
    hostports: [`db.example.com:${port}`],
    backend: { enabled: true, backend_id: backend.id },
    ip_restriction: { enabled: true, ip_policy_ids: [office.id] },
    traffic_policy: { enabled: true, value: '{"on_tcp_connect": []}' }
  })
  t.match(edge, {
    hostports: [`db.example.com:${port}`],
    backend: { enabled: true, backend: { id: backend.id, uri: String } },
    ip_restriction: { enabled: true, ip_policies: [{ id: office.id }] },
    policy: null
  })
  const echoes = async (): Promise<boolean> => {
    const client = await rawClient(port)
    client.send('ping')
    try {
      await client.until('ping')
      return true
    } catch {
      // It was closed before it echoed.
      return false
    } finally {
      client.reset()
    }
  }
  /** A refused client sees the end, not an echo. */
  const refused = async (): Promise<boolean> => {
    const client = await rawClient(port)
    await client.untilEnd()
    return client.text === ''
  }
  t.equal(await echoes(), true)
  t.equal((await call(`/ip_policy_rules/${allowed.id}`, { method: 'DELETE' })).status, 204)
  t.equal(await refused(), true, 'zero rules refuse everybody at the next connection')
  t.equal((await call(`/edges/tcp/${edge.id}/ip_restriction`, { method: 'DELETE' })).status, 204)
  t.equal(await echoes(), true)
  const deny = { enabled: true, value: 'on_tcp_connect: [{ actions: [{ type: deny }] }]' }
  t.match(await call(`/edges/tcp/${edge.id}/traffic_policy`, { method: 'PUT', body: deny }), {
    status: 200,
    json: deny
  })
  t.equal(await refused(), true)
  const off = { traffic_policy: { ...deny, enabled: false } }
  t.match(await call(`/edges/tcp/${edge.id}`, { method: 'PATCH', body: off }), { status: 200, json: off })
  t.equal(await echoes(), true, 'a module that is off does nothing')
  t.match(await call('/edges/tcp', { method: 'POST', body: { hostports: [`other.example.com:${port}`] } }), {
    status: 409,
    json: { error_code: 'ERR_SLUICE_PORT_IN_USE' }
  })
  t.equal((await call(`/edges/tcp/${edge.id}`, { method: 'DELETE' })).status, 204)
  await t.rejects(rawClient(port), { code: 'ECONNREFUSED' })
})

t.test('an HTTPS edge with its routes, as curl and openssl see it', skip, async (t) => {
  const port = await freePort()
  const sluice = await startSluice(t, { options: { LISTENERS: `https://127.0.0.1:${port}` } })
  const call = account(sluice)
  const server = createServer((request, response) =>
    response.end(`${request.headers['x-forwarded-proto']} ${request.url}`)
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const backend = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  const fixed = await create(sluice, '/backends/http_response', { status_code: 404, body: 'nothing here' })
  const ca = await authority('Shop CA')
  const shop = await certificate('shop.example.com', ca, ['shop.example.com'])
  const uploaded = await create(sluice, '/tls_certificates', { certificate_pem: shop.pem, private_key_pem: shop.key })
  await create(sluice, '/reserved_domains', { domain: 'shop.example.com', certificate_id: uploaded.id })
  const edge = await create(sluice, '/edges/https', { hostports: ['shop.example.com:443'] })
  const routes = `/edges/https/${edge.id}/routes`
  const route = await create(sluice, routes, {
    match_type: 'path_prefix',
    match: '/api',
    backend: { enabled: true, backend_id: backend.id }
  })
  await create(sluice, routes, {
    match_type: 'path_prefix',
    match: '/',
    backend: { enabled: true, backend_id: fixed.id }
  })
  const folder = t.testdir({})
  const file = async (name: string, text: string) => {
    await writeFile(join(folder, name), text)
    return join(folder, name)
  }
  const caFile = await file('ca.pem', ca.pem)
  const curl = async (path: string, ...more: string[]) => {
    const resolve = ['--resolve', `shop.example.com:${port}:127.0.0.1`, '--cacert', caFile]
    const words = ['-sS', ...resolve, '-w', ' %{http_code} %{http_version}', ...more]
    return await run('curl', [...words, `https://shop.example.com:${port}${path}`])
  }
  t.equal((await curl('/api/a', '--http2')).out, 'https /api/a 200 2')
  t.equal((await curl('/api', '--http1.1')).out, 'https /api 200 1.1')
  t.equal((await curl('/apis', '--http2')).out, 'nothing here 404 2', 'prefixes end on segments')
  t.equal((await curl('/api/a', '--tls-max', '1.2')).out, 'https /api/a 200 2')
  const limit = 'on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 451, body: no } }] }]'
  await call(`${routes}/${route.id}/traffic_policy`, { method: 'PUT', body: { enabled: true, value: limit } })
  t.equal((await curl('/api/a')).out, 'no 451 2', 'a policy is live at the next request')
  t.equal((await call(`${routes}/${route.id}/traffic_policy`, { method: 'DELETE' })).status, 204)

  const openssl = (...words: string[]) =>
    run('openssl', ['s_client', '-connect', `127.0.0.1:${port}`, '-servername', 'shop.example.com', ...words])
  const shown = await openssl(
    '-CAfile',
    caFile,
    '-verify_return_error',
    '-verify_hostname',
    'shop.example.com',
    '-alpn',
    'h2,http/1.1'
  )
  t.match(shown.out, /Verify return code: 0 \(ok\)/)
  t.match(shown.out, /ALPN protocol: h2/)
  t.notMatch((await openssl('-tls1_1', '-cipher', 'DEFAULT:@SECLEVEL=0')).out, /Cipher is (?!\(NONE\))/)

  const clients = await authority('Clients')
  const trusted = await create(sluice, '/certificate_authorities', { ca_pem: clients.pem })
  const mutual = { mutual_tls: { enabled: true, certificate_authority_ids: [trusted.id] } }
  t.equal((await call(`/edges/https/${edge.id}`, { method: 'PATCH', body: mutual })).status, 200)
  t.not((await curl('/api/a')).code, 0, 'without a certificate there is no answer')
  const alice = await certificate('alice', clients)
  const [cert, key] = [await file('alice.pem', alice.pem), await file('alice.key', alice.key)]
  t.equal((await curl('/api/a', '--cert', cert, '--key', key)).out, 'https /api/a 200 2')
  t.equal((await call(`/edges/https/${edge.id}`, { method: 'DELETE' })).status, 204)
  t.match(
    (await curl('/api/a')).out,
    /^404 Not Found\ncode: NO_ROUTE\n[\s\S]* 404 2$/,
    'without the edge its host is nobody’s'
  )
})

t.test('what is open on an edge that nobody changes survives every write', async (t) => {
  const writes = process.env.SLUICE_TEST_LONG === undefined ? 300 : 10_000
  // What is open says nothing for as long as the writes take, which on a busy machine is longer than silence is allowed.
  const sluice = await startSluice(t, { options: { TIMEOUTS_IDLE: '1h' } })
  const call = account(sluice)
  const server = createServer((_request, response) => response.write('first'))
  server.on('upgrade', (_request, socket) => {
    socket.on('error', () => socket.destroy())
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  const echo = createTcpServer(echoed)
  echo.listen(0, '127.0.0.1')
  await Promise.all([once(server, 'listening'), once(echo, 'listening')])
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
    echo.close()
  })
  const at = ({ port }: { port: number }) => create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  const [web, tcp] = [await at(server.address() as AddressInfo), await at(echo.address() as AddressInfo)]
  const edge = await create(sluice, '/edges/https', { hostports: ['still.example.com:443'] })
  const from = (id: string) => ({ backend: { enabled: true, backend_id: id } })
  await create(sluice, `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', ...from(web.id) })
  const port = await freePort()
  await create(sluice, '/edges/tcp', { hostports: [`still.example.com:${port}`], ...from(tcp.id) })

  const [socket, download, pipe] = [await rawClient(sluice.port), await rawClient(sluice.port), await rawClient(port)]
  socket.send(
    'GET / HTTP/1.1\r\nHost: still.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
  )
  await socket.until('101 Switching')
  let response: { write(text: string): unknown } | undefined
  server.once('request', (_request, answer) => {
    response = answer
  })
  download.send('GET / HTTP/1.1\r\nHost: still.example.com\r\n\r\n')
  await download.until('first')
  pipe.send('<before>')
  await pipe.until('<before>')

  for (let i = 0; i < writes; i += 6) {
    const other = await create(sluice, '/edges/https', { hostports: [`h${i}.example.com:443`] })
    const route = await create(sluice, `/edges/https/${other.id}/routes`, {
      match_type: 'path_prefix',
      match: '/',
      ...from(web.id)
    })
    const moving = await create(sluice, '/edges/tcp', {
      hostports: [`m.example.com:${await freePort()}`],
      ...from(tcp.id)
    })
    await call(`/edges/https/${other.id}/routes/${route.id}`, { method: 'PATCH', body: { description: 'changed' } })
    await call(`/edges/tcp/${moving.id}`, { method: 'DELETE' })
    await call(`/edges/https/${other.id}`, { method: 'DELETE' })
  }
  for (const [one, text] of [
    [socket, '<after>'],
    [pipe, '<after>']
  ] as const) {
    one.send(text)
    await one.until(text)
  }
  response?.write('second')
  await download.until('second')
  t.equal(socket.ended || pipe.ended || download.ended, false)
  for (const one of [socket, pipe, download]) one.reset()
})
