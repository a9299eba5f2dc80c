import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import {
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream
} from 'node:http2'
import { createServer as createHttps } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { forwardTo } from '../../src/transport/contract.js'
import { tlsDialer } from '../../src/transport/dialers.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { byVersion, http2Back } from '../../src/transport/http2/client.js'
import { CODE, FLAG, FRAME, PREFACE, writeFrameHead } from '../../src/transport/http2/frames.js'
import { fixture } from '../helpers/files.js'
import { type Bench, bench, eventually, type Make, NAME } from './suite/harness.js'

type Serve = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => unknown

const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const h2 = { cert: at('upstream.crt'), key: at('upstream.key') }
const make: Make = (parts) => ({ front: codecServerTransport(parts), back: http2Back(parts), h2 })

/** The HTTP/2 server of node, in clear text. */
async function server(
  t: Test,
  serve: Serve,
  settings = {}
): Promise<{ port: number; sessions: number; server: Http2Server }> {
  const own = createServer({ settings })
  const self = { port: 0, sessions: 0, server: own }
  const open = new Set<Socket>()
  own.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
  })
  own.on('session', () => self.sessions++)
  own.on('stream', (stream, headers) => {
    stream.on('error', () => undefined)
    serve(stream, headers)
  })
  own.listen(0, '127.0.0.1')
  await once(own, 'listening')
  self.port = (own.address() as AddressInfo).port
  t.teardown(() => {
    own.close()
    for (const socket of open) socket.destroy()
  })
  return self
}

/** A peer that says what it is told to, as bytes. */
async function raw(t: Test, script: (socket: Socket, connection: number) => void): Promise<number> {
  const open = new Set<Socket>()
  let count = 0
  const own = createTcpServer((socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
    script(socket, ++count)
  })
  own.listen(0, '127.0.0.1')
  await once(own, 'listening')
  t.teardown(() => {
    own.close()
    for (const socket of open) socket.destroy()
  })
  return (own.address() as AddressInfo).port
}

function frame(type: number, flags: number, id: number, payload: Uint8Array = new Uint8Array(0)): Buffer {
  const head = Buffer.alloc(9)
  writeFrameHead(head, 0, payload.length, type, flags, id)
  return Buffer.concat([head, payload])
}

interface Answered {
  status: number
  headers: IncomingHttpHeaders
  body: string
  trailers: IncomingHttpHeaders
}

/** Asks as a client of HTTP/2. */
function ask(
  own: Bench,
  headers: Record<string, string>,
  body?: string,
  trailers?: Record<string, string>
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const request = own
      .session()
      .request({ ':path': '/', ...headers }, { endStream: body === undefined, waitForTrailers: trailers !== undefined })
    const result: Answered = { status: 0, headers: {}, body: '', trailers: {} }
    request.on('wantTrailers', () => request.sendTrailers(trailers ?? {}))
    request.on('response', (got) => {
      result.status = got[':status'] as number
      result.headers = got
    })
    request.on('trailers', (got) => {
      result.trailers = got
    })
    request.setEncoding('utf8')
    request.on('data', (piece: string) => {
      result.body += piece
    })
    request.on('end', () => resolve(result))
    request.on('error', reject)
    if (body !== undefined) request.end(body)
  })
}

t.test('requests and answers pass with their fields, bodies and trailers', async (t) => {
  let seen: IncomingHttpHeaders = {}
  let came: IncomingHttpHeaders = {}
  const upstream = await server(t, (stream, headers) => {
    seen = headers
    stream.on('trailers', (trailers) => {
      came = trailers
    })
    let body = ''
    stream.setEncoding('utf8')
    stream.on('data', (piece: string) => {
      body += piece
    })
    stream.on('end', () => {
      stream.respond({ ':status': 201, 'x-answer': 'a' }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'x-checked': 'yes' }))
      stream.end(body.toUpperCase())
    })
  })
  const own = await bench(t, make, { port: upstream.port })
  const answer = await ask(own, { ':method': 'POST', ':path': '/p?q=1', 'x-asked': 'b', te: 'trailers' }, 'hello', {
    'x-sum': '5'
  })
  t.equal(answer.status, 201)
  t.equal(answer.headers['x-answer'], 'a')
  t.equal(answer.body, 'HELLO')
  t.match(answer.trailers, { 'x-checked': 'yes' })
  t.match(seen, {
    ':method': 'POST',
    ':path': '/p?q=1',
    ':scheme': 'http',
    ':authority': 'upstream.test',
    'x-asked': 'b',
    te: 'trailers'
  })
  t.equal(seen.host, undefined)
  t.match(came, { 'x-sum': '5' })
})

