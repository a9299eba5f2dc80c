import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http, { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import t, { type Test as Tap } from 'tap'
import { systemClock } from '../../src/lib/clock.js'
import type { OutboundRequest } from '../../src/lib/http-client/answer.js'
import {
  type AttemptOutcome,
  createOutbound,
  type Outbound,
  OutboundAttempt,
  type OutboundParts,
  systemRoots
} from '../../src/lib/http-client/outbound.js'
import { follow } from '../../src/lib/http-client/redirects.js'
import type { OutboundOrder, OutboundThreadData } from '../../src/lib/http-client/thread-protocol.js'
import { ThreadedOutbound } from '../../src/lib/http-client/threaded.js'
import { fixture } from '../helpers/files.js'

const pem = (name: string) => readFileSync(fixture(`tls/${name}`), 'utf8')

interface Test {
  teardown(run: () => void): void
}

function client(t: Test, parts: Partial<OutboundParts> = {}) {
  const outbound = createOutbound({ clock: systemClock, allowPrivate: true, ...parts })
  t.teardown(() => outbound.close())
  return outbound
}

const { postMessage: post } = Worker.prototype

type Client = (t: Test, parts?: Omit<OutboundThreadData, 'names'>) => Outbound

/** In the thread of the test itself and in one of its own. */
const PLACES: Readonly<Record<string, Client>> = {
  here: client,
  'in a thread': (t, data = { allowPrivate: true }) => {
    const outbound = new ThreadedOutbound({ names: { resolver: 'own', servers: [] }, ...data })
    t.teardown(() => outbound.close())
    return outbound
  }
}

function everywhere(name: string, run: (t: Tap, client: Client) => Promise<void>): void {
  for (const [place, open] of Object.entries(PLACES)) t.test(`${name} (${place})`, (t) => run(t, open))
}

async function listening(t: Test, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}

const serving = (t: Test, answer: RequestListener) => listening(t, createServer(answer))

function asking(url: string, more: Partial<OutboundRequest> = {}): OutboundRequest {
  return { method: 'GET', url, deadline: 5_000, maxResponseBytes: 1000, ...more }
}

async function contentOf(message: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of message) text += String(chunk)
  return text
}

everywhere('a request goes out as it was given, and the whole answer comes back', async (t, client) => {
  let seen: { line: string; headers: readonly string[]; body: string } | undefined
  const port = await serving(t, async (request, response) => {
    const { method, url, rawHeaders } = request
    seen = { line: `${method} ${url}`, headers: rawHeaders, body: await contentOf(request) }
    response.writeHead(418, { 'X-A': ['1', '2'] }).end('short and stout')
  })
  const outcome = await client(t).request(
    asking(`http://127.0.0.1:${port}/a%20b?c=d#e`, {
      method: 'POST',
      headers: ['X-B', '3', 'Content-Length', '999', 'x-b', '4'],
      body: Buffer.from('hello')
    })
  )
  if (!outcome.ok) throw new Error(outcome.code)
  t.equal(outcome.status, 418)
  t.equal(String(outcome.body), 'short and stout')
  t.equal(outcome.address, '127.0.0.1')
  t.ok(outcome.timeMs >= 0 && outcome.timeMs < 5_000)
  t.same(outcome.headers.slice(0, 4), ['X-A', '1', 'X-A', '2'])
  t.equal(seen?.line, 'POST /a%20b?c=d')
  t.equal(seen?.body, 'hello')
  t.same(seen?.headers.slice(0, 8), ['host', `127.0.0.1:${port}`, 'X-B', '3', 'x-b', '4', 'content-length', '5'])
})

everywhere('connections are kept for requests that may be made twice, and given to nobody else', async (t, client) => {
  let connections = 0
  const server = createServer((_, response) => response.end('ok')).on('connection', () => connections++)
  const port = await listening(t, server)
  const outbound = client(t)
  for (let i = 0; i < 3; i++) t.ok((await outbound.request(asking(`http://127.0.0.1:${port}/`))).ok)
  t.equal(connections, 1)
  for (let i = 0; i < 2; i++) {
    t.ok((await outbound.request(asking(`http://127.0.0.1:${port}/`, { method: 'POST' }))).ok)
  }
  t.equal(connections, 3)
  for (let i = 0; i < 2; i++) {
    t.ok((await outbound.request(asking(`http://127.0.0.1:${port}/`, { method: 'POST', repeatable: true }))).ok)
  }
  t.equal(connections, 3, 'whoever asks knows better than the method')
})

