import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { get, type IncomingMessage, type RequestOptions, request } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { connect as connectTls, createServer } from 'node:tls'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { account, create, visit } from '../../../helpers/account.js'
import { type Engine, engines } from '../../../helpers/sluice.js'
import { until } from '../../../helpers/until.js'
import { freePort } from '../../../proxy/free-port.js'
import { authority, certificate } from '../../../proxy/tls-client.js'
import { type AgentKind, answerOf, body } from '../agent-suite.js'
import { hashOf, pattern, startEcho, Upstream } from '../upstream.js'
import { type Product, startProduct } from './product.js'

const LABELS = { app: 'web', zone: 'a' }
const HOST = 'app.example.com'

/** What every agent must do with the product. */
export function runProductSuite(kind: AgentKind): void {
  for (const engine of engines)
    t.test(`${kind.name}, ${engine}: a labelled tunnel behind an edge`, (t) => labelled(t, kind, engine))

  t.test(`${kind.name}: sessions, tunnels and backends show each other`, async (t) => {
    const product = await startProduct(t)
    const { sluice, agents } = product
    const { id: credential, token } = await product.credential()
    const upstream = await Upstream.start(t)
    const backend = await product.site(HOST, { app: 'web' })
    t.equal((await visit(sluice, HOST)).status, 503, 'nobody is there yet')
    const agent = await kind.start(agents, token, { labels: LABELS, target: upstream.port })
    t.teardown(() => agent.close())
    const ask = account(sluice)
    const sessions = (await ask('/tunnel_sessions')).json.tunnel_sessions
    t.match(sessions, [
      { id: /^ts_/, credential: { id: credential }, ip: '127.0.0.1', transport: 'ngrok/2', region: 'global' }
    ])
    const { tunnels } = (await ask('/tunnels')).json
    t.match(tunnels, [
      { id: agent.id, labels: LABELS, tunnel_session: { id: sessions[0].id }, backends: [{ id: backend }] }
    ])
    t.match((await ask(`/backends/tunnel_group/${backend}`)).json, { tunnels: [{ id: agent.id }] })
    await agent.close()
    await product.until('/tunnels', (json) => (json.tunnels as unknown[]).length === 0)
    t.same((await ask(`/backends/tunnel_group/${backend}`)).json.tunnels, [])
    const gone = await visit(sluice, HOST)
    t.same([gone.status, gone.headers['sluice-error-code']], [503, 'NO_TUNNEL'])
  })

  t.test(`${kind.name}: an endpoint of its own with a policy`, async (t) => {
    const product = await startProduct(t)
    const { sluice, agents } = product
    const { token } = await product.credential()
    const upstream = await Upstream.start(t)
    const policy = JSON.stringify({
      on_http_request: [
        { expressions: ["req.url.path == '/secret'"], actions: [{ type: 'deny', config: { status_code: 418 } }] }
      ],
      on_http_response: [{ actions: [{ type: 'add-headers', config: { headers: { 'x-seen': 'yes' } } }] }]
    })
    const offer = { endpoint: 'https', target: upstream.port } as const
    const agent = await kind.start(agents, token, { ...offer, at: HOST, policy })
    t.equal(agent.url, `https://${HOST}`)
    const answer = await visit(sluice, HOST, { path: '/x' })
    t.same([answer.status, answer.body, answer.headers['x-seen']], [200, 'hello from /x', 'yes'])
    t.equal((await visit(sluice, HOST, { path: '/secret' })).status, 418)
    const shown = (await account(sluice)('/endpoints')).json.endpoints
    t.match(shown, [{ url: `https://${HOST}`, type: 'ephemeral', source: 'agent', tunnel: { id: agent.id } }])
    const line = await sluice.line(({ route }) => typeof route === 'string' && route.includes(HOST))
    t.ok(line, 'its exchanges are in the access log')
    await t.rejects(
      kind.start(agents, token, { ...offer, at: 'b.example.com', policy: '{"on_http_request": 1}' }),
      /traffic policy/
    )
    await t.rejects(kind.start(agents, token, { ...offer, at: 'x.internal' }), /internal/)
    const made = await kind.start(agents, token, offer)
    t.match(made.url, /^https:\/\/[0-9a-f]{16}\.sluice\.localhost$/)
    t.equal((await visit(sluice, new URL(made.url).hostname)).body, 'hello from /')
    await made.close()
    await agent.close()
    await product.until('/endpoints', (json) => (json.endpoints as unknown[]).length === 0)
    await until(async () => (await visit(sluice, HOST)).status === 404)
  })

  t.test(`${kind.name}: a TCP endpoint of its own`, async (t) => {
    const { sluice, agents, credential, until } = await startProduct(t)
    const { token } = await credential()
    const agent = await kind.start(agents, token, { endpoint: 'tcp', target: await startEcho(t) })
    const { hostname, port } = new URL(agent.url.replace('tcp:', 'http:'))
    t.equal(hostname, '127.0.0.1')
    t.equal(await said(Number(port)), 'hello bye')
    t.match((await account(sluice)('/endpoints')).json.endpoints, [{ proto: 'tcp', port: Number(port) }])
    await agent.close()
    await until('/endpoints', (json) => (json.endpoints as unknown[]).length === 0)
  })

  t.test(`${kind.name}: a TLS endpoint of its own, whose TLS ends behind the agent`, async (t) => {
    const port = await freePort()
    const product = await startProduct(t, { options: { LISTENERS: `https://127.0.0.1:${port}` } })
    const { sluice, agents } = product
    const { token } = await product.credential()
    const { target, ca } = await tlsEcho(t, HOST)
    const agent = await kind.start(agents, token, { endpoint: 'tls', at: HOST, target })
    t.equal(agent.url, `tls://${HOST}`)
    t.equal(await saidByTls(port, HOST, ca), `${HOST}: hello`)
    const shown = (await account(sluice)('/endpoints')).json.endpoints
    t.match(shown, [{ proto: 'tls', url: `tls://${HOST}`, port: 443, tunnel: { id: agent.id } }])
    await t.rejects(kind.start(agents, token, { endpoint: 'https', at: HOST, target }), /already served/)
    const { id } = await create(sluice, '/backends/tunnel_group', { labels: LABELS })
    const edge = { hostports: ['edge.example.com:443'], tls: 'passthrough', backend: { backend_id: id } }
    await create(sluice, '/edges/tcp', edge)
    const labelled = await kind.start(agents, token, { labels: LABELS, target })
    t.equal(await saidByTls(port, 'edge.example.com', ca, HOST), 'edge.example.com: hello')
    await t.rejects(kind.start(agents, token, { endpoint: 'tls', at: 'edge.example.com', target }), /served by an edge/)
    await labelled.close()
    await agent.close()
    await product.until('/endpoints', ({ endpoints }) =>
      (endpoints as { url: string }[]).every(({ url }) => url !== agent.url)
    )
  })

  t.test(`${kind.name}: refusals reach its user`, async (t) => {
    const product = await startProduct(t)
    const { sluice, agents } = product
    const { id, token } = await product.credential({ acl: ['bind:app=*', 'bind:*.example.com'] })
    const target = 9
    await t.rejects(kind.start(agents, 'nonsense', { labels: LABELS, target }), /not that of a tunnel credential/)
    await t.rejects(kind.start(agents, id, { labels: LABELS, target }), /the id of a credential, not its token/)
    await t.rejects(kind.start(agents, token, { labels: { other: 'x' }, target }), /does not allow the labels other=x/)
    await t.rejects(
      kind.start(agents, token, { endpoint: 'https', at: 'app.example.org', target }),
      /does not allow the name/
    )
    await t.rejects(kind.start(agents, token, { endpoint: 'tcp', target }), /any free port/)
    await product.site('taken.example.com', { app: 'web' })
    await t.rejects(
      kind.start(agents, token, { endpoint: 'https', at: 'taken.example.com', target }),
      /served by an edge/
    )
    const key = await create(sluice, '/api_keys', {})
    await t.rejects(kind.start(agents, key.token, { labels: LABELS, target }), /a key of the management API/)
  })

  t.test(
    `${kind.name}: a deleted credential ends what it opened, and an answer under way does not look whole`,
    async (t) => {
      const product = await startProduct(t)
      const { sluice, agents } = product
      const { id, token } = await product.credential()
      const upstream = await Upstream.start(t)
      await product.site(HOST, LABELS)
      const agent = await kind.start(agents, token, { labels: LABELS, target: upstream.port })
      // Whose session was ended from outside may take its time to notice.
      t.teardown(() => void agent.close())
      const open = await answerOf(get(at(product, '/endless')))
      await once(open, 'data')
      open.on('error', () => undefined)
      const broken = new Promise((resolve) => open.once('close', resolve))
      t.equal((await account(sluice)(`/credentials/${id}`, { method: 'DELETE' })).status, 204)
      t.match(await agent.stopped, /the credential was deleted/)
      await broken
      t.notOk(open.complete)
      t.equal((await visit(sluice, HOST)).status, 503)
      await t.rejects(kind.start(agents, token, { labels: LABELS, target: 9 }), /not that of a tunnel credential/)
    }
  )
}

