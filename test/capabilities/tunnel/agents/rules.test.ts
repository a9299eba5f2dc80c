import 'reflect-metadata'
import { Resolver } from 'node:dns/promises'
import { once } from 'node:events'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { createServer, connect as dial, type Socket } from 'node:net'
import { join } from 'node:path'
import { checkServerIdentity, connect, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { account, create, site, visit } from '../../../helpers/account.js'
import { engines, startSluice } from '../../../helpers/sluice.js'
import { issue } from '../../../resources/certificates.js'
import { answerOf } from '../agent-suite.js'
import { ourAgent } from '../our-agent.js'
import { RawAgent } from '../raw-agent.js'
import { Upstream } from '../upstream.js'
import { type Product, startProduct } from './product.js'

const HOST = 'app.example.com'
const LABELS = { app: 'web' }

async function running(t: Test) {
  const product = await startProduct(t)
  const credential = await product.credential()
  const upstream = await Upstream.start(t)
  const agent = await ourAgent.start(product.agents, credential.token, { labels: LABELS, target: upstream.port })
  t.teardown(() => agent.close())
  return { product, credential, upstream, agent, ask: account(product.sluice) }
}

const none = (list: string) => (json: { readonly [key: string]: unknown }) => (json[list] as unknown[]).length === 0

t.test('commands of the API reach the agent', async (t) => {
  const { product, ask } = await running(t)
  const [session] = (await ask('/tunnel_sessions')).json.tunnel_sessions
  const restart = await ask(`/tunnel_sessions/${session.id}/update`, { method: 'POST' })
  t.equal(restart.status, 503, 'our agent does not update itself')
  t.match(restart.json.msg, /the agent does not update/)
  t.equal((await ask(`/tunnel_sessions/${session.id}/stop`, { method: 'POST' })).status, 204)
  await product.until('/tunnel_sessions', none('tunnel_sessions'))
  t.equal((await ask(`/tunnel_sessions/${session.id}/stop`, { method: 'POST' })).status, 404)
})

t.test('a bot that is made inactive loses the sessions of its credentials', async (t) => {
  const product = await startProduct(t)
  const { sluice, agents } = product
  const ask = account(sluice)
  const bot = await create(sluice, '/bot_users', { name: 'builder' })
  const { token } = await product.credential({ owner_id: bot.id })
  const agent = await ourAgent.start(agents, token, { labels: LABELS, target: 9 })
  t.teardown(() => agent.close())
  const change = (active: boolean) => ask(`/bot_users/${bot.id}`, { method: 'PATCH', body: { active } })
  t.equal((await change(false)).status, 200)
  t.match(await agent.stopped, /owner of this credential is not active/)
  await product.until('/tunnel_sessions', none('tunnel_sessions'))
  await t.rejects(ourAgent.start(agents, token, { labels: LABELS, target: 9 }), /is not active/)
  await change(true)
  const again = await ourAgent.start(agents, token, { labels: LABELS, target: 9 })
  t.teardown(() => again.close())
  await ask(`/bot_users/${bot.id}`, { method: 'DELETE' })
  t.match(await again.stopped, /deleted|not active/)
})

t.test('rules that become stricter end the tunnels that they allow no more', async (t) => {
  const { product, credential, agent, ask } = await running(t)
  const other = await ourAgent.start(product.agents, credential.token, { labels: { db: 'x' }, target: 9 })
  t.teardown(() => other.close())
  await ask(`/credentials/${credential.id}`, { method: 'PATCH', body: { acl: ['bind:db=*'] } })
  t.match(await agent.stopped, /does not allow the labels app=web/)
  t.match((await ask('/tunnels')).json.tunnels, [{ labels: { db: 'x' } }])
  t.equal((await ask('/tunnels')).json.tunnels.length, 1)
})

t.test('an IP restriction of agents: told, then enforced', async (t) => {
  const { product, credential, agent, ask } = await running(t)
  const policy = await create(product.sluice, '/ip_policies', {})
  await create(product.sluice, '/ip_policy_rules', {
    cidr: '192.0.2.0/24',
    ip_policy_id: policy.id,
    action: 'allow'
  })
  const restriction = await create(product.sluice, '/ip_restrictions', {
    type: 'agent',
    enforced: false,
    ip_policy_ids: [policy.id]
  })
  const told = await ourAgent.start(product.agents, credential.token, { labels: { a: 'b' }, target: 9 })
  t.teardown(() => told.close())
  await product.sluice.line(({ msg }) => String(msg).includes('would refuse this address'))
  const path = `/ip_restrictions/${restriction.id}`
  t.equal((await ask(path, { method: 'PATCH', body: { enforced: true } })).status, 200)
  t.match(await told.stopped, /an IP restriction refuses/)
  t.match(await agent.stopped, /an IP restriction refuses/)
  await t.rejects(RawAgent.connect(product.agents as never), 'refused before the handshake')
  await ask(path, { method: 'DELETE' })
  const again = await ourAgent.start(product.agents, credential.token, { labels: LABELS, target: 9 })
  await again.close()
})

for (const engine of engines) {
  t.test(`${engine}: an agent that dies in mid-request gives 502, or an answer that does not look whole`, async (t) => {
    const product = await startProduct(t, { engine })
    const { token } = await product.credential()
    await product.site(HOST, LABELS)
    const agent = await RawAgent.session(product.agents as never, token)
    await agent.call(7, { Labels: LABELS })
    const dead = visit(product.sluice, HOST)
    await agent.until(() => agent.frames.some(({ body }) => String(body).includes('GET /')))
    agent.socket.destroy()
    t.equal((await dead).status, 502)
    const upstream = await Upstream.start(t)
    const second = await ourAgent.start(product.agents, token, { labels: LABELS, target: upstream.port })
    const where = { host: '127.0.0.1', port: product.sluice.port, headers: { host: HOST }, agent: false }
    const answer = await answerOf(get({ ...where, path: '/endless' }))
    answer.on('error', () => undefined)
    await once(answer, 'data')
    const broken = new Promise((resolve) => answer.once('close', resolve))
    upstream.stop()
    await broken
    t.notOk(answer.complete)
    await second.close()
  })
}

for (const engine of engines) {
  t.test(`${engine}: a target that an agent cannot reach is a server that refuses`, async (t) => {
    const product = await startProduct(t, { engine })
    const { sluice, agents } = product
    const { token } = await product.credential()
    const agent = await ourAgent.start(agents, token, { labels: LABELS, target: await freePort() })
    t.teardown(() => agent.close())
    const group = await product.site(HOST, LABELS)
    const spare = await create(sluice, '/backends/http_response', { status_code: 200, body: 'spare' })
    const failover = await create(sluice, '/backends/failover', { backends: [group, spare.id] })
    const edge = await create(sluice, '/edges/https', { hostports: ['spare.example.com:443'] })
    const route = { match: '/', match_type: 'path_prefix', backend: { backend_id: failover.id } }
    await create(sluice, `/edges/https/${edge.id}/routes`, route)
    const alone = await visit(sluice, HOST)
    t.same([alone.status, alone.headers['sluice-error-code']], [502, 'UPSTREAM_REFUSED'])
    const answers = [
      await visit(sluice, 'spare.example.com'),
      await visit(sluice, 'spare.example.com', { method: 'POST' })
    ]
    t.same(
      answers.map(({ status, body }) => [status, body]),
      [
        [200, 'spare'],
        [200, 'spare']
      ],
      'no byte of the request has left, so that any request goes to the next'
    )
  })
}

t.test(
  'several agents of one group share its visitors, and one that turns them away loses them to the others',
  async (t) => {
    const { product, credential, upstream } = await running(t)
    await product.site(HOST, LABELS)
    const other = await Upstream.start(t)
    const second = await ourAgent.start(product.agents, credential.token, { labels: LABELS, target: other.port })
    t.teardown(() => second.close())
    const paths = Array.from({ length: 20 }, (_, index) => `/events?n=${index}`)
    const open = paths.map((path) =>
      answerOf(get({ host: '127.0.0.1', port: product.sluice.port, headers: { host: HOST }, agent: false, path }))
    )
    const answers = await Promise.all(open)
    t.same([upstream.requests, other.requests], [10, 10], 'fewest visitors first')
    for (const answer of answers) answer.destroy()
    await second.close()
    await product.until('/tunnels', (json) => (json.tunnels as unknown[]).length === 1)
    for (let n = 0; n < 10; n++) t.equal((await visit(product.sluice, HOST)).status, 200)
  }
)

t.test('a TCP edge through a tunnel', async (t) => {
  const { product, credential } = await running(t)
  const target = await echo(t)
  const agent = await ourAgent.start(product.agents, credential.token, { labels: { tcp: 'echo' }, target })
  t.teardown(() => agent.close())
  const backend = await create(product.sluice, '/backends/tunnel_group', { labels: { tcp: 'echo' } })
  const port = await freePort()
  await create(product.sluice, '/edges/tcp', {
    hostports: [`tcp.example.com:${port}`],
    backend: { backend_id: backend.id }
  })
  const socket = dial({ host: '127.0.0.1', port })
  socket.write('ping')
  const [answer] = (await once(socket, 'data')) as [Buffer]
  t.equal(String(answer), 'ping')
  socket.destroy()
})

t.test('a name that an edge takes is no longer the agent’s', async (t) => {
  const { product, credential } = await running(t)
  const agent = await ourAgent.start(product.agents, credential.token, { endpoint: 'https', at: HOST, target: 9 })
  t.teardown(() => agent.close())
  await product.site(HOST, { nobody: 'here' })
  t.match(await agent.stopped, /belongs to an edge now/)
  t.equal((await visit(product.sluice, HOST)).status, 503, 'the edge serves')
})

t.test('an agent ingress is served under its name, with its own certificate where it has one', async (t) => {
  const { product, ask } = await running(t)
  const name = 'tunnel.global.connect.example.com'
  await create(product.sluice, '/agent_ingresses', { domain: 'connect.example.com' })
  const first = await handshake(product, name)
  t.equal(checkServerIdentity(name, first.getPeerCertificate()), undefined, 'our own certificate names it')
  first.destroy()
  const { pem, key } = await issue({ subject: `CN=${name}`, extensions: await names(name) })
  const made = await ask('/tls_certificates', { method: 'POST', body: { certificate_pem: pem, private_key_pem: key } })
  t.equal(made.status, 201, made.text)
  const socket = await handshake(product, name, pem)
  t.match(socket.getPeerCertificate().subject, { CN: name })
  socket.destroy()
})

t.test('who may connect, and where, is live when a write is answered', async (t) => {
  const product = await startProduct(t, { options: { DNS_LISTEN: '127.0.0.1:0', DNS_ADDRESSES: '192.0.2.7' } })
  const ask = account(product.sluice)
  const line = await product.sluice.line(({ msg }) => msg === 'the DNS of challenges is served')
  const resolver = new Resolver({ timeout: 2_000, tries: 1 })
  resolver.setServers([`127.0.0.1:${(line.dns as { port: number }).port}`])
  for (let n = 0; n < 8; n++) {
    const name = `tunnel.global.connect${n}.example.com`
    const made = await create(product.sluice, '/agent_ingresses', { domain: `connect${n}.example.com` })
    t.same(await resolver.resolve4(name), ['192.0.2.7'], 'the name server knows it')
    const socket = await handshake(product, name)
    t.equal(checkServerIdentity(name, socket.getPeerCertificate()), undefined, 'the listener names it')
    socket.destroy()
    t.equal((await ask(`/agent_ingresses/${made.id}`, { method: 'DELETE' })).status, 204)
    await t.rejects(resolver.resolve4(name), { code: 'EREFUSED' }, 'the name server has forgotten it')
  }
  for (let n = 0; n < 4; n++) {
    const { id, token } = await product.credential()
    const agent = await ourAgent.start(product.agents, token, { labels: LABELS, target: 9 })
    t.teardown(() => agent.close())
    t.equal((await ask(`/credentials/${id}`, { method: 'DELETE' })).status, 204)
    t.same((await ask('/tunnel_sessions')).json.tunnel_sessions, [], 'its sessions have ended')
  }
})

t.test('a tunnel gets secrets of vaults that its owner may use, whoever comes first', async (t) => {
  const product = await startProduct(t)
  const { sluice, agents } = product
  const ask = account(sluice)
  const upstream = await Upstream.start(t)
  const bot = await create(sluice, '/bot_users', { name: 'bea' })
  const [house, member] = [await product.credential(), await product.credential({ owner_id: bot.id })]
  const connect = async ({ token }: { readonly token: string }, labels: Readonly<Record<string, string>> = LABELS) => {
    const agent = await ourAgent.start(agents, token, { labels, target: upstream.port })
    t.teardown(() => agent.close())
    return agent
  }
  const vault = await create(sluice, '/vaults', { name: 'prod' })
  await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'db', value: 'hunter2' })
  const group = await create(sluice, '/backends/tunnel_group', { labels: LABELS })
  const failover = await create(sluice, '/backends/failover', { backends: [group.id] })
  const early = await connect(member)
  const value = JSON.stringify({
    on_http_request: [
      { actions: [{ type: 'add-headers', config: { headers: { 'x-token': "${secrets.get('prod', 'db')}" } } }] }
    ]
  })
  const { route } = await site(sluice, HOST, { backend: { backend_id: failover.id }, traffic_policy: { value } })
  const refused = /the labels app=web.* get secrets of the vault "prod", which the owner of the credential may not use/
  t.match(await early.stopped, refused, 'a tunnel that was there ends')
  await t.rejects(connect(member), refused)
  await t.rejects(connect(member, { ...LABELS, more: 'labels' }), refused)
  await connect(member, { app: 'other' })
  await connect(house)
  t.equal((await visit(sluice, HOST)).status, 200)
  await ask(`/vaults/${vault.id}`, { method: 'PATCH', body: { usable_by: [bot.id] } })
  const trusted = await connect(member)
  await ask(`/vaults/${vault.id}`, { method: 'PATCH', body: { usable_by: [] } })
  t.match(await trusted.stopped, refused)
  await ask(`${route}/traffic_policy`, { method: 'DELETE' })
  await connect(member)
})

