import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { get, type IncomingMessage, request } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { runAgent } from '../../../src/capabilities/tunnel/command-run.js'
import { labelDialer } from '../../../src/capabilities/tunnel/server/dialer.js'
import { Output } from './agent-output.js'
import { AgentServer, open, TOKEN } from './agent-server.js'
import { answerOf, body } from './agent-suite.js'
import { Front } from './front.js'
import { hashOf, pattern, startEcho, Upstream } from './upstream.js'

const POLICY = `
on_tcp_connect:
  - actions: [{type: restrict-ips, config: {enforce: true, allow: [203.0.113.0/24]}}]
on_http_request:
  - expressions: ["req.url.path == '/secret'"]
    actions: [{type: deny, config: {status_code: 418}}]
  - expressions: ["req.url.path == '/limited'"]
    actions: [{type: rate-limit, config: {name: few, algorithm: sliding_window, capacity: 2, rate: 60s, bucket_key: [conn.client_ip]}}]
  - actions:
      - {type: add-headers, config: {headers: {x-visitor: "\${conn.client_ip}"}}}
      - {type: log, config: {metadata: {path: "\${req.url.path}"}}}
on_http_response:
  - actions: [{type: add-headers, config: {headers: {x-here: 'yes'}}}]
`

/** Flags of an agent with a policy file, and how to run it. */
async function started(t: Test, policy = POLICY) {
  const server = await AgentServer.start(t)
  const folder = t.testdir({ 'ca.pem': server.ca, 'policy.yaml': policy })
  const file = (name: string) => join(folder, name)
  const flags = { server: `127.0.0.1:${server.port}`, ca: file('ca.pem'), policy: file('policy.yaml') }
  const out = new Output()
  const run = (rest: object) => runAgent({ ...flags, ...rest }, { SLUICE_TOKEN: TOKEN }, out)
  const stop = async (running: Promise<number>) => {
    await server.sessions()[0]?.command('stop')
    t.equal(await running, 0)
  }
  return { server, out, run, stop, file }
}

t.test('the policy of a tunnel runs before its target', async (t) => {
  const { server, out, run, stop } = await started(t)
  const upstream = await Upstream.start(t)
  const running = run({ label: ['app=web'], forward: `http://127.0.0.1:${upstream.port}` })
  await out.until(/app=web -> http/)
  const front = await Front.start(t, labelDialer(server.registry, { app: 'web' }, 'http'))

  await t.test('requests', async (t) => {
    const answer = await answerOf(get(`${front.url}/x?y=1`))
    t.same([answer.statusCode, answer.headers['x-here'], await body(answer)], [200, 'yes', 'hello from /x?y=1'])
    const seen = upstream.requests
    t.equal((await answerOf(get(`${front.url}/secret`))).statusCode, 418)
    t.equal((await answerOf(get(`${front.url}/%73ecret`))).statusCode, 418, 'the normal form is what policies see')
    t.equal(upstream.requests, seen, 'the target was not called')
    await out.until(/tunnel: exchange .*"logs":\[\{"path":"\/x"\}\]/)
  })

  await t.test('limits count', async (t) => {
    const statuses = []
    for (let i = 0; i < 3; i++) statuses.push((await answerOf(get(`${front.url}/limited`))).statusCode)
    t.same(statuses, [200, 200, 429])
  })

  await t.test('bodies, many at once', async (t) => {
    const size = 3_000_003
    const upload = request(`${front.url}/hash`, { method: 'POST' })
    Readable.from(pattern(size)).pipe(upload)
    t.equal(await body(await answerOf(upload)), hashOf(size))
    const all = await Promise.all(
      Array.from({ length: 50 }, async (_, id) => body(await answerOf(get(`${front.url}/gather?count=50&id=${id}`))))
    )
    t.same(
      all,
      all.map((_, id) => `gathered ${id}`)
    )
  })

  await t.test('WebSocket and a visitor who leaves', async (t) => {
    const socket = new WebSocket(`ws://127.0.0.1:${front.port}/socket`)
    await once(socket, 'open')
    socket.send('hello')
    const [received] = (await once(socket, 'message')) as [Buffer]
    t.equal(String(received), 'hello')
    socket.close()
    await once(socket, 'close')
    const visit = get(`${front.url}/endless`)
    const answer: IncomingMessage = await answerOf(visit)
    answer.on('error', () => undefined)
    await once(answer, 'data')
    const aborted = once(upstream, 'aborted')
    visit.destroy()
    await aborted
  })

  await t.test('bytes that are no HTTP do not pass by it', async () => {
    const { duplex } = await open(labelDialer(server.registry, { app: 'web' }, 'tcp'))
    duplex.write('anything')
    await new Promise((resolve) => duplex.resume().once('close', resolve))
    await out.until(/cannot be reached: its policy has rules of on_http_request, and this visitor speaks no HTTP/)
  })

  upstream.stop()
  const gone = await answerOf(get(front.url))
  t.same([gone.statusCode, gone.headers['x-here']], [502, 'yes'])
  await stop(running)
})

