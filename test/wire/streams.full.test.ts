import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, get as httpGet, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { startSluice } from '../helpers/sluice.js'
import { onEngines } from './engines.js'
import { RawClient, Upstream } from './peers.js'

const MEBI = 1_048_576
const SIZE = 50 * MEBI
/** What may lie in the buffers of the kernel and of the proxy between two peers, one of which does not read. */
const ON_THE_WAY = 24 * MEBI

const POLICY = `
on_http_request:
  - expressions: ["req.url.path == '/forbidden'"]
    actions: [{ type: deny }]
  - actions: [{ type: add-headers, config: { headers: { x-policy: "1" } } }]
on_http_response:
  - actions:
      - { type: compress-response }
      - { type: add-headers, config: { headers: { x-out: "\${res.status_code}" } } }
`

async function listening(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

/** The value when it has stopped to change: nothing tells that something does not happen any more. */
async function settled(read: () => number): Promise<number> {
  let value = read()
  for (let calm = 0; calm < 10; ) {
    await new Promise((resolve) => setTimeout(resolve, 15))
    const next = read()
    calm = next === value ? calm + 1 : 0
    value = next
  }
  return value
}

onEngines('each event of an event stream passes at once', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy: POLICY })
  upstream.reply = () => 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n'
  const client = await RawClient.open(sluice.port)
  client.write('GET /events HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\nAccept: text/event-stream\r\n\r\n')
  t.ok(await client.until(() => client.text.includes('\r\n\r\n')), 'the head comes before the first event')
  const [connection] = upstream.connections
  for (let i = 0; i < 20; i++) {
    connection?.socket.write(`data: event ${i}\n\n`)
    t.ok(await client.until(() => client.text.includes(`data: event ${i}\n\n`)), `event ${i} before the next is sent`)
  }
  client.close()
  await connection?.closed
  t.pass('the stream ends at the upstream when the client leaves')
})

onEngines('a WebSocket through a policy', async (t, engine) => {
  const server = createServer()
  const sockets = new WebSocketServer({ server })
  const seen: IncomingMessage[] = []
  sockets.on('connection', (socket, request) => {
    seen.push(request)
    socket.on('message', (data, binary) => socket.send(data, { binary }))
    socket.on('close', (code, reason) => closes.push([code, reason.toString()]))
    ended.push(once(socket, 'close'))
  })
  const closes: [number, string][] = []
  const ended: Promise<unknown>[] = []
  const port = await listening(t, server)
  const sluice = await startSluice(t, { engine, upstream: { port }, policy: POLICY })
  const url = `ws://127.0.0.1:${sluice.port}`

  const socket = new WebSocket(`${url}/echo?x=1`, ['chat'])
  const open = once(socket, 'open')
  const [response] = (await once(socket, 'upgrade')) as [IncomingMessage]
  t.equal(response.statusCode, 101)
  t.equal(response.headers['x-out'], '101', 'the response phase sees the switch')
  await open
  t.equal(seen[0]?.headers['x-policy'], '1', 'the request phase ran')
  t.equal(seen[0]?.url, '/echo?x=1')
  for (const message of ['hello', '', 'x'.repeat(MEBI)]) {
    socket.send(message)
    const [echo] = (await once(socket, 'message')) as [Buffer]
    t.ok(echo.toString() === message, `${message.length} characters`)
  }
  const bytes = randomBytes(300_000)
  socket.send(bytes)
  const [echo, binary] = (await once(socket, 'message')) as [Buffer, boolean]
  t.ok(binary && echo.equals(bytes), 'binary')
  socket.ping('beat')
  await once(socket, 'pong')
  socket.close(4_001, 'done')
  const [code, reason] = (await once(socket, 'close')) as [number, Buffer]
  t.same([code, reason.toString()], [4_001, 'done'])
  await ended[0]
  t.same(closes, [[4_001, 'done']], 'the close passes with its code')

  const denied = new WebSocket(`${url}/forbidden`)
  const [, refusal] = (await once(denied, 'unexpected-response')) as [unknown, IncomingMessage]
  t.equal(refusal.statusCode, 403)
  refusal.resume()
  t.equal(seen.length, 1, 'the refused one never reached the upstream')

  const torn = new WebSocket(`${url}/echo`)
  await once(torn, 'open')
  const closed = new Promise((resolve) => sockets.once('connection', resolve))
  torn.terminate()
  const other = new WebSocket(`${url}/echo`)
  await Promise.all([closed, once(other, 'open')])
  for (const each of sockets.clients) each.terminate()
  const [abnormal] = (await once(other, 'close')) as [number]
  t.equal(abnormal, 1_006, 'an upstream that breaks off is seen by the client')
})