everywhere('an idle connection that the server has closed is no failure', async (t, client) => {
  let requests = 0
  const port = await listening(
    t,
    createTcpServer((socket) => {
      let answered = 0
      socket.on('error', () => undefined)
      socket.on('data', () => {
        requests++
        // The second request on a connection meets a server that has given it up.
        if (answered++ > 0) socket.resetAndDestroy()
        else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
      })
    })
  )
  const outbound = client(t)
  for (let i = 0; i < 3; i++)
    t.match(await outbound.request(asking(`http://127.0.0.1:${port}/`)), { ok: true, status: 200 })
  t.equal(requests, 5)
})

t.test('only public addresses are reached, whatever leads to the others', async (t) => {
  let connections = 0
  const server = createServer((_, response) => response.end('secret')).on('connection', () => connections++)
  const port = await listening(t, server)
  const asked: string[] = []
  const outbound = client(t, {
    allowPrivate: false,
    lookup: async (host) => {
      asked.push(host)
      return host === 'mapped.test' ? ['::ffff:127.0.0.1'] : ['127.0.0.1', '::1', '10.0.0.1']
    }
  })
  const hosts = [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::]',
    '0'
  ]
  for (const host of [...hosts, 'inside.test', 'mapped.test', 'localhost']) {
    t.match(await outbound.request(asking(`http://${host}:${port}/`)), { ok: false, code: 'ADDRESS_REFUSED' }, host)
  }
  t.same(asked, ['inside.test', 'mapped.test', 'localhost'], 'literals are not looked up')
  t.equal(connections, 0)
})

t.test('a name is resolved once, so a second answer of the resolver has no effect', async (t) => {
  const port = await serving(t, (_, response) => response.end('ok'))
  const answers = [['127.0.0.1'], ['192.0.2.1']]
  let calls = 0
  const outbound = client(t, { lookup: async () => answers[calls++] ?? [] })
  t.match(await outbound.request(asking(`http://rebinding.test:${port}/`)), { ok: true, address: '127.0.0.1' })
  t.equal(calls, 1)
})

t.test('the address of the connection itself is looked at before a byte is written', async (t) => {
  const received: Buffer[] = []
  const server = createTcpServer((socket) => socket.on('data', (chunk) => received.push(chunk)))
  const port = await listening(t, server)
  const closed = once(server, 'connection').then(([socket]) => once((socket as Socket).resume(), 'close'))
  const outcome = await new Promise<AttemptOutcome>((resolve) => {
    const sending = http.request({ host: '127.0.0.1', port, method: 'POST' })
    new OutboundAttempt(sending, false, 1000, false, resolve)
    sending.end('secret')
  })
  t.equal(outcome, 'ADDRESS_REFUSED')
  await closed
  t.same(received, [])
})

t.test('every way to fail has its code', async (t) => {
  const outbound = client(t, {
    lookup: async (host) => (host === 'nowhere.test' ? [] : Promise.reject(new Error(host)))
  })
  const code = async (url: string, more: Partial<OutboundRequest> = {}) => {
    const outcome = await outbound.request(asking(url, more))
    return outcome.ok ? outcome.status : outcome.code
  }
  for (const url of [
    '',
    '/relative',
    'ftp://a.test/',
    'http://',
    'http://user:pass@a.test/',
    'https://a b/',
    'file:///etc'
  ]) {
    t.equal(await code(url), 'URL_INVALID', url)
  }
  t.equal(await code('http://nowhere.test/'), 'NAME_UNRESOLVED')
  t.equal(await code('http://failing.test/'), 'NAME_UNRESOLVED')
  const free = createTcpServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const unused = (free.address() as AddressInfo).port
  free.close()
  await once(free, 'close')
  t.equal(await code(`http://127.0.0.1:${unused}/`), 'CONNECT_FAILED')

  const raw = (answer: string, end = true) => {
    return listening(
      t,
      createTcpServer((socket) => {
        socket.on('error', () => undefined)
        socket.once('data', () => (end ? socket.end(answer) : socket.write(answer)))
      })
    )
  }
  t.equal(await code(`http://127.0.0.1:${await raw('nonsense\r\n\r\n')}/`), 'RESPONSE_MALFORMED')
  t.equal(await code(`http://127.0.0.1:${await raw('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf')}/`), 'BROKEN')
  t.equal(await code(`http://127.0.0.1:${await raw('')}/`), 'BROKEN')
  t.equal(
    await code(`http://127.0.0.1:${await raw('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel')}/`),
    'BROKEN'
  )
  t.equal(
    await code(`http://127.0.0.1:${await raw('HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n')}/`),
    'BROKEN'
  )
  const silent = await raw('', false)
  t.equal(await code(`http://127.0.0.1:${silent}/`, { deadline: 50 }), 'TIMEOUT')
  t.equal(await code(`http://127.0.0.1:${silent}/`, { deadline: -1 }), 'TIMEOUT')
  const dripping = await raw('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf', false)
  t.equal(await code(`http://127.0.0.1:${dripping}/`, { deadline: 50 }), 'TIMEOUT')
  t.equal(await code(`http://127.0.0.1:${silent}/`, { signal: AbortSignal.abort() }), 'ABORTED')
  const controller = new AbortController()
  const pending = code(`http://127.0.0.1:${silent}/`, { signal: controller.signal })
  controller.abort()
  t.equal(await pending, 'ABORTED')
})

