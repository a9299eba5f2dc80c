import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect, constants, createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { RetryBudget } from '../../src/proxy/retries.js'
import type { Retries } from '../../src/runtime/plan.js'
import { account, create, site, visit } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { onEngines } from '../wire/engines.js'
import { freePort } from './free-port.js'

const HOST = 'shop.example.com'

/** A server; `answer` gets each request with its number, from 1 on. */
async function listening(
  t: Test,
  answer: (response: ServerResponse, count: number, request: IncomingMessage) => void
): Promise<{ readonly port: number; readonly asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    answer(response, asked.length, request)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, asked }
}

/** A POST whose pieces follow each other, after the 100 where one is expected. */
function post(
  sluice: RunningSluice,
  headers: Readonly<Record<string, string>>,
  pieces: readonly string[]
): Promise<{ readonly status: number | undefined; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ port: sluice.port, method: 'POST', headers: { host: HOST, ...headers }, agent: false })
    const write = () => {
      for (const piece of pieces) sent.write(piece)
      sent.end()
    }
    sent.on('error', reject)
    sent.on('response', (response) => {
      text(response).then((body) => resolve({ status: response.statusCode, body }), reject)
    })
    if ('expect' in headers) {
      sent.on('continue', write)
      sent.flushHeaders()
    } else write()
  })
}

async function served(sluice: RunningSluice, ports: readonly number[], fields: object): Promise<void> {
  const ids: string[] = []
  for (const port of ports)
    ids.push((await create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, ...fields })).id)
  const { id } = await create(sluice, '/backends/failover', { backends: ids })
  await site(sluice, HOST, { backend: { backend_id: id } })
}

onEngines('statuses that a backend names are sent again, with methods that allow it', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const first = await listening(t, (response) => response.writeHead(503).end('no'))
  const second = await listening(t, (response) => response.end('yes'))
  await served(sluice, [first.port, second.port], { retries: { on: ['502-504'], methods: 'safe' } })
  t.match(await visit(sluice, HOST), { status: 200, body: 'yes' })
  t.match(await visit(sluice, HOST, { method: 'DELETE' }), { status: 503, body: 'no' })
  t.match(await visit(sluice, HOST, { method: 'POST', body: 'x' }), { status: 503 })
  t.same(second.asked, ['GET /'])
})

onEngines('the same server is asked again when it is the only one, as often as its backend says', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const only = await listening(t, (response, count) => response.writeHead(count < 4 ? 502 : 200).end())
  await served(sluice, [only.port], { retries: { attempts: 4, on: ['502'] } })
  t.equal((await visit(sluice, HOST)).status, 200)
  t.equal(only.asked.length, 4)
})

onEngines('one try is one try, and a status that is not named passes', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const only = await listening(t, (response) => response.writeHead(502).end())
  await served(sluice, [only.port], { retries: { attempts: 1, on: ['502'] } })
  t.equal((await visit(sluice, HOST)).status, 502)
  t.equal(only.asked.length, 1)
})

onEngines('a time-out is sent again only where the backend says so', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const mute = await listening(t, () => undefined)
  const second = await listening(t, (response) => response.end('yes'))
  const timeouts = { response: 0.3 }
  await served(sluice, [mute.port, second.port], { timeouts, retries: { on: ['timeout'] } })
  t.match(await visit(sluice, HOST), { status: 200, body: 'yes' })
  t.equal((await visit(sluice, HOST, { method: 'POST' })).status, 504, 'it may have been processed')
  t.same(second.asked, ['GET /'])
})

onEngines('a server that lost a connection is asked again when the other one is not reached', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const only = await listening(t, (response, count, request) => {
    if (count === 2) request.socket.resetAndDestroy()
    else response.end('yes')
  })
  await served(sluice, [only.port, await freePort()], {})
  t.match(await visit(sluice, HOST), { status: 200 })
  t.match(await visit(sluice, HOST), { status: 200, body: 'yes' })
  t.equal(only.asked.length, 3)
})

/** A server that answers with what it got, and notes it. */
function echoing(t: Test): Promise<{ readonly port: number; readonly asked: string[] }> {
  return listening(t, (response, _count, request) => void request.pipe(response))
}

onEngines(
  'a body that passes through goes on to another server, whole and once, when one was not reached',
  async (t, engine) => {
    const sluice = await startSluice(t, { engine })
    const working = await echoing(t)
    await served(sluice, [await freePort(), await freePort(), working.port], {})
    const long = Array.from({ length: 16 }, (_, i) => String.fromCharCode(97 + i).repeat(65_536))
    for (const [headers, pieces] of [
      [{}, ['a', 'b', 'c']],
      [{}, long],
      [{ 'content-length': '1048576' }, long],
      [{ expect: '100-continue' }, ['a', 'b']]
    ] as const) {
      working.asked.length = 0
      const { status, body } = await post(sluice, headers, pieces)
      t.equal(status, 200)
      t.ok(body === pieces.join(''), `${body.length} bytes`)
      t.same(working.asked, ['POST /'])
    }
  }
)

