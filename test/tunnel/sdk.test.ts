import { get } from 'node:http'
import { forward, SessionBuilder } from '@ngrok/ngrok'
import t from 'tap'
import { labelDialer } from '../../src/tunnel/dialer.js'
import { AgentServer, open, TOKEN } from './agent-server.js'
import { type AgentKind, answerOf, body, runAgentSuite } from './agent-suite.js'
import { Front } from './front.js'
import { Upstream } from './upstream.js'

/** The open-source agent SDK as it comes from the registry. */
const sdk: AgentKind = {
  name: 'SDK',
  async start(server, token, offer) {
    const session = await new SessionBuilder()
      .authtoken(token)
      .serverAddr(server.address)
      .caCert(Buffer.from(server.ca))
      .connect()
    const to = `${'endpoint' in offer && offer.endpoint === 'tcp' ? 'tcp' : 'http'}://127.0.0.1:${offer.target}`
    const builder = () => {
      if ('labels' in offer) {
        const labelled = session.labeledListener()
        for (const [key, value] of Object.entries(offer.labels)) labelled.label(key, value)
        return labelled
      }
      if (offer.endpoint === 'tcp') return session.tcpEndpoint()
      return offer.at === undefined ? session.httpEndpoint() : session.httpEndpoint().domain(offer.at)
    }
    try {
      const listener = await builder().listen()
      const stopped = listener.forward(to).then(
        () => 'ended',
        (error: Error) => error.message
      )
      let closing: Promise<void> | undefined
      return {
        id: listener.id(),
        url: listener.url() ?? '',
        stopped,
        close: () => {
          closing ??= listener
            .close()
            .catch(() => undefined)
            .then(() => session.close())
          return closing
        }
      }
    } catch (error) {
      await session.close()
      throw error
    }
  }
}

// An exit before the last test must not look like success.
t.plan(18)
runAgentSuite(sdk)

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
  const agent = await sdk.start(server, TOKEN, { labels: { app: 'web' }, target: upstream.port })
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
