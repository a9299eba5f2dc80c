import 'reflect-metadata'
import { createSecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { createServer as createTls } from 'node:tls'
import { Client, credentials } from '@grpc/grpc-js'
import { SessionBuilder } from '@ngrok/ngrok'
import t, { type Test } from 'tap'
import { AgentPlane } from '../../../../src/capabilities/tunnel/agent-plane.js'
import { Agent } from '../../../../src/capabilities/tunnel/client/agent.js'
import type { AgentTunnel } from '../../../../src/capabilities/tunnel/client/visitors.js'
import { systemClock } from '../../../../src/lib/clock.js'
import { createNames } from '../../../../src/lib/names/names.js'
import { create, visit } from '../../../helpers/account.js'
import { ask, callAll, startWords } from '../../../helpers/grpc.js'
import { engines } from '../../../helpers/sluice.js'
import { freePort } from '../../../proxy/free-port.js'
import { authority, certificate } from '../../../proxy/tls-client.js'
import { Upstream } from '../upstream.js'
import { startProduct } from './product.js'

// An exit before the last test must not look like success.
t.plan(3 * engines.length + 3)

const HOST = 'grpc.example.com'
const LABELS = { app: 'words' }

/** The product with agents and a TLS listener that has a certificate for HOST. */
async function started(t: Test, engine: (typeof engines)[number]) {
  const port = await freePort()
  const product = await startProduct(t, { engine, options: { LISTENERS: `https://127.0.0.1:${port}` } })
  const { sluice } = product
  const ca = await authority('Test CA')
  const { pem, key } = await certificate('G', ca, [HOST])
  await create(sluice, '/tls_certificates', { certificate_pem: pem, private_key_pem: key })
  const channel = { 'grpc.default_authority': HOST, 'grpc.enable_retries': 0 }
  const secure = new Client(`127.0.0.1:${port}`, credentials.createSsl(Buffer.from(ca.pem)), {
    ...channel,
    'grpc.ssl_target_name_override': HOST
  })
  const plain = new Client(`127.0.0.1:${sluice.port}`, credentials.createInsecure(), channel)
  t.teardown(() => {
    secure.close()
    plain.close()
  })
  const { token } = await product.credential()
  return { ...product, secure, plain, token }
}

type Started = Awaited<ReturnType<typeof started>>

async function sdkSession(t: Test, { agents, token }: Started) {
  const builder = new SessionBuilder().authtoken(token).serverAddr(agents.address).caCert(Buffer.from(agents.ca))
  const session = await builder.connect()
  t.teardown(() => session.close())
  return session
}

/** Our agent, with its tunnel bound. */
async function ourTunnel(t: Test, { agents, token }: Started, tunnel: AgentTunnel): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const agent = new Agent({
      server: { host: '127.0.0.1', port: agents.port, ca: agents.ca },
      token,
      tunnels: [tunnel],
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

for (const engine of engines) {
  t.test(`${engine}: gRPC through a labelled tunnel of the SDK`, async (t) => {
    const running = await started(t, engine)
    const { port } = await startWords(t)
    await running.site(HOST, LABELS)
    const session = await sdkSession(t, running)
    const listener = await session.labeledListener().label('app', 'words').appProtocol('http2').listen()
    const forwarding = listener.forward(`tcp://127.0.0.1:${port}`).catch(() => undefined)
    await callAll(t, running.secure)
    await callAll(t, running.plain)
    await listener.close()
    await forwarding
  })

  t.test(`${engine}: gRPC through a labelled tunnel of our agent`, async (t) => {
    const running = await started(t, engine)
    const { port } = await startWords(t)
    await running.site(HOST, LABELS)
    const target = { kind: 'tcp', host: '127.0.0.1', port, http2: true } as const
    await ourTunnel(t, running, { labels: LABELS, target, forwardsTo: String(port) })
    await callAll(t, running.secure)
    await callAll(t, running.plain)
  })

  t.test(`${engine}: gRPC through an endpoint of our agent, with a policy that the agent runs`, async (t) => {
    const running = await started(t, engine)
    const { port } = await startWords(t)
    const target = { kind: 'tcp', host: '127.0.0.1', port, http2: true } as const
    const names = createNames({ resolver: 'system', servers: [] }, systemClock)
    const plane = await AgentPlane.open(systemClock, Math.random, names, () => undefined)
    t.teardown(() => plane.stop())
    const text = 'on_http_response: [{actions: [{type: add-headers, config: {headers: {x-agent: passed}}}]}]'
    const forward = await plane.forward(
      { name: 'words', policy: { source: 'policy.yaml', text }, target, tcp: false },
      () => undefined,
      () => undefined
    )
    const endpoint = { proto: 'https', at: HOST } as const
    await ourTunnel(t, running, { endpoint, target, forwardsTo: String(port), forward })
    await callAll(t, running.secure)
    const { first } = await ask(running.secure, 'x')
    t.same(first?.get('x-agent'), ['passed'])
  })
}

t.test('the SDK: an endpoint of its own with HTTP/2, and clients of HTTP/1.1', async (t) => {
  const running = await started(t, 'codec')
  const { port } = await startWords(t)
  const session = await sdkSession(t, running)
  const builder = session.httpEndpoint().domain(HOST)
  const listener = await builder.appProtocol('http2').listen()
  const forwarding = listener.forward(`tcp://127.0.0.1:${port}`).catch(() => undefined)
  await callAll(t, running.secure)
  const { status, headers } = await visit(running.sluice, HOST, { path: '/none', method: 'POST' })
  t.not(status, 502, 'HTTP/1.1 is translated')
  t.ok(headers)
  await listener.close()
  await forwarding
})

t.test('our agent: a target over TLS must choose HTTP/2', async (t) => {
  const running = await started(t, 'codec')
  await running.site(HOST, LABELS)
  const identity = await certificate('Up', await authority('Up CA'), ['localhost'])
  for (const chooses of [true, false]) {
    const labels = { app: String(chooses) }
    const host = `${chooses}.example.com`
    await running.site(host, labels)
    const port = await listen(t, chooses, identity)
    const target = { kind: 'tls', host: 'localhost', port, verify: false, http2: true } as const
    await ourTunnel(t, running, { labels, target, forwardsTo: '' })
    const { status, body } = await visit(running.sluice, host)
    if (chooses) t.match({ status, body }, { status: 200, body: 'HTTP/2.0' })
    else t.ok(status >= 502, String(status))
  }
})

t.test('tunnels of one group may speak either, and what speaks none is refused', async (t) => {
  const running = await started(t, 'codec')
  await running.site(HOST, LABELS)
  const upstream = await Upstream.start(t)
  const http1 = { kind: 'tcp', host: '127.0.0.1', port: upstream.port } as const
  await ourTunnel(t, running, { labels: LABELS, target: http1, forwardsTo: 'one' })
  t.match(await visit(running.sluice, HOST, { path: '/a' }), { status: 200, body: 'hello from /a' })
  const { port } = await startWords(t)
  const http2 = { kind: 'tcp', host: '127.0.0.1', port, http2: true } as const
  await running.site('two.example.com', { app: 'two' })
  await ourTunnel(t, running, { labels: { app: 'two' }, target: http2, forwardsTo: 'two' })
  t.match(await visit(running.sluice, HOST, { path: '/b' }), { status: 200, body: 'hello from /b' }, 'as before')
  const session = await sdkSession(t, running)
  await t.rejects(
    session.labeledListener().label('app', 'x').appProtocol('spdy').listen(),
    /"spdy" towards the agent is not offered; http1 and http2 are/
  )
  await t.rejects(session.httpEndpoint().appProtocol('spdy').listen(), /http1 and http2 are/)
})

async function listen(t: Test, chooses: boolean, { pem, key }: { pem: string; key: string }): Promise<number> {
  const identity = { cert: pem, key }
  // Without protocols of its own, a server of TLS chooses none.
  const server = chooses
    ? createSecureServer(identity, (request, response) => response.end(`HTTP/${request.httpVersion}`))
    : createTls(identity, (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

// The SDK's threads outlive their sessions and would hold the process.
t.teardown(() => process.exit())