everywhere('an answer beyond its limit is given up while it comes', async (t, client) => {
  let written = 0
  const port = await serving(t, (_, response) => {
    const write = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(1000))) written++
    }
    response.on('drain', write)
    write()
  })
  t.match(await client(t).request(asking(`http://127.0.0.1:${port}/`)), { ok: false, code: 'RESPONSE_TOO_LARGE' })
  t.ok(written < 10_000)
  const exact = await serving(t, (_, response) => response.end(Buffer.alloc(1000)))
  t.match(await client(t).request(asking(`http://127.0.0.1:${exact}/`)), { ok: true, status: 200 })
})

t.test('TLS checks certificate and name', async (t) => {
  const identity = { cert: pem('localhost.crt'), key: pem('localhost.key') }
  let names: (string | undefined)[] = []
  const server = createSecureServer(identity, (_, response) => response.end('ok'))
  server.on('secureConnection', (socket) => names.push((socket as { servername?: string }).servername))
  const port = await listening(t, server)
  const lookup = async () => ['127.0.0.1']
  const trusting = client(t, { lookup, authorities: [identity.cert] })
  t.match(await trusting.request(asking(`https://localhost:${port}/`)), { ok: true, status: 200, address: '127.0.0.1' })
  t.same(names, ['localhost'])
  names = []
  t.match(await trusting.request(asking(`https://other.test:${port}/`)), { ok: false, code: 'TLS_FAILED' })
  const strict = client(t, { lookup })
  t.match(await strict.request(asking(`https://localhost:${port}/`)), { ok: false, code: 'TLS_FAILED' })
  const plain = await serving(t, (_, response) => response.end('ok'))
  t.match(await trusting.request(asking(`https://localhost:${plain}/`)), { ok: false, code: 'TLS_FAILED' })
})

t.test('authorities are the system’s', async (t) => {
  t.match(systemRoots(undefined).join('\n'), /-----BEGIN CERTIFICATE-----/)
  const named = fixture('tls/localhost.crt').pathname
  t.same(systemRoots(named), [pem('localhost.crt')])
  t.throws(() => systemRoots('/nowhere/at/all.pem'), { code: 'ENOENT' })
})

everywhere('redirects are followed as browsers do, each with its own check', async (t, client) => {
  const seen: string[] = []
  const record = async (request: IncomingMessage): Promise<void> => {
    const { method, url, headers } = request
    const body = await contentOf(request)
    seen.push([method, url, headers.authorization ?? '-', headers['content-type'] ?? '-', body || '-'].join(' '))
  }
  const other = await serving(t, async (request, response) => {
    await record(request)
    response.end('other')
  })
  const places: Readonly<Record<string, readonly [number, string]>> = {
    '/301': [301, '/end'],
    '/303': [303, 'end?x#frag'],
    '/307': [307, '/end'],
    '/other': [308, `http://127.0.0.1:${other}/there`],
    '/loop': [302, '/loop'],
    '/bad': [302, 'http://a b/'],
    '/file': [302, 'file:///etc/passwd']
  }
  const port = await serving(t, async (request, response: ServerResponse) => {
    await record(request)
    const place = places[request.url ?? '']
    if (place === undefined) response.end('end')
    else response.writeHead(place[0], { location: place[1] }).end()
  })
  const outbound = client(t)
  const go = async (path: string, most = 5) => {
    seen.length = 0
    const request = asking(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: ['authorization', 'me', 'content-type', 'text/plain'],
      body: Buffer.from('b')
    })
    return follow(outbound, request, most, systemClock)
  }
  t.match(await go('/301'), { method: 'GET', url: `http://127.0.0.1:${port}/end`, outcome: { ok: true, status: 200 } })
  t.same(seen, ['POST /301 me text/plain b', 'GET /end me - -'])
  t.match(await go('/303'), { method: 'GET', url: `http://127.0.0.1:${port}/end?x` })
  t.match(await go('/307'), { method: 'POST' })
  t.same(seen, ['POST /307 me text/plain b', 'POST /end me text/plain b'])
  t.match(await go('/other'), { outcome: { ok: true, status: 200 } })
  t.same(seen, ['POST /other me text/plain b', 'POST /there - text/plain b'], 'credentials stay with their origin')
  t.match(await go('/loop', 3), { outcome: { ok: false, code: 'REDIRECT_REFUSED' } })
  t.equal(seen.length, 4)
  t.match(await go('/bad'), { outcome: { ok: false, code: 'REDIRECT_REFUSED' } })
  t.match(await go('/file'), { outcome: { ok: false, code: 'URL_INVALID' } })
  t.match(await go('/301', 0), { outcome: { ok: true, status: 301 } }, 'without leave the redirect is the answer')
})

