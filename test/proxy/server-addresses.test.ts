import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { makeServerCertificate } from '../../src/lib/self-signed.js'
import { proxyHeader } from '../../src/transport/proxy-protocol.js'
import { account, create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'

const LOOPBACK = { address: '127.0.0.1', port: 1 }
const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

t.test('names with underscores stand wherever a host stands', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const upstream = await RawUpstream.start(t, answering(OK))
  const { id } = await create(sluice, '/backends/static', { address: `my_app.localhost:${upstream.port}` })
  await site(sluice, 'shop_1.example.com', { backend: { backend_id: id } })
  t.match(await visit(sluice, 'shop_1.example.com'), { status: 200, body: 'ok' })
  t.equal((await create(sluice, '/backends/static', { address: 'Stack_web:3000' })).address, 'stack_web:3000')
  const domain = await create(sluice, '/reserved_domains', { domain: 'a_b.example.com' })
  const managed = { certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'ecdsa' } }
  t.match(await ask(`/reserved_domains/${domain.id}`, { method: 'PATCH', body: managed }), {
    status: 400,
    json: { msg: /the domain has an underscore, and public authorities sign no such name/ }
  })
  for (const address of ['-a:80', 'a-:80', 'a b:80', 'a$b:80'])
    t.equal((await ask('/backends/static', { method: 'POST', body: { address } })).status, 400, address)
})

/** An upstream at a Unix domain socket, which answers with Host and target; answers its path. */
async function socketUpstream(t: Test): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-socket-'))
  const path = join(folder, 'app.sock')
  const server = createServer((request, response) => response.end(`${request.headers.host} ${request.url}`))
  server.listen(path)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return path
}

t.test('an upstream at a Unix domain socket, with checks and without', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const path = await socketUpstream(t)
  const health = { interval: 0.1, timeout: 1 }
  const made = await create(sluice, '/backends/static', { address: `unix:${path}`, health })
  t.equal(made.address, `unix:${path}`)
  await site(sluice, 'a.example.com', { backend: { backend_id: made.id } })
  t.match(await visit(sluice, 'a.example.com', { path: '/x?y' }), { status: 200, body: 'a.example.com /x?y' })
  const gone = await create(sluice, '/backends/static', { address: `unix:${path}.gone` })
  await site(sluice, 'b.example.com', { backend: { backend_id: gone.id } })
  t.match(await visit(sluice, 'b.example.com'), {
    status: 502,
    headers: { 'sluice-error-code': /UPSTREAM_UNREACHABLE|UPSTREAM/ }
  })
  for (const address of ['unix:', 'unix:run/app', `unix:/${'a'.repeat(107)}`, 'unix:/a:/b', 'unix:/a b'])
    t.match(
      await ask('/backends/static', { method: 'POST', body: { address } }),
      { status: 400, json: { msg: /unix: and an absolute path/ } },
      address
    )
})

t.test('the option upstream names a Unix domain socket, with a path or without, or a URL with a path', async (t) => {
  const path = await socketUpstream(t)
  const lines: string[] = []
  const upstream = await RawUpstream.start(t, async (peer) => {
    lines.push((await peer.request()).line)
    peer.socket.write(OK)
  })
  const cases: [option: string, body: string][] = [
    [`http://unix:${path}`, 'any.example.com /x?y'],
    [`unix://${path}:/base/`, 'any.example.com /base/x?y'],
    [`http://127.0.0.1:${upstream.port}/base`, 'ok']
  ]
  for (const [option, body] of cases) {
    const sluice = await startSluice(t, { options: { UPSTREAM: option } })
    t.match(await visit(sluice, 'any.example.com', { path: '/x?y' }), { status: 200, body }, option)
  }
  t.same(lines, ['GET /base/x?y HTTP/1.1'])
})

