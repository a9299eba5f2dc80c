import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:http2'
import { createServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'
import { type ClientOptions, WebSocket } from 'ws'
import { account, create, site, visit } from '../helpers/account.js'
import { type Engine, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'app.example.com'
const MEBI = 1_048_576

/** An upstream that knows nothing of HTTP. */
async function upstream(t: Test, serve: (socket: Socket) => void): Promise<{ server: Server; port: number }> {
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
    serve(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return { server, port: (server.address() as { port: number }).port }
}

async function converting(
  t: Test,
  engine: Engine,
  serve: (socket: Socket) => void,
  route: Readonly<Record<string, unknown>> = {},
  options: Readonly<Record<string, string>> = {}
) {
  const { port, server } = await upstream(t, serve)
  const sluice = await startSluice(t, { engine, options })
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  const made = await site(sluice, HOST, {
    websocket_tcp_converter: {},
    backend: { backend_id: backend.id },
    ...route
  })
  const open = async (protocols: string[] = [], how: ClientOptions = {}) => {
    const socket = new WebSocket(`ws://127.0.0.1:${sluice.port}/`, protocols, {
      headers: { host: HOST },
      perMessageDeflate: false,
      ...how
    })
    t.teardown(() => socket.terminate())
    const heard: Buffer[] = []
    socket.on('message', (data: Buffer, isBinary) => heard.push(isBinary ? data : Buffer.from('TEXT')))
    socket.on('error', () => undefined)
    const closed = new Promise<number>((resolve) => socket.on('close', resolve))
    const opened = await Promise.race([once(socket, 'open').then(() => true), closed.then(() => false)])
    return { socket, closed, opened, heard: () => Buffer.concat(heard) }
  }
  return { sluice, server, open, ...made }
}

const echo = (socket: Socket) => void socket.pipe(socket)

onEngines('binary messages are the bytes of a TCP connection', async (t, engine) => {
  const { open, sluice } = await converting(t, engine, echo)
  const client = await open()
  const sent = randomBytes(8 * MEBI)
  const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
  for (let at = 0; at < sent.length; at += 700_001) client.socket.send(sent.subarray(at, at + 700_001))
  await until(() => Promise.resolve(client.heard().length >= sent.length))
  t.equal(hash(client.heard()), hash(sent))
  const ponged = once(client.socket, 'pong')
  client.socket.ping('are you there')
  t.equal(String((await ponged)[0]), 'are you there')
  client.socket.close(1000)
  t.equal(await client.closed, 1000)
  const line = await sluice.line(({ status }) => status === 101)
  t.notOk(line.code, 'nothing has failed')
})

onEngines('an upstream that speaks first is heard, and its end is a normal close', async (t, engine) => {
  const { open } = await converting(t, engine, (socket) => socket.end('220 ready\r\n'))
  const client = await open()
  t.equal(await client.closed, 1000)
  t.equal(client.heard().toString(), '220 ready\r\n')
})

onEngines('the goodbye of a client is the end of the connection, after its last byte', async (t, engine) => {
  const got: Buffer[] = []
  const { open, server } = await converting(t, engine, (socket) => socket.on('data', (bytes) => got.push(bytes)))
  const ended = once(server, 'connection').then(([socket]: Socket[]) => once(socket as Socket, 'end'))
  const client = await open()
  client.socket.send(randomBytes(MEBI))
  client.socket.close(1000)
  await ended
  t.equal(Buffer.concat(got).length, MEBI)
  t.equal(await client.closed, 1000)
})

onEngines('a break is no clean end, on either side', async (t, engine) => {
  const { open, server } = await converting(t, engine, (socket) =>
    socket.on('data', (bytes) => {
      if (bytes.toString() === 'break') socket.resetAndDestroy()
    })
  )
  const first = await open()
  first.socket.send('break', { binary: true })
  t.equal(await first.closed, 1011)
  const broken = once(server, 'connection').then(
    ([socket]: Socket[]) =>
      new Promise((resolve) => {
        socket?.on('error', () => resolve('broken'))
        socket?.on('end', () => resolve('ended'))
      })
  )
  const second = await open()
  second.socket.send('x', { binary: true })
  second.socket.terminate()
  t.equal(await broken, 'broken')
})

onEngines('text, and whatever is no frame, ends the connection with its code', async (t, engine) => {
  const { open } = await converting(t, engine, echo)
  const talker = await open()
  talker.socket.send('text')
  t.equal(await talker.closed, 1003)
  const broken = await open()
  // An unmasked frame.
  ;(broken.socket as unknown as { _socket: Socket })._socket.write(Buffer.of(0x82, 1, 0x61))
  t.equal(await broken.closed, 1002)
})

onEngines('a client gets a subprotocol that it offers', async (t, engine) => {
  const { open } = await converting(t, engine, echo)
  t.equal((await open(['base64', 'binary'])).socket.protocol, 'binary')
  t.equal((await open(['mqtt', 'other'])).socket.protocol, 'mqtt')
  t.equal((await open()).socket.protocol, '')
})

onEngines('who opens no WebSocket is told to', async (t, engine) => {
  const { sluice, route, open } = await converting(t, engine, echo)
  const plain = await visit(sluice, HOST)
  t.match(plain, {
    status: 426,
    headers: { 'sluice-error-code': 'WEBSOCKET_REQUIRED', upgrade: 'websocket', 'sec-websocket-version': '13' }
  })
  const handshake = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' }
  const keyless = await visit(sluice, HOST, { headers: { ...handshake, 'sec-websocket-key': 'short' } })
  t.match(keyless, { status: 400, headers: { 'sluice-error-code': 'WEBSOCKET_HANDSHAKE' } })
  const api = account(sluice)
  t.match((await api(`${route}/websocket_tcp_converter`)).json, { enabled: true })
  await api(`${route}/websocket_tcp_converter`, { method: 'PUT', body: { enabled: false } })
  t.not((await visit(sluice, HOST)).status, 426, 'switched off')
  await api(`${route}/websocket_tcp_converter`, { method: 'PUT', body: {} })
  t.ok((await open()).opened)
  await api(`${route}/websocket_tcp_converter`, { method: 'DELETE' })
  t.not((await visit(sluice, HOST)).status, 426)
})

onEngines('policies and modules come first, and an upstream that is not there is told', async (t, engine) => {
  const value = JSON.stringify({
    on_http_request: [
      { expressions: ["req.url.path == '/closed'"], actions: [{ type: 'deny' }] },
      {
        expressions: ["req.url.path == '/health'"],
        actions: [{ type: 'custom-response', config: { status_code: 204 } }]
      }
    ]
  })
  const { sluice, server, open } = await converting(t, engine, echo, { traffic_policy: { value } })
  t.equal((await visit(sluice, HOST, { path: '/closed' })).status, 403)
  t.equal((await visit(sluice, HOST, { path: '/health' })).status, 204)
  t.ok((await open()).opened)
  server.close()
  const handshake = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': randomBytes(16).toString('base64')
  }
  t.match(await visit(sluice, HOST, { headers: handshake }), {
    status: 502,
    headers: { 'sluice-error-code': 'UPSTREAM_REFUSED' }
  })
})

onEngines('who does not read holds up the other side', async (t, engine) => {
  let written = 0
  const { open } = await converting(t, engine, (socket) => {
    const chunk = Buffer.alloc(65_536)
    const more = () => {
      while (written < 256 * MEBI && socket.write(chunk)) written += chunk.length
    }
    socket.on('drain', more)
    more()
  })
  const client = await open()
  client.socket.pause()
  let [before, calm] = [-1, 0]
  await until(async () => {
    calm = written === before ? calm + 1 : 0
    before = written
    return calm > 20
  })
  t.ok(written < 64 * MEBI, `${written} bytes`)
  client.socket.resume()
  await until(async () => written > 2 * before || written >= 256 * MEBI)
})

onEngines('silence ends', async (t, engine) => {
  const { open } = await converting(t, engine, echo, {}, { TIMEOUTS_IDLE: '200ms' })
  const client = await open()
  t.equal(await client.closed, 1001)
})

onEngines('HTTP/2 opens them by extended CONNECT', async (t, engine) => {
  const port = await freePort()
  await converting(t, engine, echo, {}, { LISTENERS: `https://127.0.0.1:${port}` })
  const session = connect(`https://127.0.0.1:${port}`, { servername: HOST, rejectUnauthorized: false })
  t.teardown(() => session.destroy())
  await once(session, 'remoteSettings')
  const stream = session.request({
    ':method': 'CONNECT',
    ':protocol': 'websocket',
    ':path': '/',
    ':scheme': 'https',
    ':authority': HOST,
    'sec-websocket-version': '13',
    'sec-websocket-protocol': 'binary'
  })
  const [headers] = await once(stream, 'response')
  t.match(headers, { ':status': 200, 'sec-websocket-protocol': 'binary' })
  // A mask of zeros leaves the bytes as they are.
  stream.write(Buffer.of(0x82, 0x82, 0, 0, 0, 0, 0x68, 0x69))
  const got: Buffer[] = []
  stream.on('data', (bytes: Buffer) => got.push(bytes))
  await until(() => Buffer.concat(got).length === 4)
  t.same(Buffer.concat(got.splice(0)), Buffer.of(0x82, 2, 0x68, 0x69))
  stream.end(Buffer.of(0x88, 0x82, 0, 0, 0, 0, 3, 232))
  await once(stream, 'end')
  t.same(Buffer.concat(got), Buffer.of(0x88, 2, 3, 232), 'the goodbye is answered')
})