onEngines('a body that one server was given is given to no other', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const breaking = await listening(t, (_response, _count, request) => {
    request.once('data', () => request.socket.resetAndDestroy())
  })
  const working = await echoing(t)
  await served(sluice, [await freePort(), breaking.port, working.port], {
    retries: { on: ['connect', 'refused_stream', 'closed'] }
  })
  t.match(await post(sluice, {}, ['a', 'b']), { status: 502 })
  t.same(breaking.asked, ['POST /'])
  t.same(working.asked, [])
})

t.test('over HTTP/2, too, for clients of either version', async (t) => {
  const sluice = await startSluice(t)
  const asked: string[] = []
  const server = createHttp2Server((request, response) => {
    asked.push(request.method)
    request.pipe(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  await served(sluice, [await freePort(), (server.address() as AddressInfo).port], { http2: true })
  const pieces = Array.from({ length: 16 }, () => 'x'.repeat(65_536))
  const plain = await post(sluice, {}, pieces)
  t.equal(plain.status, 200)
  t.ok(plain.body === pieces.join(''), `${plain.body.length} bytes`)
  const session = connect(`http://127.0.0.1:${sluice.port}`)
  t.teardown(() => session.destroy())
  const call = session.request({ ':method': 'POST', ':authority': HOST, ':path': '/' })
  for (const piece of pieces) call.write(piece)
  call.end()
  const [head] = await once(call, 'response')
  t.equal(head[':status'], 200)
  t.ok((await text(call)) === pieces.join(''))
  t.same(asked, ['POST', 'POST'])
})

t.test('a spent budget ends retries, and metrics count it', async (t) => {
  const sluice = await startSluice(t, { clock: new ManualClock() })
  const only = await listening(t, (response) => response.writeHead(503).end())
  await served(sluice, [only.port], { retries: { attempts: 2, on: ['503'], per_second: 3, share: 0 } })
  for (let i = 0; i < 6; i++) t.equal((await visit(sluice, HOST)).status, 503)
  t.equal(only.asked.length, 9)
  const { text } = await account(sluice)('/metrics')
  t.match(text, /^sluice_upstream_retries_total 3$/m)
  t.match(text, /^sluice_upstream_retries_refused_total 3$/m)
})

t.test('a stream that HTTP/2 refused unprocessed is sent again, a POST without content, too', async (t) => {
  const sluice = await startSluice(t)
  const asked: string[] = []
  const server = createHttp2Server()
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    asked.push(String(headers[':method']))
    stream.on('error', () => undefined)
    if (asked.length === 1) stream.close(constants.NGHTTP2_REFUSED_STREAM)
    else {
      stream.respond({ ':status': 200 })
      stream.end('yes')
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo
  await served(sluice, [port], { http2: true, retries: { on: ['refused_stream'] } })
  t.match(await visit(sluice, HOST, { method: 'POST' }), { status: 200, body: 'yes' })
  t.same(asked, ['POST', 'POST'])
})

t.test('a server that processes nothing, as at its GOAWAY, is asked again within the three tries', async (t) => {
  const sluice = await startSluice(t)
  let left = 0
  let asked = 0
  const server = createHttp2Server()
  server.on('stream', (stream: ServerHttp2Stream) => {
    asked++
    stream.on('error', () => undefined)
    if (left-- > 0) stream.close(constants.NGHTTP2_REFUSED_STREAM)
    else {
      stream.respond({ ':status': 200 })
      stream.end('yes')
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  await served(sluice, [(server.address() as AddressInfo).port], { http2: true })
  left = 2
  t.match(await visit(sluice, HOST), { status: 200, body: 'yes' })
  t.equal(asked, 3)
  left = 3
  t.match(await visit(sluice, HOST), { status: 502 })
  t.equal(asked, 6)
})

t.test('what is no reason is refused with its place', async (t) => {
  const sluice = await startSluice(t)
  const body = { address: '127.0.0.1:1', retries: { on: ['connect', 'sometimes'] } }
  const answer = await account(sluice)('/backends/static', { method: 'POST', body })
  t.equal(answer.status, 400)
  t.match(answer.text, /entry 1 is none of connect, refused_stream, closed, timeout/)
})

const RULES: Retries = { attempts: 3, on: ['connect'], statuses: [], methods: 'safe' }

t.test('a share of requests bounds retries over any stretch', async (t) => {
  const budget = new RetryBudget(new ManualClock())
  const rules = { ...RULES, share: 0.25 }
  let taken = 0
  for (let i = 0; i < 1_000; i++) {
    budget.earn(rules)
    if (budget.take(rules)) taken++
  }
  t.ok(taken >= 250 && taken <= 260, `${taken}`)
  for (let i = 0; i < 10_000; i++) budget.earn(rules)
  taken = 0
  while (budget.take(rules)) taken++
  t.equal(taken, 10, 'quiet times save up no more than the reserve')
})

t.test('a second has its retries, and the next one has them again', async (t) => {
  const clock = new ManualClock()
  const budget = new RetryBudget(clock)
  const rules = { ...RULES, perSecond: 2 }
  t.same([budget.take(rules), budget.take(rules), budget.take(rules)], [true, true, false])
  clock.advance(1_000)
  t.ok(budget.take(rules))
})