t.test('only an administrator leads traffic to a Unix domain socket', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const bot = await create(sluice, '/bot_users', { name: 'member' })
  const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
  const own = await create(sluice, '/backends/static', { address: 'unix:/run/app.sock' })
  const asMember = (method: string, path: string, body: object) => ask(path, { method, body, key: token })
  const refused = { status: 403, json: { msg: /only an administrator may send traffic to a Unix domain socket/ } }
  t.match(await asMember('POST', '/backends/static', { address: 'unix:/var/run/docker.sock' }), refused)
  const other = await create(sluice, '/backends/static', { address: '127.0.0.1:1' })
  t.match(await asMember('PATCH', `/backends/static/${other.id}`, { address: 'unix:/var/run/docker.sock' }), refused)
  t.match(await asMember('PATCH', `/backends/static/${own.id}`, { address: 'unix:/var/run/docker.sock' }), refused)
  t.equal((await asMember('PATCH', `/backends/static/${own.id}`, { description: 'x' })).status, 200)
  t.equal((await asMember('PATCH', `/backends/static/${other.id}`, { address: '127.0.0.1:2' })).status, 200)
})

t.test('the path of a server stands before that of requests', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const lines: string[] = []
  const upstream = await RawUpstream.start(t, async (peer) => {
    for (;;) {
      lines.push((await peer.request()).line)
      peer.socket.write(OK)
    }
  })
  const address = `127.0.0.1:${upstream.port}`
  for (const [index, path] of ['/base', '/base/', '/'].entries()) {
    const { id } = await create(sluice, '/backends/static', { address, path })
    await site(sluice, `p${index}.example.com`, { backend: { backend_id: id } })
    for (const asked of ['/', '/x/../y?z=%2e', '/../../etc'])
      await visit(sluice, `p${index}.example.com`, { path: asked })
  }
  await visit(sluice, 'p0.example.com', { path: '*', method: 'OPTIONS' })
  const based = ['GET /base/ HTTP/1.1', 'GET /base/y?z=. HTTP/1.1', 'GET /base/etc HTTP/1.1']
  t.same(lines, [...based, ...based, ...based.map((line) => line.replace('/base', '')), 'OPTIONS * HTTP/1.1'])
  for (const path of ['base', '/a?b', '/a#b', '/a%2fb', '/a%'])
    t.equal((await ask('/backends/static', { method: 'POST', body: { address, path } })).status, 400, path)
})

t.test('a header of the PROXY protocol begins each connection, before TLS, too', async (t) => {
  const sluice = await startSluice(t)
  for (const proxy_protocol of ['v1', 'v2']) {
    const upstream = await RawUpstream.start(t, async (peer) => {
      await peer.until((text) => text.includes('GET /'))
      peer.socket.write(OK)
    })
    const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}`, proxy_protocol })
    await site(sluice, `${proxy_protocol}.example.com`, { backend: { backend_id: id } })
    for (let i = 0; i < 2; i++)
      t.match(await visit(sluice, `${proxy_protocol}.example.com`), { status: 200, body: 'ok' })
    t.equal(upstream.peers.length, 2, 'no connection is shared')
    const header = proxyHeader(proxy_protocol === 'v1' ? 1 : 2, LOOPBACK, { ...LOOPBACK, port: sluice.port })
    const said = header.toString('latin1').replace(/ 1 /, ' ')
    for (const { text } of upstream.peers) {
      // The port of the client is any.
      const came =
        proxy_protocol === 'v1' ? text.replace(/ \d+ (?=\d+\r)/, ' ') : `${text.slice(0, 24)}\0\x01${text.slice(26)}`
      t.ok(came.startsWith(`${said}GET /`), JSON.stringify(came.slice(0, 80)))
    }
  }
  const secret = await RawUpstream.start(t)
  const { id } = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${secret.port}`,
    proxy_protocol: 'v1',
    tls: { enabled: true },
    timeouts: { connect: 0.5 }
  })
  await site(sluice, 'tls.example.com', { backend: { backend_id: id } })
  await visit(sluice, 'tls.example.com')
  t.match(secret.peers[0]?.text.replaceAll('\x16', 'handshake'), /^PROXY TCP4 [^\r]+\r\nhandshake/)
})