t.test('a client of HTTP/1.1 gets the answer of HTTP/2', async (t) => {
  const upstream = await server(t, (stream) => {
    stream.respond({ ':status': 200 }, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-end': 'z' }))
    stream.end('two')
  })
  const plain: Make = (parts) => ({ front: codecServerTransport(parts), back: http2Back(parts) })
  const own = await bench(t, plain, { port: upstream.port })
  const client = await own.client()
  client.send('GET / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: close\r\n\r\n')
  await client.untilEnd()
  const { text } = client
  t.match(text, /^HTTP\/1\.1 200 /)
  t.match(text, /two/)
  t.match(text.toLowerCase(), /x-end: z/)
})

t.test('many requests share a connection, and no more streams are open than the server allows', async (t) => {
  let open = 0
  let most = 0
  const upstream = await server(
    t,
    (stream) => {
      most = Math.max(most, ++open)
      stream.on('close', () => open--)
      setImmediate(() => {
        stream.respond({ ':status': 200 })
        stream.end('x')
      })
    },
    { maxConcurrentStreams: 10 }
  )
  const own = await bench(t, make, { port: upstream.port })
  const first = await ask(own, {})
  t.equal(first.body, 'x')
  const session = own.session()
  const bodies = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const request = session.request({ ':path': '/' })
      let body = ''
      for await (const piece of request) body += String(piece)
      return body
    })
  )
  t.same(new Set(bodies), new Set(['x']))
  t.ok(upstream.sessions <= 5, `${upstream.sessions} connections`)
  t.ok(most > 1)
})

t.test('large bodies pass both ways, and a slow reader stops the server', async (t) => {
  let written = 0
  const upstream = await server(t, (stream, headers) => {
    if (headers[':path'] === '/echo') {
      stream.respond({ ':status': 200 })
      stream.pipe(stream)
      return
    }
    stream.respond({ ':status': 200 })
    const piece = Buffer.alloc(65_536)
    const more = (): void => {
      while (stream.writable && !stream.destroyed) {
        written += piece.length
        if (!stream.write(piece)) return
      }
    }
    stream.on('drain', more)
    more()
  })
  const own = await bench(t, make, { port: upstream.port })
  const size = 6 * 1024 * 1024
  const echo = await ask(own, { ':method': 'POST', ':path': '/echo' }, 'e'.repeat(size))
  t.equal(echo.body.length, size)
  const stalled = own.session().request({ ':path': '/endless' })
  stalled.on('error', () => undefined)
  await once(stalled, 'response')
  let before = -1
  for (let quiet = 0; quiet < 20; ) {
    await new Promise((resolve) => setTimeout(resolve, 10))
    quiet = written === before ? quiet + 1 : 0
    before = written
  }
  t.ok(written < 8 * 1024 * 1024, `${written} bytes`)
  // Others of the connection still pass.
  t.equal((await ask(own, { ':method': 'POST', ':path': '/echo' }, 'more')).body, 'more')
  stalled.close()
})

t.test('both directions flow at once, and a client that leaves resets the stream', async (t) => {
  let closed = -1
  const upstream = await server(t, (stream) => {
    stream.respond({ ':status': 200 })
    stream.on('data', (piece: Buffer) => stream.write(piece))
    stream.on('close', () => {
      closed = stream.rstCode ?? -2
    })
  })
  const own = await bench(t, make, { port: upstream.port })
  const request = own.session().request({ ':method': 'POST', ':path': '/' }, { endStream: false })
  request.setEncoding('utf8')
  request.on('error', () => undefined)
  for (const word of ['one', 'two', 'three']) {
    request.write(word)
    const [piece] = await once(request, 'data')
    t.equal(piece, word)
  }
  request.close(CODE.cancel)
  await eventually(() => closed !== -1)
  t.equal(closed, CODE.cancel)
})

