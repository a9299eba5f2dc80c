import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http'
import { connect as connect2, createServer as createServer2 } from 'node:http2'
import { request as requestTls } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { makeServerCertificate } from '../../src/lib/self-signed.js'
import { needsPebble, startPebble } from '../capabilities/certificates/pebble.js'
import { startResolver } from '../capabilities/certificates/resolver.js'
import { SluiceProcess } from '../cli/process.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'
import { countLines, type Task, tasksOf } from './ten-tasks.js'

/** Runs every `sluice.yaml` of docs/four-programs.md as it stands there, with free ports in place of its own. */

const tasks = await tasksOf('four-programs.md')

const taskOf = (title: string): Task => {
  const found = tasks.find((task) => task.title.startsWith(title))
  if (found === undefined) throw new Error(`there is no task ${title}`)
  return found
}

t.test('each task takes no more lines than with the shortest of the others', async (t) => {
  t.equal(tasks.length, 10, 'the page was read')
  for (const { title, files } of tasks) {
    const [ours, ...others] = [...files.values()].map(countLines)
    t.equal([...files.keys()][0], 'sluice.yaml')
    t.ok(others.length > 0 && (ours as number) <= Math.min(...others), `${title}: ${ours} beside ${others.join(', ')}`)
  }
})

/** An upstream that answers with its name, for any path but those of `own`. */
async function upstream(t: Test, name: string, own: Readonly<Record<string, string>> = {}): Promise<number> {
  const server = createServer(({ url = '' }, response) => response.end(own[url] ?? name))
  server.on('upgrade', (_request, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.pipe(socket)
  })
  return await listening(t, server)
}

async function listening(t: Test, server: Pick<Server, 'listen' | 'close' | 'address' | 'once'>): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server as Server, 'listening')
  t.teardown(() => void server.close())
  return (server.address() as AddressInfo).port
}

interface Running {
  /** Ports of clients. */
  readonly plain: number
  readonly secure: number
  readonly sluice: SluiceProcess
  /** Path of the file that it serves. */
  readonly file: string
}

/** Starts the product with the file of a task. `upstreams`: real ports by the ports of the page. */
async function started(
  t: Test,
  { files }: Task,
  upstreams: Readonly<Record<string, number>>,
  prepare: (text: string, plain: number, folder: string) => Promise<string> = async (text) => text
): Promise<Running> {
  const [plain, secure] = [await freePort(), await freePort()]
  let text = files.get('sluice.yaml') as string
  text = text.replace('http://0.0.0.0:80', `http://127.0.0.1:${plain}`)
  text = text.replace('https://0.0.0.0:443', `https://127.0.0.1:${secure}`)
  // In one pass: the port of one may begin with that of another.
  text = text.replaceAll(/127\.0\.0\.1:(\d+)/g, (all, port) =>
    port in upstreams ? `127.0.0.1:${upstreams[port]}` : all
  )
  const cwd = t.testdir({})
  await writeFile(join(cwd, 'sluice.yaml'), await prepare(text, plain, cwd))
  const { cert, key } = await makeServerCertificate('CN=shop', ['shop.example.com'], {
    now: Date.now(),
    life: 86_400_000
  })
  await mkdir(join(cwd, 'tls'))
  await Promise.all([writeFile(join(cwd, 'tls/shop.pem'), cert), writeFile(join(cwd, 'tls/shop.key'), key)])
  // On another address, so that its port is none of those that were free.
  const words = ['start', 'sluice.yaml', '--listen', '127.0.0.2:0', '--api', '127.0.0.2:0', '--data', ':memory:']
  const sluice = new SluiceProcess(t, words, { cwd, env: { SLUICE_OUTBOUND_ALLOW_PRIVATE: 'on' } })
  await sluice.logged('listening')
  return { plain, secure, sluice, file: join(cwd, 'sluice.yaml') }
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

interface Asked {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly tls?: boolean
}

function ask(
  port: number,
  host: string,
  { method = 'GET', path = '/', headers = {}, tls = false }: Asked = {}
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const about = { host: '127.0.0.1', port, method, path, headers: { host, ...headers }, agent: false as const }
    const sent = tls ? requestTls({ ...about, servername: host, rejectUnauthorized: false }) : request(about)
    sent.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
    })
    sent.on('error', reject)
    sent.end()
  })
}

t.test('1. two hosts, three upstreams', async (t) => {
  const ports = { 3000: await upstream(t, 'shop'), 3001: await upstream(t, 'api'), 3002: await upstream(t, 'blog') }
  const { plain } = await started(t, taskOf('Two hosts'), ports)
  t.match(await ask(plain, 'blog.example.com'), { status: 200, text: 'blog' })
  t.match(await ask(plain, 'shop.example.com', { path: '/cart' }), { text: 'shop' })
  t.match(await ask(plain, 'shop.example.com', { path: '/api/carts' }), { text: 'api' })
})

t.test('2. balancing with health checks', async (t) => {
  const checked = { count: 0 }
  const well = createServer(({ url }, response) => {
    if (url === '/healthz') checked.count++
    response.end('well')
  })
  const ports = { 3000: await listening(t, well), 3001: await freePort() }
  const { plain } = await started(t, taskOf('Balancing'), ports)
  for (let n = 0; n < 6; n++) t.match(await ask(plain, 'shop.example.com'), { status: 200, text: 'well' })
  await until(() => checked.count > 0)
})

