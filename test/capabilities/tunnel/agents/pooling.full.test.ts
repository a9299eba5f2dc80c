import { SessionBuilder } from '@ngrok/ngrok'
import t, { type Test } from 'tap'
import { Agent } from '../../../../src/capabilities/tunnel/client/agent.js'
import { systemClock } from '../../../../src/lib/clock.js'
import { account, create, visit } from '../../../helpers/account.js'
import { until } from '../../../helpers/until.js'
import { answering, RawUpstream } from '../../../helpers/upstream.js'
import { type Product, startProduct } from './product.js'

// An exit before the last test must not look like success.
t.plan(2)

const HOST = 'shared.example.com'
const answer = (text: string) =>
  `on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "${text}" } }] }]`

/** Starts an agent of ours; answers how to stop it, or why its endpoint was refused. */
async function agent(t: Test, { agents }: Product, token: string, name: string, pooled: boolean) {
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
        endpoint: { proto: 'https', at: HOST, pooled },
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

async function shares({ sluice }: Product, requests = 90): Promise<Record<string, number>> {
  const seen: Record<string, number> = {}
  for (let i = 0; i < requests; i++) {
    const { body } = await visit(sluice, HOST)
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

// Threads of the SDK outlive their sessions and would hold the process.
t.teardown(() => process.exit())