async function labelled(t: Test, kind: AgentKind, engine: Engine): Promise<void> {
  const product = await startProduct(t, { engine })
  const { sluice, agents } = product
  const { token } = await product.credential()
  const upstream = await Upstream.start(t)
  const rule = { actions: [{ type: 'add-headers', config: { headers: { 'x-policy': 'ran' } } }] }
  await product.site(HOST, { app: 'web' }, { traffic_policy: { value: JSON.stringify({ on_http_response: [rule] }) } })
  const agent = await kind.start(agents, token, { labels: LABELS, target: upstream.port })
  t.teardown(() => agent.close())
  const answer = await visit(sluice, HOST, { path: '/x?y=1' })
  t.same([answer.status, answer.body, answer.headers['x-policy']], [200, 'hello from /x?y=1', 'ran'])

  const size = 3_000_003
  const upload = request({ ...at(product, '/hash'), method: 'POST' })
  Readable.from(pattern(size)).pipe(upload)
  t.equal(await body(await answerOf(upload)), hashOf(size), 'upload')
  const hash = createHash('sha256')
  for await (const chunk of await answerOf(get(at(product, `/bytes?count=${size}`)))) hash.update(chunk as Buffer)
  t.equal(hash.digest('hex'), hashOf(size), 'download')

  const events = (await answerOf(get(at(product, '/events'))))[Symbol.asyncIterator]()
  t.equal(String((await events.next()).value), 'data: 1\n\n')
  upstream.emit('next event')
  t.equal(String((await events.next()).value), 'data: 2\n\n')
  t.ok((await events.next()).done, 'events')

  const socket = new WebSocket(`ws://127.0.0.1:${sluice.port}/socket`, { headers: { host: HOST } })
  await once(socket, 'open')
  const bytes = Buffer.alloc(70_000, 7)
  socket.send(bytes)
  const [received] = (await once(socket, 'message')) as [Buffer]
  t.ok(received.equals(bytes), 'WebSocket')
  socket.close()
  await once(socket, 'close')

  const endless = get(at(product, '/endless'))
  const begun: IncomingMessage = await answerOf(endless)
  begun.on('error', () => undefined)
  await once(begun, 'data')
  const aborted = once(upstream, 'aborted')
  endless.destroy()
  await aborted
  const many = await Promise.all(
    Array.from({ length: 50 }, (_, index) => visit(sluice, HOST, { path: `/gather?count=50&id=${index}` }))
  )
  t.same(
    many.map((one) => one.body),
    many.map((_, index) => `gathered ${index}`)
  )
}

