import { once } from 'node:events'
import { createServer, Agent as HttpAgent, type IncomingMessage, type RequestListener, request } from 'node:http'
import { type AddressInfo, createServer as createTcp } from 'node:net'
import t, { type Test } from 'tap'
import { Agent } from '../../../../src/capabilities/tunnel/client/agent.js'
import { systemClock } from '../../../../src/lib/clock.js'
import { account, create, site } from '../../../helpers/account.js'
import { type Engine, engines, type RunningSluice } from '../../../helpers/sluice.js'
import { freePort } from '../../../proxy/free-port.js'
import { receiver } from '../../events/receiver.js'
import { body as bodyOf } from '../agent-suite.js'
import { ourAgent } from '../our-agent.js'
import { type Product, startProduct } from './product.js'

const HOST = 'app.example.com'
const CLOSING = { headers: { connection: 'close' } }

async function upstream(t: Test, answering: RequestListener | string): Promise<number> {
  const server = createServer(
    typeof answering === 'string' ? (_request, response) => response.end(answering) : answering
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** An agent that carries the labels to the port; answers the id of its tunnel. */
async function agentTo(
  t: Test,
  { agents }: Product,
  token: string,
  labels: Readonly<Record<string, string>>,
  target: number
) {
  const agent = await ourAgent.start(agents, token, { labels, target })
  t.teardown(() => agent.close())
  return agent
}

/** A client with one connection that it keeps. */
class Client {
  readonly #sluice: RunningSluice
  readonly #agent = new HttpAgent({ keepAlive: true, maxSockets: 1 })
  readonly #ports = new Set<number | undefined>()

  constructor(t: Test, sluice: RunningSluice) {
    this.#sluice = sluice
    t.teardown(() => this.#agent.destroy())
  }

  /** How many connections it has used. */
  get connections(): number {
    return this.#ports.size
  }

  async ask(host: string, headers: Readonly<Record<string, string>> = {}) {
    const sent = request({
      host: '127.0.0.1',
      port: this.#sluice.port,
      agent: this.#agent,
      headers: { host, ...headers }
    })
    sent.end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    this.#ports.add(sent.socket?.localPort)
    return { status: response.statusCode, body: await bodyOf(response), headers: response.headers }
  }

  /** How often each body came in so many requests, one after the other. */
  async share(host: string, requests: number, headers: Readonly<Record<string, string>> = {}) {
    const shares: Record<string, number> = {}
    for (let i = 0; i < requests; i++) {
      const { body } = await this.ask(host, headers)
      shares[body] = (shares[body] ?? 0) + 1
    }
    return shares
  }
}

async function twoAgents(t: Test, engine: Engine, labels: readonly Readonly<Record<string, string>>[]) {
  const product = await startProduct(t, { engine })
  const { token } = await product.credential()
  const ids: string[] = []
  for (const [index, one] of labels.entries()) {
    const port = await upstream(t, 'ab'[index] as string)
    ids.push((await agentTo(t, product, token, one, port)).id)
  }
  return { product, sluice: product.sluice, token, ids, client: new Client(t, product.sluice) }
}

for (const engine of engines) {
  t.test(`${engine}: the agents of a group share the requests of one connection`, async (t) => {
    const { product, sluice, client, ids } = await twoAgents(t, engine, [{ app: 'web' }, { app: 'web' }])
    const backend = await product.site(HOST, { app: 'web' })
    t.same(await client.share(HOST, 60), { a: 30, b: 30 })
    t.equal(client.connections, 1)
    const path = `/backends/tunnel_group/${backend}`
    await account(sluice)(path, { method: 'PATCH', body: { balance: 'least_requests' } })
    t.same(await client.share(HOST, 60), { a: 30, b: 30 }, 'none carries anything between two requests')
    const shown = (await account(sluice)(path)).json
    t.same(new Set(shown.states.map(({ id }: { id: string }) => id)), new Set(ids))
    const { text } = await account(sluice)('/metrics')
    t.match(text, `sluice_upstream_tries_total{backend="app=web",server="tunnels"} 120`)
    t.match(text, `sluice_upstream_up{backend="app=web",server="tunnels"} 1`)
  })

  t.test(`${engine}: weights share one connection among groups, too`, async (t) => {
    const { sluice, client } = await twoAgents(t, engine, [
      { app: 'web', zone: 'a' },
      { app: 'web', zone: 'b' }
    ])
    const group = async (zone: string) => (await create(sluice, '/backends/tunnel_group', { labels: { zone } })).id
    const backends = { [await group('a')]: 1, [await group('b')]: 3 }
    const { id } = await create(sluice, '/backends/weighted', { backends })
    await site(sluice, HOST, { backend: { backend_id: id } })
    t.same(await client.share(HOST, 60), { a: 15, b: 45 })
    const even = await create(sluice, '/backends/weighted', {
      backends: Object.fromEntries(Object.keys(backends).map((one) => [one, 1])),
      balance: 'least_requests'
    })
    await site(sluice, 'least.example.com', { backend: { backend_id: even.id } })
    t.same(await client.share('least.example.com', 60), { a: 30, b: 30 })
  })
}

t.test('least requests leaves a busy tunnel alone', async (t) => {
  const product = await startProduct(t)
  const { token } = await product.credential()
  const held: (() => void)[] = []
  const slow = await upstream(t, (asked, response) => {
    if (asked.headers['x-hold'] === undefined) response.end('a')
    else held.push(() => response.end('held'))
  })
  await agentTo(t, product, token, { app: 'web' }, slow)
  const backend = await create(product.sluice, '/backends/tunnel_group', {
    labels: { app: 'web' },
    balance: 'least_requests'
  })
  await site(product.sluice, HOST, { backend: { backend_id: backend.id } })
  const busy = new Client(t, product.sluice).ask(HOST, { 'x-hold': 'yes' })
  while (held.length === 0) await new Promise((resolve) => setImmediate(resolve))
  await agentTo(t, product, token, { app: 'web' }, await upstream(t, 'b'))
  const client = new Client(t, product.sluice)
  t.same(await client.share(HOST, 10), { b: 10 })
  held[0]?.()
  t.equal((await busy).body, 'held')
  t.same(await client.share(HOST, 10), { a: 5, b: 5 })
})

t.test('a cookie or a key keeps the tunnel of a client', async (t) => {
  const { sluice, client } = await twoAgents(t, 'codec', [{ app: 'web' }, { app: 'web' }])
  const labels = { app: 'web' }
  const sticky = await create(sluice, '/backends/tunnel_group', { labels, sticky: { cookie: 'at' } })
  await site(sluice, HOST, { backend: { backend_id: sticky.id } })
  const first = await client.ask(HOST)
  const cookie = first.headers['set-cookie']?.[0]?.split(';')[0] ?? ''
  t.match(cookie, /^at=slb1\./)
  t.same(await client.share(HOST, 20, { cookie }), { [first.body]: 20 })
  const hash_key = "req.headers['x-user'][0]"
  const hashed = await create(sluice, '/backends/tunnel_group', { labels, balance: 'hash', hash_key })
  await site(sluice, 'hash.example.com', { backend: { backend_id: hashed.id } })
  const seen = new Set<string>()
  for (let i = 0; i < 20; i++) {
    const shares = await client.share('hash.example.com', 3, { 'x-user': `u${i}` })
    const [name] = Object.keys(shares)
    t.equal(Object.keys(shares).length, 1)
    seen.add(String(name))
  }
  t.equal(seen.size, 2)
  t.same(await client.share('hash.example.com', 20), { a: 10, b: 10 }, 'without a key, in turn')
})

t.test('agents that share an endpoint share the requests of one connection', async (t) => {
  const product = await startProduct(t)
  const { token } = await product.credential()
  for (const name of ['a', 'b']) {
    const target = { kind: 'tcp', host: '127.0.0.1', port: await upstream(t, name) } as const
    await new Promise<void>((resolve, reject) => {
      const agent = new Agent({
        server: { host: '127.0.0.1', port: product.agents.port, ca: product.agents.ca },
        token,
        tunnels: [{ endpoint: { proto: 'https', at: HOST, pooled: true }, target, forwardsTo: name }],
        version: '1.2.3',
        clock: systemClock,
        random: Math.random,
        wait: async () => undefined,
        report: ({ kind }) => kind === 'bound' && resolve()
      })
      const running = agent.run().catch(reject)
      t.teardown(async () => {
        agent.stop()
        await running
      })
    })
  }
  const client = new Client(t, product.sluice)
  t.same(await client.share(HOST, 60), { a: 30, b: 30 })
  t.equal(client.connections, 1)
  t.notMatch((await account(product.sluice)('/metrics')).text, /^sluice_upstream_tries_total/m, 'agents make no series')
})

t.test('connections to a TCP edge are shared, by address if a key says so, and without tunnels refused', async (t) => {
  const { sluice } = await twoAgents(t, 'codec', [{ app: 'web' }, { app: 'web' }])
  const at = await freePort()
  const labels = { app: 'web' }
  const group = await create(sluice, '/backends/tunnel_group', { labels })
  await create(sluice, '/edges/tcp', { hostports: [`localhost:${at}`], backend: { backend_id: group.id } })
  const shares = async (connections: number) => {
    const seen: string[] = []
    for (let i = 0; i < connections; i++) seen.push(await (await fetch(`http://127.0.0.1:${at}`, CLOSING)).text())
    return seen.sort().join('')
  }
  t.equal(await shares(10), 'aaaaabbbbb')
  const path = `/backends/tunnel_group/${group.id}`
  const hashed = { balance: 'hash', hash_key: 'conn.client_ip' }
  await account(sluice)(path, { method: 'PATCH', body: hashed })
  t.match(await shares(10), /^(a{10}|b{10})$/)
  await account(sluice)(path, { method: 'PATCH', body: { labels: { app: 'none' } } })
  await t.rejects(shares(1))
  await sluice.line(({ code }) => code === 'NO_TUNNEL')
})

t.test('a tunnel that fails in one group is out in the others', async (t) => {
  const product = await startProduct(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'true' } })
  const { sluice } = product
  const { token } = await product.credential()
  const broken = createTcp((socket) => socket.once('data', () => socket.destroy()))
  broken.listen(0, '127.0.0.1')
  await once(broken, 'listening')
  t.teardown(() => broken.close())
  const { id: bad } = await agentTo(
    t,
    product,
    token,
    { app: 'web', zone: 'a' },
    (broken.address() as AddressInfo).port
  )
  const group = async (labels: object) => (await create(sluice, '/backends/tunnel_group', { labels })).id
  const [alone, both] = [await group({ zone: 'a' }), await group({ app: 'web' })]
  await site(sluice, 'alone.example.com', { backend: { backend_id: alone } })
  await site(sluice, HOST, { backend: { backend_id: both } })
  const backup = await create(sluice, '/backends/http_response', { body: 'backup' })
  const failover = await create(sluice, '/backends/failover', { backends: [alone, backup.id] })
  await site(sluice, 'failover.example.com', { backend: { backend_id: failover.id } })
  const weighted = await create(sluice, '/backends/weighted', { backends: { [alone]: 5, [backup.id]: 1 } })
  await site(sluice, 'weighted.example.com', { backend: { backend_id: weighted.id } })
  const sink = await receiver(t)
  const destination = (await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })).id
  const sources = [{ type: 'backend_server_down.v0' }]
  await create(sluice, '/event_subscriptions', { sources, destination_ids: [destination] })
  const client = new Client(t, sluice)
  for (let i = 0; i < 3; i++) t.match(await client.ask('alone.example.com'), { status: 502 })
  const line = await sluice.line(({ msg }) => String(msg).startsWith('an upstream is down'))
  t.match(line, { backend: alone, upstream: `tunnel ${bad}`, by: 'traffic' })
  await sink.until(() => sink.taken.length === 1)
  t.match(sink.taken, [{ object: { backend_id: alone, server: `tunnel ${bad}`, status: 'down', seen_by: 'traffic' } }])
  for (const of of [alone, both])
    t.match((await account(sluice)(`/backends/tunnel_group/${of}`)).json.states, [
      { id: bad, status: 'down', reason: /./, since: /^20/ }
    ])
  t.match((await account(sluice)('/metrics')).text, `sluice_upstream_up{backend="app=web",server="tunnels"} 0`)
  t.same(await client.share('failover.example.com', 4), { backup: 4 })
  t.same(await client.share('weighted.example.com', 12), { backup: 12 })
  await agentTo(t, product, token, { app: 'web' }, await upstream(t, 'good'))
  t.same(await client.share(HOST, 10), { good: 10 }, 'the other group leaves it out')
})
