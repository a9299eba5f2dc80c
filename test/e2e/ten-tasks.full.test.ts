import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, request } from 'node:http'
import { request as requestTls } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { connect, createServer as createTlsServer } from 'node:tls'
import t, { type Test } from 'tap'
import { makeServerCertificate } from '../../src/lib/self-signed.js'
import { startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'
import { tasksOf } from './ten-tasks.js'

/** Runs every `sluice.yaml` of docs/ten-tasks.md as it stands there, with free ports in place of its own. */
const tasks = await tasksOf('ten-tasks.md')

async function listening(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** An upstream that answers with its name and the path, or with the text of `own`; a header of its request comes back. */
function upstream(t: Test, name: string, own: () => Readonly<Record<string, string>> = () => ({})): Promise<number> {
  const server = createServer(({ url = '', headers }, response) => {
    response.setHeader('x-powered-by', name)
    response.setHeader('content-type', 'text/plain')
    response.end(own()[url] ?? `${name} ${url} ${headers['x-shop'] ?? ''}`.trim())
  })
  return listening(t, server)
}

interface Asked {
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly tls?: boolean
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

interface Stand {
  /** Port of clients without TLS, and with it. */
  readonly plain: number
  readonly secure: number
  ask(host: string, asked?: Asked): Promise<Answer>
}

/** Starts the product with the site file of task `number`. `ports`: real ports by the ports of the page. */
async function started(
  t: Test,
  number: number,
  ports: Readonly<Record<string, number>>,
  files: Readonly<Record<string, string>> = {},
  change: (text: string) => string = (text) => text
): Promise<Stand> {
  const secure = await freePort()
  const text = change(tasks[number - 1]?.files.get('sluice.yaml') ?? '')
    .replace(/http:\/\/0\.0\.0\.0:80(, )?/, '')
    .replace('https://0.0.0.0:443', `https://127.0.0.1:${secure}`)
    .replace('{ env: CLIENT_SECRET }', '{ file: secret }')
    .replaceAll(/127\.0\.0\.1:(\d+)/g, (all, port) => (port in ports ? `127.0.0.1:${ports[port]}` : all))
  const cwd = t.testdir({})
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(cwd, name, '..'), { recursive: true })
    await writeFile(join(cwd, name), content)
  }
  await writeFile(join(cwd, 'sluice.yaml'), text)
  const options = { SITE_FILE: join(cwd, 'sluice.yaml'), OUTBOUND_ALLOW_PRIVATE: 'on' }
  const { port: plain } = await startSluice(t, { options })
  return { plain, secure, ask: (host, asked = {}) => ask(asked.tls === true ? secure : plain, host, asked) }
}

function ask(port: number, host: string, { path = '/', headers = {}, tls = false }: Asked): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const about = { host: '127.0.0.1', port, path, headers: { host, ...headers }, agent: false as const }
    const sent = tls ? requestTls({ ...about, servername: host, rejectUnauthorized: false }) : request(about)
    sent.on('response', (response) => {
      let text = ''
      response.setEncoding('latin1').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
    })
    sent.on('error', reject)
    sent.end()
  })
}

const SHOP = 'shop.example.com'
const certificateOf = (name: string) =>
  makeServerCertificate(`CN=${name}`, [name], { now: Date.now(), life: 86_400_000 })

async function certificateFiles(): Promise<Record<string, string>> {
  const { cert, key } = await certificateOf(SHOP)
  return { 'tls/shop.pem': cert, 'tls/shop.key': key }
}

t.test('1. reverse proxy to a local server', async (t) => {
  const { ask } = await started(t, 1, { 3000: await upstream(t, 'local') })
  t.match(await ask('any.example.com', { path: '/a?b=c' }), { status: 200, text: 'local /a?b=c' })
})

t.test('2. several sites by host', async (t) => {
  const { ask } = await started(t, 2, { 3000: await upstream(t, 'shop'), 3001: await upstream(t, 'blog') })
  t.match(await ask(SHOP), { status: 200, text: 'shop /' })
  t.match(await ask('blog.example.com'), { status: 200, text: 'blog /' })
  t.equal((await ask('other.example.com')).status, 404)
})

t.test('3. path routes with the prefix stripped', async (t) => {
  const { ask } = await started(t, 3, { 3000: await upstream(t, 'shop'), 3001: await upstream(t, 'api') })
  t.match(await ask(SHOP, { path: '/api/users' }), { status: 200, text: 'api /users' })
  t.match(await ask(SHOP, { path: '/apiary' }), { status: 200, text: 'shop /apiary' })
})

t.test('4. HTTPS with a certificate of your own', async (t) => {
  const { ask, secure } = await started(t, 4, { 3000: await upstream(t, 'shop') }, await certificateFiles())
  t.match(await ask(SHOP, { tls: true }), { status: 200, text: 'shop /' })
  t.match(await ask(SHOP, { path: '/cart' }), {
    status: 308,
    headers: { location: `https://${SHOP}:${secure}/cart` }
  })
})