t.test('the fields that the server has written reach the target, and policies see its client', async (t) => {
  const { server, out, run, stop } = await started(t)
  let came = ''
  const target = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.once('data', (chunk) => {
      came = String(chunk)
      socket.end('HTTP/1.1 204 No Content\r\n\r\n')
    })
  })
  target.listen(0, '127.0.0.1')
  await once(target, 'listening')
  t.teardown(() => target.close())
  const { port } = target.address() as { port: number }
  const running = run({ label: ['app=web'], forward: `http://127.0.0.1:${port}` })
  await out.until(/app=web -> http/)
  const { duplex } = await open(labelDialer(server.registry, { app: 'web' }, 'http'))
  duplex.write(
    'GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1, 203.0.113.9\r\nX-Forwarded-Proto: https\r\n\r\n'
  )
  const [answer] = await once(duplex, 'data')
  t.match(String(answer), /^HTTP\/1\.1 204 /)
  t.match(came, /\r\nX-Forwarded-For: 192\.0\.2\.1, 203\.0\.113\.9\r\n/)
  t.match(came, /\r\nX-Forwarded-Proto: https\r\n/)
  t.match(came, /\r\nx-visitor: 203\.0\.113\.9\r\n/i, 'the visitor of the tunnel')
  duplex.destroy()
  await stop(running)
})

t.test('a policy of a connection guards bytes of any kind', async (t) => {
  for (const [allow, answer] of [
    ['203.0.113.0/24', 'hello bye'],
    ['192.0.2.0/24', '']
  ] as const) {
    const { server, out, run, stop } = await started(
      t,
      `on_tcp_connect: [{actions: [{type: restrict-ips, config: {allow: [${allow}]}}]}]`
    )
    const running = run({ tcp: true, forward: `tcp://127.0.0.1:${await startEcho(t)}` })
    await out.until(/tunnel: tcp:\/\/127/)
    const [wish] = [...server.endpoints.values()]
    if (wish === undefined) throw new Error('not open')
    const { duplex } = await open(wish.dialer)
    duplex.end('hello ')
    const came: Buffer[] = []
    duplex.on('data', (chunk: Buffer) => came.push(chunk))
    await new Promise((resolve) => duplex.once('close', resolve))
    t.equal(String(Buffer.concat(came)), answer)
    await stop(running)
  }
})

t.test('what is wrong is said before anything connects, as sluice check says it', async (t) => {
  const { server, out, run, file } = await started(t)
  const attempt = async (policy: string, rest: object = {}) => {
    await writeFile(file('policy.yaml'), policy)
    out.text = ''
    const code = await run({ label: ['app=web'], forward: 'http://127.0.0.1:9', ...rest })
    return `${code} ${out.text.replaceAll(file('policy.yaml'), 'P')}`
  }
  const rule = (action: string) => `on_http_request:\n  - actions:\n      - ${action}\n`
  t.match(await attempt('on_http_reqest: []'), /^2 P:1:1: error PHASE_UNKNOWN: "on_http_reqest" is no phase/)
  t.match(
    await attempt(rule('{type: forward-internal, config: {url: "http://a.internal"}}')),
    /^2 P:3:16: error ACTION_UNSUPPORTED: forward-internal is not supported: an agent has no internal endpoints/
  )
  t.match(
    await attempt(rule('{type: oauth, config: {provider: google}}')),
    /^2 P:3:16: error ACTION_UNSUPPORTED: oauth/
  )
  t.match(
    await attempt(rule('{type: restrict-ips, config: {ip_policies: [ipp_1]}}')),
    /^2 P:3:\d+: error ACTION_UNSUPPORTED: an agent has no IP policies/
  )
  t.match(
    await attempt(rule(`{type: deny, config: {}}\n    expressions: ["secrets.get('a', 'b') == 'c'"]`)),
    /^2 P:4:\d+: error EXPRESSION_UNKNOWN/
  )
  t.match(
    await attempt(rule('{type: deny, config: {}}'), { label: [], tcp: true, forward: '9' }),
    '2 tunnel: P has rules of on_http_request, and the visitors of this tunnel speak no HTTP\n'
  )
  t.match(
    await attempt('', { policy: '/nowhere' }),
    /^2 \/nowhere cannot be read: there is no such file \(ENOENT\); correct the path/
  )
  t.match(await attempt('', { policy: undefined, endpointPolicy: file('policy.yaml') }), /^2 .*belongs to an endpoint/)
  t.equal(server.attempts, 0)
})
