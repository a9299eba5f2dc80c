import { SessionBuilder } from '@ngrok/ngrok'
import t, { type Test } from 'tap'
import { Agent } from '../../../../src/capabilities/tunnel/client/agent.js'
import { systemClock } from '../../../../src/lib/clock.js'
import { account, create, visit } from '../../../helpers/account.js'
import { until } from '../../../helpers/until.js'
import { answering, RawUpstream } from '../../../helpers/upstream.js'
import { sdkAgent } from '../sdk-agent.js'
import { type Product, startProduct } from './product.js'

// An exit before the last test must not look like success.
t.plan(3)

const HOST = 'shared.example.com'
const answer = (text: string) =>
  `on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "${text}" } }] }]`

/** Starts an agent of ours; answers how to stop it, or why its endpoint was refused. */
async function agent(
  t: Test,
  { agents }: Product,
  token: string,
  name: string,
  pooled: boolean,
  labels?: Readonly<Record<string, string>>
) {
  const { port } = await RawUpstream.start(
    t,
    answering(`HTTP/1.1 200 OK\r\ncontent-length: ${name.length}\r\n\r\n${name}`)
  )
  let refused: string | undefined
  let isBound = false
  const running = new Agent({
    server: { host: '127.0.0.1', port: agents.port, ca: agents.ca },
    token,
    tunnels: [
      {
        ...(labels === undefined ? { endpoint: { proto: 'https' as const, at: HOST, pooled } } : { labels }),
        target: { kind: 'tcp', host: '127.0.0.1', port },
        forwardsTo: name
      }
    ],
    version: '1.2.3',
    clock: systemClock,
    random: Math.random,
    wait: async () => undefined,
    report: ({ kind }) => {
      if (kind === 'bound') isBound = true
    }
  })
  const run = running.run().catch((error: Error) => {
    refused = error.message
  })
  const stop = async () => {
    running.stop()
    await run
  }
  t.teardown(stop)
  await until(() => isBound || refused !== undefined)
  return { stop, refused }
}

async function shares({ sluice }: Product, requests = 90, host = HOST): Promise<Record<string, number>> {
  const seen: Record<string, number> = {}
  for (let i = 0; i < requests; i++) {
    const { body } = await visit(sluice, host)
    seen[body] = (seen[body] ?? 0) + 1
  }
  return seen
}

t.test('agents, agents of other credentials and cloud endpoints share one URL', async (t) => {
  const product = await startProduct(t)
  const { sluice } = product
  const ask = account(sluice)
  const [{ token }, other] = [await product.credential(), await product.credential()]
  const first = await agent(t, product, token, 'one', true)
  t.equal(first.refused, undefined)
  const exclusive = { url: `https://${HOST}`, traffic_policy: answer('cloud') }
  t.match(await ask('/endpoints', { method: 'POST', body: exclusive }), { status: 409 })
  const cloud = await create(sluice, '/endpoints', { ...exclusive, pooling_enabled: true })
  t.same(Object.keys(await shares(product)).sort(), ['cloud', 'one'])
  t.match(await ask(`/endpoints/${cloud.id}`, { method: 'PATCH', body: { pooling_enabled: false } }), { status: 409 })
  t.match((await agent(t, product, token, 'alone', false)).refused, /already served/)
  const second = await agent(t, product, other.token, 'two', true)
  t.equal(second.refused, undefined)
  t.same(Object.keys(await shares(product)).sort(), ['cloud', 'one', 'two'])
  const third = await agent(t, product, token, 'three', true)
  const seen = await shares(product, 200)
  t.same(Object.keys(seen).sort(), ['cloud', 'one', 'three', 'two'])
  t.ok((seen.one ?? 0) + (seen.three ?? 0) > 60, 'two agents of one credential have two shares')
  await ask(`/endpoints/${cloud.id}`, { method: 'DELETE' })
  t.same(Object.keys(await shares(product)).sort(), ['one', 'three', 'two'])
  for (const { stop } of [first, second]) await stop()
  await until(async () => Object.keys(await shares(product, 20)).join() === 'three')
  await third.stop()
  await until(async () => (await visit(sluice, HOST)).status === 404)
})

t.test('the SDK joins a pool, and is refused where pooling is off', async (t) => {
  const product = await startProduct(t)
  const { token } = await product.credential()
  const { port } = await RawUpstream.start(t, answering('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nsdk'))
  const body = { url: `https://${HOST}`, traffic_policy: answer('cloud') }
  const cloud = await create(product.sluice, '/endpoints', body)
  const builder = new SessionBuilder().authtoken(token).serverAddr(product.agents.address)
  const session = await builder.caCert(Buffer.from(product.agents.ca)).connect()
  const listen = (pooled: boolean) => session.httpEndpoint().domain(HOST).poolingEnabled(pooled).listen()
  await t.rejects(listen(true), /already served/)
  await account(product.sluice)(`/endpoints/${cloud.id}`, { method: 'PATCH', body: { pooling_enabled: true } })
  await t.rejects(listen(false), /already served/)
  const listener = await listen(true)
  const forwarding = listener.forward(`http://127.0.0.1:${port}`).catch(() => undefined)
  t.same(Object.keys(await shares(product)).sort(), ['cloud', 'sdk'])
  await listener.close()
  await session.close()
  await forwarding
})

t.test('an agent that leaves a pool costs no request, also behind a cloud endpoint that forwards', async (t) => {
  const product = await startProduct(t)
  const { sluice } = product
  const [{ token }, other] = [await product.credential(), await product.credential()]
  const config = { url: 'https://web.internal' }
  const traffic_policy = JSON.stringify({ on_http_request: [{ actions: [{ type: 'forward-internal', config }] }] })
  await create(sluice, '/endpoints', { url: 'https://front.example.com', traffic_policy })
  await product.site('web.internal', { app: 'web' })
  const own = await agent(t, product, token, 'one', true, { app: 'web' })
  const { port } = await RawUpstream.start(t, answering('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nsdk'))
  const sdk = await sdkAgent.start(product.agents, token, { labels: { app: 'web' }, target: port })
  const members = await Promise.all(
    [token, other.token, token].map((of, place) => agent(t, product, of, `m${place}`, true))
  )
  t.same(Object.keys(await shares(product)).sort(), ['m0', 'm1', 'm2'])
  t.same(Object.keys(await shares(product, 30, 'front.example.com')).sort(), ['one', 'sdk'])
  const wrong: string[] = []
  let [visits, goes] = [0, true]
  const visitors = [HOST, 'front.example.com', HOST, 'front.example.com'].map(async (host) => {
    while (goes) {
      const { status, headers } = await visit(sluice, host)
      if (status !== 200) wrong.push(`${host} ${status} ${headers['sluice-error-code']}`)
      visits++
    }
  })
  const more = async () => {
    const wanted = visits + 60
    await until(() => visits >= wanted)
  }
  for (const leaves of [() => members[0]?.stop(), () => sdk.close()]) {
    await more()
    await leaves()
  }
  await more()
  goes = false
  await Promise.all(visitors)
  t.same(wrong, [])
  await members[1]?.stop()
  await product.until('/tunnels', (json) => (json.tunnels as unknown[]).length === 2)
  t.same(
    await shares(product, 20),
    { m2: 20 },
    'the last agent of an endpoint has left: others in the pool take its share at once'
  )
  t.same(await shares(product, 5, 'front.example.com'), { one: 5 })
  await own.stop()
})

// Threads of the SDK outlive their sessions and would hold the process.
t.teardown(() => process.exit())