for (const title of ['HTTPS with a', 'From HTTP']) {
  t.test(`3 and 4. ${title}`, async (t) => {
    const { plain, secure } = await started(t, taskOf(title), { 3000: await upstream(t, 'shop') })
    t.match(await ask(secure, 'shop.example.com', { tls: true }), { status: 200, text: 'shop' })
    t.match(await ask(plain, 'shop.example.com', { path: '/cart?a=1', method: 'POST' }), {
      status: 308,
      headers: { location: `https://shop.example.com:${secure}/cart?a=1` }
    })
  })
}

t.test('5. gRPC', async (t) => {
  const server = createServer2()
  server.on('stream', (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.resume()
    stream.end('answer')
  })
  const { secure } = await started(t, taskOf('gRPC'), { 50051: await listening(t, server as unknown as Server) })
  const session = connect2(`https://127.0.0.1:${secure}`, { servername: 'shop.example.com', rejectUnauthorized: false })
  t.teardown(() => session.close())
  const call = session.request({
    ':method': 'POST',
    ':path': '/test.Words/One',
    ':authority': 'shop.example.com',
    'content-type': 'application/grpc',
    te: 'trailers'
  })
  const trailers = once(call, 'trailers')
  call.end('ask')
  const text = (await call.setEncoding('utf8').toArray()).join('')
  t.equal(text, 'answer')
  t.match((await trailers)[0], { 'grpc-status': '0' })
})

t.test('6. WebSockets', async (t) => {
  const { plain } = await started(t, taskOf('WebSockets'), { 3000: await upstream(t, 'chat') })
  const sent = request({
    host: '127.0.0.1',
    port: plain,
    headers: {
      host: 'chat.example.com',
      connection: 'upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ=='
    }
  })
  sent.end()
  const [response, socket] = await once(sent, 'upgrade')
  t.equal(response.statusCode, 101)
  socket.write('there and back')
  t.equal(String((await once(socket, 'data'))[0]), 'there and back')
  socket.destroy()
})

t.test('7. a limit for each address and one for each key', async (t) => {
  const { plain } = await started(t, taskOf('A limit'), { 3000: await upstream(t, 'api') })
  const statuses = new Map<number, number>()
  for (let n = 0; n < 105; n++) {
    const { status } = await ask(plain, 'api.example.com', { headers: { 'x-api-key': 'one' } })
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  t.same(
    [...statuses],
    [
      [200, 100],
      [429, 5]
    ]
  )
})

t.test('8. JSON Web Tokens', async (t) => {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwks = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }] })
  const ports = { 3000: await upstream(t, 'api'), 3001: await upstream(t, 'none', { '/jwks': jwks }) }
  const { plain } = await started(t, taskOf('JSON Web'), ports)
  const token = (issuer: string) =>
    new SignJWT({})
      .setProtectedHeader({ alg: 'ES256', kid: 'k' })
      .setIssuer(issuer)
      .setExpirationTime('1h')
      .sign(privateKey)
  const status = async (bearer?: string) =>
    (
      await ask(plain, 'api.example.com', {
        headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }
      })
    ).status
  t.equal(await status(), 401)
  t.equal(await status(await token('https://elsewhere.example.com')), 401)
  t.equal(await status(await token('https://idp.example.com')), 200)
})

t.test('9. pages of other origins', async (t) => {
  const { plain } = await started(t, taskOf('Pages of'), { 3000: await upstream(t, 'api') })
  const origin = 'https://app.example.com'
  const preflight = { origin, 'access-control-request-method': 'PUT', 'access-control-request-headers': 'content-type' }
  t.match(await ask(plain, 'api.example.com', { method: 'OPTIONS', headers: preflight }), {
    status: 204,
    headers: { 'access-control-allow-origin': origin, 'access-control-allow-methods': 'GET, PUT' }
  })
  t.match(await ask(plain, 'api.example.com', { headers: { origin } }), {
    status: 200,
    headers: { 'access-control-allow-origin': origin },
    text: 'api'
  })
})

t.test('10. HTTPS with certificates of an authority', needsPebble, async (t) => {
  const resolver = await startResolver(t)
  const { plain, secure, sluice, file } = await started(
    t,
    taskOf('HTTPS with certificates of'),
    { 3000: await upstream(t, 'shop') },
    async (text, http, folder) => {
      const { directory, ca } = await startPebble(t, { dns: resolver.port, http })
      await writeFile(join(folder, 'ca.pem'), ca)
      return text.replace('agree_to_terms: true', `agree_to_terms: true, directory: "${directory}", ca: ca.pem`)
    }
  )
  await sluice.logged('a certificate was issued')
  t.match(await ask(secure, 'shop.example.com', { tls: true }), { status: 200, text: 'shop' })
  t.match(await issuerOf(secure, 'shop.example.com'), /^Pebble/)
  t.match(await ask(plain, 'shop.example.com', { path: '/cart' }), {
    status: 308,
    headers: { location: `https://shop.example.com:${secure}/cart` }
  })
  // Taken out of the file, its certificate is no longer kept.
  await writeFile(file, (await readFile(file, 'utf8')).replace('shop.example.com', 'other.example.com'))
  await sluice.logged('a certificate was issued', 2)
  t.match(await issuerOf(secure, 'other.example.com'), /^Pebble/)
  await until(async () => !/^Pebble/.test(await issuerOf(secure, 'shop.example.com')))
})

/** Who has issued the certificate that a name gets. */
async function issuerOf(port: number, servername: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', servername, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { issuer } = socket.getPeerCertificate()
  socket.destroy()
  return String(issuer.CN)
}
