import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import {
  connect,
  createSecureServer,
  createServer,
  type Http2Server,
  type SecureServerOptions,
  type ServerHttp2Stream
} from 'node:http2'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'
import { create, site } from '../helpers/account.js'
import { fixture } from '../helpers/files.js'
import { type Engine, type RunningSluice, startSluice } from '../helpers/sluice.js'
import { ask } from '../transport/http2-client.js'
import { block, END_HEADERS, END_STREAM, frame, HEADERS, SETTINGS } from '../transport/raw-frames.js'
import { onEngines } from './engines.js'
import { statusOf, values } from './message.js'
import { ask as ask1, field, RawClient, turn, Upstream } from './peers.js'

/** How upstreams and clients of the field behave, where the specifications leave room for it. */

const HOST = 'two.test'

/** An upstream of HTTP/2 in clear text. */
async function http2Server(t: Test, serve: (stream: ServerHttp2Stream) => void): Promise<Http2Server> {
  const server = createServer()
  const sessions = new Set<{ destroy(): void }>()
  server.on('session', (session) => sessions.add(session))
  server.on('stream', (stream) => {
    stream.on('error', () => undefined)
    serve(stream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const session of sessions) session.destroy()
  })
  return server
}

/** The product in front of it. */
async function before(t: Test, engine: Engine, server: Server, route: object = {}): Promise<RunningSluice> {
  const sluice = await startSluice(t, { engine })
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const { id } = await create(sluice, '/backends/static', { address, http2: true })
  await site(sluice, HOST, { backend: { backend_id: id }, ...route })
  return sluice
}

function session(t: Test, sluice: RunningSluice) {
  const client = connect(`http://127.0.0.1:${sluice.port}`)
  client.on('error', () => undefined)
  t.teardown(() => client.destroy())
  return client
}

onEngines('trailers pass behind a length that an upstream of HTTP/2 states', async (t, engine) => {
  let asked = ''
  const server = await http2Server(t, (stream) => {
    const content = asked === 'empty' ? '' : '\0\0\0\0\x02ok'
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc', 'content-length': content.length },
      { waitForTrailers: true }
    )
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '5' }))
    stream.end(content)
  })
  const sluice = await before(t, engine, server)
  const grpc = { ':method': 'POST', ':authority': HOST, 'content-type': 'application/grpc', te: 'trailers' }
  for (asked of ['empty', 'message']) {
    const { status, trailers } = await ask(session(t, sluice), grpc, 'x').answer()
    t.same([status, trailers], [200, ['grpc-status', '5']], asked)
  }
  const post = (extra: string) => `POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: 5\r\n${extra}\r\n\0\0\0\0\0`
  const { port } = await before(t, engine, server, { grpc_web: {} })
  const web = await ask1(port, post('Content-Type: application/grpc-web+proto\r\nX-Grpc-Web: 1\r\n'))
  t.ok(web?.body.startsWith('\0\0\0\0\x02ok\x80\0\0\0'), 'gRPC-Web has its frame of trailers')
  t.match(web?.body, /grpc-status: ?5/)
  const asking = await ask1(sluice.port, post('TE: trailers\r\nConnection: TE\r\n'))
  t.same([asking?.framing, asking?.trailers], ['chunked', [['grpc-status', '5']]], 'HTTP/1.1 that asks for trailers')
  const plain = await ask1(sluice.port, post(''))
  t.same([plain?.framing, field(plain, 'content-length')], ['length', '7'], 'others get the length')
})

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const request = (line: string, fields = '', body = '') => `${line} HTTP/1.1\r\nHost: a.test\r\n${fields}\r\n${body}`

onEngines('interim answers are bounded by rate and bytes, not by number', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address })
  const progress = (n: number, extra = '') =>
    Array.from({ length: n }, (_, i) => `HTTP/1.1 104 Progress\r\nUpload-Offset: ${i}\r\n${extra}\r\n`).join('')
  upstream.reply = () => progress(40) + OK
  const client = await RawClient.open(sluice.port)
  const answer = await client.ask(request('POST /', 'Content-Length: 4\r\n', 'abcd'))
  t.equal(answer && statusOf(answer), 200)
  t.equal(client.interim.length, 40)
  client.close()
  upstream.reply = () => progress(120) + OK
  t.match((await ask1(sluice.port, request('GET /')))?.line, / 502 /, 'a flood')
  upstream.reply = () => progress(20, `X: ${'x'.repeat(8000)}\r\n`) + OK
  t.match((await ask1(sluice.port, request('GET /')))?.line, / 502 /, 'many bytes')
})