t.test('a refused stream may be sent again, and so may one behind the last of a GOAWAY', async (t) => {
  for (const how of ['refused', 'goaway'] as const) {
    const port = await raw(t, (socket) => {
      socket.write(frame(FRAME.settings, 0, 0))
      let asked = false
      socket.on('data', () => {
        if (asked) return
        asked = true
        setTimeout(() => {
          const refused = frame(FRAME.reset, 0, 1, Buffer.from([0, 0, 0, CODE.refusedStream]))
          const goaway = frame(FRAME.goaway, 0, 0, Buffer.alloc(8))
          socket.write(how === 'refused' ? refused : goaway)
        }, 50)
      })
    })
    const own = await bench(t, make, { port })
    t.equal((await ask(own, {})).status, 502)
    t.same(own.failures, [{ failure: 'upstream-gone', retry: 'safe' }], how)
  }
})

t.test('answers that break the rules are malformed', async (t) => {
  const head = (...block: number[]): Buffer => frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.from(block))
  const literal = (name: string, value: string): number[] => [
    0,
    name.length,
    ...Buffer.from(name),
    value.length,
    ...Buffer.from(value)
  ]
  const rules: Record<string, Buffer> = {
    'no HTTP/2 at all': Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
    'no status': head(...literal('x', 'y')),
    'a status that is none': head(...literal(':status', 'abc')),
    'status 101': head(...literal(':status', '101')),
    'two statuses': head(0x88, 0x88),
    'a field of a connection': head(0x88, ...literal('connection', 'close')),
    'a name in upper case': head(0x88, ...literal('X-A', 'b')),
    'two lengths': head(0x88, ...literal('content-length', '1'), ...literal('content-length', '2')),
    'an interim answer that ends': frame(
      FRAME.headers,
      FLAG.endHeaders | FLAG.endStream,
      1,
      Buffer.from(literal(':status', '103'))
    ),
    'DATA before the head': frame(FRAME.data, 0, 1, Buffer.from('x')),
    'DATA on stream 0': frame(FRAME.data, 0, 0, Buffer.from('x')),
    'a stream that was never opened': frame(FRAME.data, 0, 7, Buffer.from('x')),
    'a pushed stream': frame(FRAME.pushPromise, FLAG.endHeaders, 1, Buffer.from([0, 0, 0, 2, 0x82])),
    'a block that is no HPACK': head(0xff, 0xff, 0xff, 0xff, 0xff),
    'CONTINUATION alone': frame(FRAME.continuation, FLAG.endHeaders, 1, Buffer.from([0x88])),
    'SETTINGS of a wrong size': frame(FRAME.settings, 0, 0, Buffer.alloc(5)),
    'PING of a wrong size': frame(FRAME.ping, 0, 0, Buffer.alloc(7)),
    'WINDOW_UPDATE of nothing': frame(FRAME.windowUpdate, 0, 0, Buffer.alloc(4)),
    'a frame that is too large': frame(FRAME.data, 0, 1, Buffer.alloc(16_385)),
    'GOAWAY that is too short': frame(FRAME.goaway, 0, 0, Buffer.alloc(4))
  }
  for (const [rule, bytes] of Object.entries(rules)) {
    const port = await raw(t, (socket) => {
      const plain = rule.startsWith('no HTTP/2')
      if (!plain) socket.write(frame(FRAME.settings, 0, 0))
      let got = Buffer.alloc(0)
      let said = false
      socket.on('data', (chunk: Buffer) => {
        got = Buffer.concat([got, chunk])
        // The request's HEADERS follow the acknowledgement, or come with it.
        if (said || (!plain && !hasHeaders(got))) return
        said = true
        socket.write(bytes)
      })
    })
    const own = await bench(t, make, { port })
    t.equal((await ask(own, {})).headers['x-failure'], 'upstream-malformed', rule)
    t.match(own.failures, [{ retry: 'never' }], rule)
  }
})

function hasHeaders(bytes: Buffer): boolean {
  for (let at = PREFACE.length; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === FRAME.headers) return true
  }
  return false
}

