import { get } from 'node:http'
import { forward, SessionBuilder } from '@ngrok/ngrok'
import t from 'tap'
import { labelDialer } from '../../../src/capabilities/tunnel/server/dialer.js'
import { AgentServer, open, TOKEN } from './agent-server.js'
import { answerOf, body, runAgentSuite } from './agent-suite.js'
import { Front } from './front.js'
import { sdkAgent } from './sdk-agent.js'
import { Upstream } from './upstream.js'

// An exit before the last test must not look like success.
t.plan(19)
runAgentSuite(sdkAgent)

t.test(
  'SDK: a TLS endpoint is opened; one whose TLS the server shall end is refused with words that reach its user',
  async (t) => {
    const server = await AgentServer.start(t)
    const session = await new SessionBuilder()
      .authtoken(TOKEN)
      .serverAddr(server.address)
      .caCert(Buffer.from(server.ca))
      .connect()
    t.teardown(() => session.close())
    const pem = Buffer.from(server.ca)
    await t.rejects(session.tlsEndpoint().termination(pem, pem).listen(), /the option TLSTermination is not offered/)
    await t.rejects(session.tlsEndpoint().mutualTlsca(pem).listen(), /the option MutualTLSAtEdge is not offered/)
    const listener = await session.tlsEndpoint().domain('app.example.com').listen()
    t.equal(listener.url(), 'tls://app.example.com')
    t.match([...server.registry.tunnels()], [{ proto: 'tls', url: 'tls://app.example.com' }])
    await listener.close()
  }
)

t.test('SDK: stop, restart and update call its handlers', async (t) => {
  const server = await AgentServer.start(t)
  const called: string[] = []
  const session = await new SessionBuilder()
    .authtoken(TOKEN)
    .serverAddr(server.address)
    .caCert(Buffer.from(server.ca))
    .handleStopCommand(() => called.push('stop'))
    .handleUpdateCommand(({ version }) => called.push(`update ${version}`))
    .connect()
  t.teardown(() => session.close())
  const [known] = server.sessions()
  t.equal(await known?.command('stop'), undefined)
  t.equal(await known?.command('update', '9.9.9'), undefined)
  t.type(await known?.command('restart'), 'string', 'without a handler it says why not')
  t.same(called, ['stop', 'update 9.9.9'])
})

t.test('SDK: forward() in one call, with labels and without', async (t) => {
  const server = await AgentServer.start(t)
  const upstream = await Upstream.start(t)
  const common = {
    addr: upstream.port,
    authtoken: TOKEN,
    server_addr: server.address,
    session_ca_cert: server.ca,
    force_new_session: true
  }
  const labelled = await forward({ ...common, proto: 'labeled', labels: 'app:web' })
  const front = await Front.start(t, labelDialer(server.registry, { app: 'web' }, 'http'))
  t.equal(await body(await answerOf(get(front.url))), 'hello from /')
  const endpoint = await forward(common)
  t.match(endpoint.url(), /^https:\/\/[0-9a-f]{16}\./)
  await t.rejects(forward({ ...common, basic_auth: 'user:password1' }), /BasicAuth is not offered/)
  await labelled.close()
  await endpoint.close()
})

t.test('SDK: more visitors than its core survives wait for nobody', async (t) => {
  const server = await AgentServer.start(t)
  const upstream = await Upstream.start(t)
  const agent = await sdkAgent.start(server, TOKEN, { labels: { app: 'web' }, target: upstream.port })
  t.teardown(() => agent.close())
  const dialer = labelDialer(server.registry, { app: 'web' }, 'http')
  const pipes = await Promise.all(Array.from({ length: 448 }, () => open(dialer)))
  await t.rejects(open(dialer), /no tunnel can take a connection/)
  const answers = pipes.map(async ({ duplex }) => {
    duplex.write('GET /many HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    return String(Buffer.concat(await duplex.toArray()))
  })
  const good = (await Promise.all(answers)).filter((answer) => answer.endsWith('hello from /many'))
  t.equal(good.length, 448)
  t.equal(server.sessions().length, 1, 'the session lives')
  for (const { duplex } of pipes) duplex.destroy()
})

// Its threads outlive their sessions and would hold the process.
t.teardown(() => process.exit())