const HANDSHAKE = 'Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'

onEngines('a WebSocket is asked for without content, however that is said', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address })
  upstream.reply = ({ headers }) =>
    values(headers, 'upgrade').join() === 'websocket'
      ? 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
      : OK
  const get = (fields: string, body = '') => ask1(sluice.port, request('GET /', HANDSHAKE + fields, body))
  const status = async (fields: string, body = ''): Promise<number> => {
    const answer = await get(fields, body)
    return answer === undefined ? 0 : statusOf(answer)
  }
  t.equal(await status('Upgrade: websocket\r\n'), 101)
  t.equal(await status('Upgrade: websocket\r\nContent-Length: 0\r\n'), 101, 'a length of 0')
  t.equal(await status('Upgrade: websocket, h2c\r\n'), 101, 'a list')
  t.equal(await status('Upgrade: h2c,WebSocket\r\n'), 101, 'another order')
  t.equal(await status('Upgrade: h2c\r\n'), 200, 'another protocol')
  t.equal(await status('Upgrade: websocket\r\nContent-Length: 1\r\n', 'x'), 200, 'a request with content')
  for (const { headers } of upstream.requests.slice(0, 4)) t.same(values(headers, 'content-length'), [])
  if (engine === 'http-proxy') return
  const chunked = 'Upgrade: websocket\r\nTransfer-Encoding: chunked\r\n'
  t.equal(await status(chunked, '0\r\n\r\n'), 101, 'an empty chunked body')
  t.same(values(upstream.requests.at(-1)?.headers ?? [], 'transfer-encoding'), [])
  t.equal(await status(chunked, '2\r\nab\r\n0\r\n\r\n'), 200, 'a chunked body')
  t.equal(upstream.requests.at(-1)?.body, 'ab')
  t.equal(await status(chunked, 'x\r\n'), 400, 'a malformed one')
  const slow = await RawClient.open(sluice.port)
  slow.write(request('GET /', HANDSHAKE + chunked, '0\r'))
  await turn(5)
  t.equal((await slow.ask('\n\r\n'))?.line.slice(9, 12), '101', 'one that comes in pieces')
  slow.close()
})

onEngines('a WebSocket to a server of HTTP/2 without extended CONNECT goes by HTTP/1.1', async (t, engine) => {
  const [cert, key] = ['upstream.crt', 'upstream.key'].map((name) => readFileSync(fixture(`engine/${name}`), 'utf8'))
  const server = createSecureServer({ cert, key, allowHTTP1: true } as SecureServerOptions)
  server.on('upgrade', (_request, socket: Socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi')
  })
  server.on('request', ({ httpVersion, stream, url }, response) => {
    // HTTP_1_1_REQUIRED (RFC 9113 7).
    if (httpVersion === '2.0' && url === '/old') stream.close(13)
    else response.end(`v${httpVersion}`)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const sluice = await startSluice(t, { engine })
  const { id } = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    http2: true,
    tls: { enabled: true, ca_pem: cert, server_name: 'upstream.test' }
  })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const get = (path: string, fields = '') => `GET ${path} HTTP/1.1\r\nHost: ${HOST}\r\n${fields}\r\n`
  t.equal((await ask1(sluice.port, get('/')))?.body, 'v2.0')
  t.match((await ask1(sluice.port, get('/', `${HANDSHAKE}Upgrade: websocket\r\n`)))?.line, / 101 /)
  t.equal((await ask1(sluice.port, get('/old')))?.body, 'v1.1', 'HTTP_1_1_REQUIRED')
})