t.test('what outlives the process is for its owner alone', async (t) => {
  const data = t.testdir()
  const options = { AGENTS: '127.0.0.1:0', DATA: data, STORE: ':memory:' }
  const first = await startSluice(t, { options })
  await first.stop()
  const secret = await readFile(join(data, 'agents', 'names.secret'))
  t.equal((await stat(join(data, 'agents', 'names.secret'))).mode & 0o077, 0)
  t.equal((await stat(join(data, 'agents', 'ca.key'))).mode & 0o077, 0)
  const second = await startSluice(t, { options })
  await second.stop()
  t.same(await readFile(join(data, 'agents', 'names.secret')), secret)
})

t.test('the certificate of the operator', async (t) => {
  const { pem, key } = await issue({ subject: 'CN=agents.example.com', extensions: await names('agents.example.com') })
  const files = t.testdir({ 'agents.pem': pem, 'agents.key': key })
  const options = {
    AGENTS: '127.0.0.1:0',
    AGENTS_CERTIFICATE: join(files, 'agents.pem'),
    AGENTS_KEY: join(files, 'agents.key')
  }
  const sluice = await startSluice(t, { options })
  const { port } = await sluice.line(({ msg }) => msg === 'agents may connect')
  const socket = connect({ host: '127.0.0.1', port: Number(port), servername: 'agents.example.com', ca: pem })
  await once(socket, 'secureConnect')
  socket.destroy()
  const renewed = await issue({ subject: 'CN=renewed', extensions: await names('agents.example.com') })
  await writeFile(options.AGENTS_CERTIFICATE, renewed.pem)
  await sluice.line(({ msg }) => msg === 'the certificate of the agent listener stays the former one')
  await writeFile(options.AGENTS_KEY, renewed.key)
  await sluice.line(({ msg }) => msg === 'agents are shown another certificate from now on')
  const after = connect({ host: '127.0.0.1', port: Number(port), servername: 'agents.example.com', ca: renewed.pem })
  await once(after, 'secureConnect')
  after.destroy()
  const broken = { ...options, AGENTS_KEY: options.AGENTS_CERTIFICATE }
  await t.rejects(startSluice(t, { options: broken }), { code: 'AGENTS_CERTIFICATE' })
  const { AGENTS_KEY: _, ...half } = options
  await t.rejects(startSluice(t, { options: half }), { code: 'AGENTS_CERTIFICATE' })
  await t.rejects(startSluice(t, { options: { AGENTS: `127.0.0.1:${port}` } }), { code: 'AGENTS_ADDRESS' })
})

async function handshake({ agents }: Product, servername: string, ca = agents.ca): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port: agents.port, servername, ca, checkServerIdentity: () => undefined })
  await once(socket, 'secureConnect')
  return socket
}

async function names(name: string) {
  const { SubjectAlternativeNameExtension } = await import('@peculiar/x509')
  return [new SubjectAlternativeNameExtension([{ type: 'dns', value: name }])]
}

async function echo(t: Test): Promise<number> {
  const server = createServer((socket: Socket) => {
    // The agent ends while the connection closes: a break of the tunnel is passed on as one.
    socket.on('error', () => undefined)
    socket.pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}

async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