t.test('TLS without a check of the certificate is logged', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const now = Date.now()
  const own = await makeServerCertificate('CN=x', ['x.test'], { now, life: 86_400_000 })
  const upstream = await RawUpstream.start(t, answering(OK), own)
  const backend = (tls: object) => ({ address: `127.0.0.1:${upstream.port}`, tls: { enabled: true, ...tls } })
  const { id } = await create(sluice, '/backends/static', backend({}))
  await site(sluice, 'a.example.com', { backend: { backend_id: id } })
  t.equal((await visit(sluice, 'a.example.com')).status, 502)
  const warned = () => sluice.log.filter(({ msg }) => String(msg).startsWith('tls.verify is off')).length
  t.equal(warned(), 0)
  await ask(`/backends/static/${id}`, { method: 'PATCH', body: { tls: { enabled: true, verify: 'off' } } })
  t.match(await visit(sluice, 'a.example.com'), { status: 200, body: 'ok' })
  t.equal(warned(), 1)
  await ask(`/backends/static/${id}`, { method: 'PATCH', body: { description: 'the same' } })
  t.match(
    await ask('/backends/static', {
      method: 'POST',
      body: backend({ verify: 'off', pins: [`certificate:${'a'.repeat(64)}`] })
    }),
    { status: 400, json: { msg: /verify off does not go with pins/ } }
  )
})

t.test('a lenient backend takes answers that break the grammar, and is logged', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const old = 'HTTP/1.2  200 OK\nX-Old: a\n b\nContent-Length: 2\nContent-Length: 2\n\nok'
  const upstream = await RawUpstream.start(t, answering(old))
  const backend = { address: `127.0.0.1:${upstream.port}`, health: { interval: 0.1, timeout: 1 } }
  const { id } = await create(sluice, '/backends/static', backend)
  await site(sluice, 'a.example.com', { backend: { backend_id: id } })
  const refused = { status: 502, headers: { 'sluice-error-code': 'UPSTREAM_MALFORMED' } }
  t.match(await visit(sluice, 'a.example.com'), refused)
  const warned = () => sluice.log.filter(({ msg }) => String(msg).startsWith('lenient is on')).length
  t.equal(warned(), 0)
  t.match(await ask(`/backends/static/${id}`, { method: 'PATCH', body: { lenient: true } }), {
    json: { lenient: true }
  })
  t.match(await visit(sluice, 'a.example.com'), { status: 200, body: 'ok', headers: { 'x-old': 'a b' } })
  t.equal(warned(), 1)
  await ask(`/backends/static/${id}`, { method: 'PATCH', body: { lenient: false } })
  t.match(await visit(sluice, 'a.example.com'), refused)
})

t.test('path_form: exact sends path and query byte for byte, and policies decide on the normal form', async (t) => {
  const sluice = await startSluice(t)
  const lines: string[] = []
  const upstream = await RawUpstream.start(t, async (peer) => {
    for (;;) {
      lines.push((await peer.request()).line)
      peer.socket.write(OK)
    }
  })
  const value =
    'on_http_request:\n  - expressions: ["req.url.path.startsWith(\'/admin\')"]\n    actions: [{ type: deny }]\n' +
    "  - expressions: [\"req.url.path == '/old'\"]\n    actions: [{ type: url-rewrite, config: { from: /old, to: '/new%2fx' } }]\n"
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const based = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}`, path: '/base' })
  for (const [host, backend] of [
    ['a.example.com', id],
    ['b.example.com', based.id]
  ] as const) {
    const { edge } = await site(sluice, host, { backend: { backend_id: backend }, traffic_policy: { value } })
    await account(sluice)(edge, { method: 'PATCH', body: { path_form: 'exact' } })
  }
  const came = ['/%61/b%2fc%2F', '/a//b/./c?x=%7e&y=%2f', '/x/../y', '/?q={%zz}', '/plain?x']
  for (const path of came) t.equal((await visit(sluice, 'a.example.com', { path })).status, 200, path)
  t.same(
    lines.splice(0),
    came.map((path) => `GET ${path} HTTP/1.1`)
  )
  for (const path of ['/%61dmin', '/x/../admin', '/./admin?x'])
    t.equal((await visit(sluice, 'a.example.com', { path })).status, 403, path)
  t.same(lines, [])
  await visit(sluice, 'b.example.com', { path: '/%61?%7e' })
  await visit(sluice, 'a.example.com', { path: '/o%6cd' })
  t.same(lines, ['GET /base/%61?%7e HTTP/1.1', 'GET /new%2fx HTTP/1.1'])
})