everywhere('a redirect to a private address or away from https is refused', async (t, client) => {
  const asked: string[] = []
  const guarded = client(t, { allowPrivate: false })
  const redirecting = (location: string) => ({
    request: async (request: OutboundRequest) => {
      asked.push(request.url)
      if (asked.length > 1) return guarded.request(request)
      return {
        ok: true as const,
        status: 302,
        headers: ['Location', location],
        body: Buffer.alloc(0),
        address: '1.1.1.1',
        timeMs: 1
      }
    },
    close: () => undefined
  })
  const inside = await follow(redirecting('http://169.254.169.254/latest'), asking('http://a.test/'), 3, systemClock)
  t.match(inside, { url: 'http://169.254.169.254/latest', outcome: { ok: false, code: 'ADDRESS_REFUSED' } })
  asked.length = 0
  const downgraded = await follow(redirecting('http://a.test/'), asking('https://a.test/'), 3, systemClock)
  t.match(downgraded, { outcome: { ok: false, code: 'REDIRECT_REFUSED' } })
  t.equal(asked.length, 1)
})

t.test('a thread gives up what nobody waits for, and another takes its place when it dies', async (t) => {
  const open = PLACES['in a thread'] as Client
  const closed: string[] = []
  const port = await serving(t, (request, response) => {
    response.on('close', () => closed.push(request.url ?? ''))
    if (request.url === '/') response.end('ok')
  })
  const outbound = open(t)
  const ending = new AbortController()
  const given = outbound.request(asking(`http://127.0.0.1:${port}/slow`, { signal: ending.signal }))
  t.match(await outbound.request(asking(`http://127.0.0.1:${port}/`)), { ok: true, status: 200 })
  ending.abort()
  t.match(await given, { ok: false, code: 'ABORTED' })
  while (!closed.includes('/slow')) await new Promise(setImmediate)
  t.match(await outbound.request(asking(`http://127.0.0.1:${port}/late`, { deadline: 20 })), { code: 'TIMEOUT' })
  t.match(await outbound.request(asking('ftp://x/')), { ok: false, code: 'URL_INVALID' })
  t.match(await outbound.request(asking('x', { signal: AbortSignal.abort() })), { ok: false, code: 'ABORTED' })
  const { SSL_CERT_FILE: bundle } = process.env
  process.env.SSL_CERT_FILE = '/no/such/file'
  t.match(await open(t).request(asking(`https://127.0.0.1:${port}/`)), { ok: false, code: 'TLS_FAILED' })
  if (bundle === undefined) delete process.env.SSL_CERT_FILE
  else process.env.SSL_CERT_FILE = bundle
  const dying = t.capture(Worker.prototype, 'postMessage', function (this: Worker, message: OutboundOrder) {
    post.call(this, message)
    void this.terminate()
  })
  t.match(await outbound.request(asking(`http://127.0.0.1:${port}/slow`)), { ok: false, code: 'BROKEN' })
  dying.restore()
  t.match(await outbound.request(asking(`http://127.0.0.1:${port}/`)), { ok: true, status: 200 })
  const waiting = outbound.request(asking(`http://127.0.0.1:${port}/slow`))
  outbound.close()
  t.match(await waiting, { ok: false, code: 'ABORTED' })
  t.match(await outbound.request(asking(`http://127.0.0.1:${port}/`)), { ok: false, code: 'ABORTED' })
})