function at({ sluice }: Product, path: string): RequestOptions {
  return { host: '127.0.0.1', port: sluice.port, path, headers: { host: HOST }, agent: false }
}

async function said(port: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true })
  socket.end('hello ')
  const all = String(Buffer.concat(await socket.toArray()))
  socket.destroy()
  return all
}

/** A TLS server with a certificate for `name`, which answers by the name that the client asked for and what it said. */
async function tlsEcho(t: Test, name: string): Promise<{ readonly target: number; readonly ca: string }> {
  const ca = await authority('Agents')
  const { pem: cert, key } = await certificate(name, ca, [name])
  const server = createServer({ cert, key }, (socket) => {
    socket.on('error', () => undefined)
    socket.once('data', (chunk: Buffer) => socket.end(`${socket.servername}: ${chunk}`))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { target: (server.address() as { port: number }).port, ca: ca.pem }
}

/** Answer to a hello by TLS; the certificate must be one for `certified`. */
async function saidByTls(port: number, servername: string, ca: string, certified = servername): Promise<string> {
  const checkServerIdentity = (_: string, shown: { subjectaltname?: string }) =>
    shown.subjectaltname === `DNS:${certified}` ? undefined : new Error(`shown ${shown.subjectaltname}`)
  const socket = connectTls({ host: '127.0.0.1', port, servername, ca, checkServerIdentity })
  await once(socket, 'secureConnect')
  socket.write('hello')
  return String(Buffer.concat(await socket.toArray()))
}