t.test('every wait has its end', async (t) => {
  const silent = await raw(t, (socket) => socket.resume())
  const own = await bench(t, make, { port: silent, timeouts: { connect: 1000 } })
  const asked = ask(own, {})
  await own.until(() => own.exchanges.length === 1)
  own.clock.advance(1500)
  t.equal((await asked).headers['x-failure'], 'dial-timeout', 'no SETTINGS')

  let streams = 0
  const upstream = await server(t, (stream, headers) => {
    streams++
    if (headers[':path'] === '/late') stream.respond({ ':status': 200 })
    if (headers[':path'] === '/late') stream.write('a')
  })
  const other = await bench(t, make, { port: upstream.port, timeouts: { response: 1000, idle: 1000 } })
  const waiting = ask(other, {})
  await eventually(() => streams === 1)
  // The time of the wait begins with the deadline check that follows.
  const late = other.session().request({ ':path': '/late' })
  const closed = new Promise((resolve) => {
    late.on('error', () => undefined)
    late.on('close', resolve)
  })
  const ticks = setInterval(() => other.clock.advance(200), 60)
  t.teardown(() => clearInterval(ticks))
  t.equal((await waiting).headers['x-failure'], 'upstream-timeout', 'no head')
  late.resume()
  await closed
  t.not(late.rstCode, CODE.none, 'no end')
})

t.test('a WebSocket passes as an extended CONNECT where the server takes it', async (t) => {
  let asked: IncomingHttpHeaders = {}
  const plain: Make = (parts) => ({ front: codecServerTransport(parts), back: http2Back(parts) })
  const head = 'GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
  const hello = `${head}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`
  const upstream = await server(
    t,
    (stream, headers) => {
      asked = headers
      stream.respond({ ':status': 200 })
      stream.pipe(stream)
    },
    { enableConnectProtocol: true }
  )
  const own = await bench(t, plain, { port: upstream.port })
  const client = await own.client()
  client.send(hello)
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 101 [\s\S]*s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/)
  client.send('echoed')
  await client.until('echoed')
  t.match(asked, { ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/ws', 'sec-websocket-version': '13' })
  t.equal(asked['sec-websocket-key'], undefined)

  const other = await bench(t, plain, { port: (await server(t, (stream) => stream.close())).port })
  const refused = await other.client()
  refused.send(hello)
  t.equal((await refused.answer()).status, 502)
  t.match(other.failures, [{ failure: 'upstream-malformed', retry: 'never' }])
})

t.test('over TLS the server has to choose HTTP/2', async (t) => {
  for (const chooses of [true, false]) {
    const secure = chooses ? createSecureServer(h2) : createHttps(h2)
    secure.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      stream.respond({ ':status': 200 })
      stream.end(headers[':scheme'])
    })
    secure.listen(0, '127.0.0.1')
    await once(secure, 'listening')
    t.teardown(() => secure.close())
    const { port } = secure.address() as AddressInfo
    const dialer = tlsDialer({ host: '127.0.0.1', port, servername: NAME, ca: h2.cert, http2: true })
    t.equal(dialer.http2, true)
    const own = await bench(t, make, {
      async exchange(exchange, { back }) {
        const { request } = exchange
        const times = { connectTimeout: 0, responseTimeout: 0, idleTimeout: 0 }
        const answer = await forwardTo(back, exchange, dialer, { head: request, body: request.body, ...times })
        if (answer.kind === 'response') await exchange.respond({ status: 200, headers: [] }, answer.body)
        else
          await exchange.respond({
            status: 502,
            headers: ['x-failure', answer.kind === 'failed' ? answer.failure : '']
          })
      }
    })
    const answer = await ask(own, {})
    if (chooses) t.match(answer, { status: 200, body: 'https' })
    else t.equal(answer.headers['x-failure'], 'dial-tls')
  }
})

t.test('the version follows the dialer', async (t) => {
  const asked: string[] = []
  const stub = (name: string) => ({
    forward: () => {
      asked.push(name)
    },
    retainUpstreams: () => undefined,
    endUpstream: () => undefined,
    close: () => undefined
  })
  const back = byVersion(stub('1.1'), stub('2'))
  const dialer = { key: 'k', reusable: true, open: () => Promise.reject(new Error('not dialled')) }
  const ignored = () => undefined
  back.forward({} as never, dialer, {} as never, ignored)
  back.forward({} as never, { ...dialer, http2: true }, {} as never, ignored)
  t.same(asked, ['1.1', '2'])
})