onEngines('a large download: all bytes, and the upstream waits for a slow client', async (t, engine) => {
  const block = randomBytes(MEBI)
  const expected = createHash('sha256')
  for (let i = 0; i < SIZE / MEBI; i++) expected.update(block)
  let written = 0
  const port = await listening(
    t,
    createServer(async (_request, response) => {
      written = 0
      response.writeHead(200, { 'content-type': 'application/octet-stream' })
      for (let i = 0; i < SIZE / MEBI; i++) {
        if (!response.write(block)) await once(response, 'drain')
        written += block.length
      }
      response.end()
    })
  )
  const sluice = await startSluice(t, { engine, upstream: { port }, policy: POLICY })
  const before = process.memoryUsage.rss()
  const [response] = (await once(httpGet({ port: sluice.port, path: '/large', agent: false }), 'response')) as [
    IncomingMessage
  ]
  response.pause()
  const stalled = await settled(() => written)
  t.ok(stalled < ON_THE_WAY, `${stalled} bytes on the way to a client that does not read`)
  const got = createHash('sha256')
  let bytes = 0
  let peak = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    got.update(chunk)
    bytes += chunk.length
    peak = Math.max(peak, process.memoryUsage.rss())
  }
  t.equal(bytes, SIZE)
  t.equal(got.digest('hex'), expected.digest('hex'))
  t.ok(peak - before < 60 * MEBI, `memory grew by ${peak - before} bytes`)
})

onEngines('a large upload: all bytes, and the client waits for a slow upstream', async (t, engine) => {
  const block = randomBytes(MEBI)
  const expected = createHash('sha256')
  for (let i = 0; i < SIZE / MEBI; i++) expected.update(block)
  let go: () => void = () => undefined
  const may = new Promise<void>((resolve) => {
    go = resolve
  })
  const port = await listening(
    t,
    createServer(async (request, response) => {
      await may
      const got = createHash('sha256')
      for await (const chunk of request as AsyncIterable<Buffer>) got.update(chunk)
      response.end(got.digest('hex'))
    })
  )
  const sluice = await startSluice(t, { engine, upstream: { port }, policy: POLICY })
  const before = process.memoryUsage.rss()
  const upload = httpRequest({ port: sluice.port, path: '/up', method: 'PUT', agent: false })
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>
  let written = 0
  let peak = 0
  const writing = (async () => {
    for (let i = 0; i < SIZE / MEBI; i++) {
      if (!upload.write(block)) await once(upload, 'drain')
      written += block.length
      peak = Math.max(peak, process.memoryUsage.rss())
    }
    upload.end()
  })()
  const stalled = await settled(() => written)
  t.ok(stalled < ON_THE_WAY, `${stalled} bytes on the way to an upstream that does not read`)
  go()
  await writing
  const [response] = await answered
  t.equal((await response.toArray()).join(''), expected.digest('hex'))
  t.ok(peak - before < 60 * MEBI, `memory grew by ${peak - before} bytes`)
})

onEngines('a client that leaves ends the request at the upstream', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const options = { LIMITS_ABORT_ON_CLOSE: 'on' }
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy: POLICY, options })
  const states: [string, string, string | undefined][] = [
    ['waiting for the answer', 'GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n', undefined],
    [
      'inside the answer',
      'GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello'
    ],
    ['inside an answer without a length', 'GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n', 'HTTP/1.1 200 OK\r\n\r\nhello'],
    ['inside the request body', 'POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nhello', undefined],
    [
      'inside a chunked request body',
      'POST /a HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n',
      undefined
    ]
  ]
  for (const [state, text, reply] of states) {
    for (const how of ['destroy', 'resetAndDestroy'] as const) {
      upstream.reset()
      upstream.reply = () => reply
      const client = await RawClient.open(sluice.port)
      client.write(text)
      await upstream.until(() =>
        upstream.connections.some((one) => one.text.includes(text.startsWith('POST') ? 'hello' : 'GET /a'))
      )
      const [connection] = upstream.connections
      if (reply !== undefined) await client.until(() => client.text.includes('hello'))
      client.socket[how]()
      await connection?.closed
      t.pass(`${state}, ${how}: the upstream connection is closed`)
      t.equal(upstream.connections.length, 0)
    }
  }
  const line = await sluice.line((one) => one.failure === 'client-gone')
  t.equal(line.status, 0, 'the log says so')
})

onEngines('a client that ends its side behind a request is answered, and closed after silence', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const options = { TIMEOUTS_HALF_CLOSED: '300ms' }
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options })
  upstream.reply = () => undefined
  const ask = async () => {
    const client = await RawClient.open(sluice.port)
    client.write('GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n')
    client.socket.end()
    await upstream.until(() => upstream.requests.length === 1)
    return client
  }
  const silent = await ask()
  const [connection] = upstream.connections
  await connection?.closed
  t.ok(await silent.until(() => silent.closed), 'the connection ends')
  t.equal(silent.text, '')
  silent.close()
  upstream.reset()
  const waiting = await ask()
  t.ok(await waiting.until(() => waiting.closed), 'the connection ends')
  t.match(waiting.text, /^HTTP\/1\.1 200 .*Connection: close.*ok$/is)
  waiting.close()
})