t.test('5. basic authentication', async (t) => {
  const { ask } = await started(t, 5, { 3000: await upstream(t, 'shop') })
  const as = (user: string) => ({ headers: { authorization: `Basic ${Buffer.from(user).toString('base64')}` } })
  t.match(await ask(SHOP), { status: 401, headers: { 'www-authenticate': /^Basic/ } })
  t.equal((await ask(SHOP, as('ann:wrong'))).status, 401)
  t.match(await ask(SHOP, as('ann:secret')), { status: 200, text: 'shop /' })
})

t.test('6. IP allow list', async (t) => {
  const ports = { 3000: await upstream(t, 'shop') }
  const { ask } = await started(t, 6, ports)
  t.match(await ask(SHOP), { status: 200, text: 'shop /' })
  const outside = await started(t, 6, ports, {}, (text) => text.replace(', 127.0.0.1]', ']'))
  t.equal((await outside.ask(SHOP)).status, 403)
})

t.test('7. rate limit for each key', async (t) => {
  const { ask } = await started(t, 7, { 3000: await upstream(t, 'api') })
  const status = async (key: string) => (await ask('api.example.com', { headers: { 'x-api-key': key } })).status
  const statuses: number[] = []
  for (let n = 0; n < 102; n++) statuses.push(await status('one'))
  t.same([statuses.indexOf(429), statuses.lastIndexOf(200)], [100, 99])
  t.equal(await status('two'), 200)
  t.equal((await ask('api.example.com')).status, 401)
})

t.test('8. headers, strip prefix and redirect', async (t) => {
  const { ask } = await started(t, 8, { 3000: await upstream(t, 'shop'), 3001: await upstream(t, 'api') })
  const { headers, text } = await ask(SHOP)
  t.equal(text, 'shop / main')
  t.match(headers, { 'x-frame-options': 'DENY', 'x-powered-by': undefined })
  t.match(await ask(SHOP, { path: '/api/users' }), { status: 200, text: 'api /users main' })
  t.match(await ask(SHOP, { path: '/old' }), { status: /^30[1278]$/, headers: { location: '/new' } })
})

t.test('9. single-page application', async (t) => {
  const { ask } = await started(t, 9, {}, { 'dist/index.html': '<p>app</p>', 'dist/app.js': 'run()' })
  t.match(await ask('app.example.com', { path: '/app.js' }), { status: 200, text: 'run()' })
  t.match(await ask('app.example.com', { path: '/users/7' }), { status: 200, text: '<p>app</p>' })
})

t.test('10. compression', async (t) => {
  const { ask } = await started(t, 10, { 3000: await upstream(t, 'shop', () => ({ '/': 'text '.repeat(1_000) })) })
  const compressed = await ask(SHOP, { headers: { 'accept-encoding': 'gzip' } })
  t.match(compressed, { status: 200, headers: { 'content-encoding': 'gzip' } })
  t.ok(compressed.text.length < 1_000)
})

t.test('11. load balancing with health checks', async (t) => {
  let checked = 0
  const well = createServer(({ url }, response) => {
    if (url === '/healthz') checked++
    response.end('well')
  })
  const { ask } = await started(t, 11, { 3000: await listening(t, well), 3001: await freePort() })
  for (let n = 0; n < 4; n++) t.match(await ask(SHOP), { status: 200, text: 'well' })
  await until(() => checked > 0)
})

t.test('12. login by OpenID Connect', async (t) => {
  let issuer = ''
  const provider = await upstream(t, 'provider', () => ({
    '/.well-known/openid-configuration': JSON.stringify({
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256']
    })
  }))
  issuer = `http://127.0.0.1:${provider}`
  const ports = { 3000: await upstream(t, 'shop') }
  const named = (text: string) => text.replace('https://login.example.com', issuer)
  const { ask } = await started(t, 12, ports, { ...(await certificateFiles()), secret: 'of the client' }, named)
  const { status, headers } = await ask(SHOP, { path: '/cart', tls: true, headers: { accept: 'text/html' } })
  t.ok(status === 302 || status === 303, `status ${status}`)
  const url = new URL(headers.location ?? '')
  t.equal(`${url.origin}${url.pathname}`, `${issuer}/authorize`)
  t.equal(url.searchParams.get('client_id'), 'my-app')
})

t.test('13. error pages', async (t) => {
  const { ask } = await started(t, 13, { 3000: await freePort() }, { 'errors/5xx.html': '<p>Back soon.</p>' })
  t.match(await ask(SHOP), { status: 502, headers: { 'content-type': /html/ }, text: '<p>Back soon.</p>' })
})

t.test('14. TLS pass-through by name', async (t) => {
  const secureUpstream = async (name: string) => {
    const { cert, key } = await certificateOf(name)
    return await listening(
      t,
      createTlsServer({ cert, key }, (socket) => void socket.end(name))
    )
  }
  const ports = { 3000: await secureUpstream(SHOP), 3001: await secureUpstream('blog.example.com') }
  const { secure } = await started(t, 14, ports)
  for (const servername of [SHOP, 'blog.example.com']) {
    const socket = connect({ port: secure, host: '127.0.0.1', servername, rejectUnauthorized: false })
    const [text] = await Promise.all([socket.setEncoding('utf8').toArray(), once(socket, 'secureConnect')])
    t.equal(text.join(''), servername)
  }
})