onEngines('any token without lower-case letters is a method', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const policy =
    'on_http_request: [{ expressions: ["req.method == \'BAN\'"], actions: [{ type: deny, config: { status_code: 403 } }] }]'
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy })
  const client = session(t, sluice)
  for (const [method, status] of [
    ['LIST', 200],
    ['X-A.B_1~', 200],
    ['BAN', 403],
    ['get', 400],
    ['Connect', 400]
  ] as const) {
    const { status: found } = await ask(client, { ':method': method }).answer()
    t.equal(found, status, `${method} over HTTP/2`)
    // llhttp, which that engine reads with, has a list of methods.
    if (engine === 'codec') {
      t.match((await ask1(sluice.port, request(`${method} /`)))?.line, new RegExp(` ${status} `), method)
    }
  }
  const lines = upstream.requests.map(({ line }) => line)
  t.same(new Set(lines), new Set(['LIST / HTTP/1.1', 'X-A.B_1~ / HTTP/1.1']))
})

onEngines('a request of HTTP/2 without content says so where its method speaks of content', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address })
  const client = session(t, sluice)
  for (const method of ['POST', 'PUT', 'PATCH', 'GET', 'DELETE', 'OPTIONS']) {
    const stream = client.request({ ':method': method, ':authority': 'a.test' }, { endStream: true })
    stream.resume()
    await once(stream, 'close')
    const length = values(upstream.requests.at(-1)?.headers ?? [], 'content-length')
    t.same(length, method.startsWith('P') ? ['0'] : [], method)
  }
})

onEngines('a status of three digits passes on all ways alike', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address })
  // No library sends it.
  const answer = frame(HEADERS, END_HEADERS | END_STREAM, 1, block([[':status', '999']]))
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined)
    socket.write(frame(SETTINGS, 0, 0))
    socket.on('data', (bytes) => {
      if (bytes.includes('GET') || bytes[bytes.length - 1] !== 0) socket.write(answer)
    })
    t.teardown(() => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = await before(t, engine, server)
  upstream.reply = () => 'HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n'
  const status = async (port: number, host: string): Promise<string> => {
    const client = await RawClient.open(port)
    client.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    await client.until(() => client.text.includes('\r\n'))
    client.close()
    return client.text.slice(9, 12)
  }
  t.equal(await status(sluice.port, 'a.test'), '999')
  t.equal((await ask(session(t, sluice)).answer()).status, 999, 'client of HTTP/2')
  t.equal(await status(port, HOST), '999', 'upstream of HTTP/2')
})

onEngines('OPTIONS in absolute form without a path is *, and refusals of the parser have a code', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options: { LIMITS_TARGET_BYTES: '1KiB' } })
  await ask1(sluice.port, request('OPTIONS http://a.test'))
  await ask1(sluice.port, request('OPTIONS http://a.test/'))
  await ask1(sluice.port, request('OPTIONS http://a.test?a'))
  t.same(
    upstream.requests.map(({ line }) => line.split(' ')[1]),
    ['*', '/', '/?a']
  )
  const malformed = await ask1(sluice.port, 'GET / HTTP/1.1\r\nHost : a\r\n\r\n')
  t.equal(field(malformed, 'sluice-error-code'), 'BAD_REQUEST')
  const long = await ask1(sluice.port, request(`GET /${'a'.repeat(1100)}`))
  t.same([long?.line.slice(9, 12), field(long, 'sluice-error-code')], ['414', 'TOO_LARGE'])
  const two = ask(session(t, sluice), { ':path': `/${'a'.repeat(1100)}` })
  t.equal((await two.answer()).status, 414)
  t.same(two.values('sluice-error-code'), ['TOO_LARGE'])
})

onEngines('a 304 behind compression says what varies', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const policy = 'on_http_response: [{ actions: [{ type: compress-response }] }]'
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy })
  upstream.reply = () => 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n'
  const answer = await ask1(sluice.port, request('GET /', 'Accept-Encoding: gzip\r\nIf-None-Match: "a"\r\n'))
  t.equal(field(answer, 'vary'), 'Accept-Encoding')
  upstream.reply = () => 'HTTP/1.1 304 Not Modified\r\nContent-Type: image/png\r\nETag: "a"\r\n\r\n'
  t.equal(field(await ask1(sluice.port, request('GET /')), 'vary'), undefined, 'what is never compressed')
})
