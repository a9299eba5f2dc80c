import { once } from 'node:events'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import { pipeline } from 'node:stream'
import { createServer } from 'node:tls'
import t from 'tap'
import { Agent } from '../../../src/capabilities/tunnel/client/agent.js'
import { AgentConnection } from '../../../src/capabilities/tunnel/client/connection.js'
import { BindRules } from '../../../src/capabilities/tunnel/server/authority.js'
import { systemClock } from '../../../src/lib/clock.js'
import { ManualClock } from '../../helpers/clock.js'
import { AgentServer, identity, TOKEN } from './agent-server.js'

const nothing = () => undefined
const known = () => ({ clientId: '', cookie: '', endpoints: new Map() })

t.test('a server that says nothing is left', async (t) => {
  const { ca, cert, key } = await identity
  const server = createServer({ cert, key }, (socket) => socket.on('error', nothing).resume())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const clock = new ManualClock()
  let ended = ''
  const owner = {
    bound: nothing,
    asked: nothing,
    tunnelStopped: nothing,
    unreachable: nothing,
    ended: (why: string) => {
      ended = why
    }
  }
  const { port } = server.address() as AddressInfo
  const connection = await AgentConnection.open({ host: '127.0.0.1', port, ca }, owner, clock)
  const authenticating = connection.authenticate(TOKEN, '', '0', known())
  clock.advance(14_000)
  connection.tick()
  t.equal(ended, '')
  clock.advance(2000)
  connection.tick()
  t.equal(ended, 'the server is silent')
  await t.rejects(authenticating, { code: 'AGENT_UNREACHABLE' })
})

t.test('heartbeats are sent as long as they are answered', async (t) => {
  const server = await AgentServer.start(t)
  const clock = new ManualClock()
  const ended: string[] = []
  const owner = {
    bound: nothing,
    asked: nothing,
    tunnelStopped: nothing,
    unreachable: nothing,
    ended: (why: string) => ended.push(why)
  }
  const connection = await AgentConnection.open({ host: '127.0.0.1', port: server.port, ca: server.ca }, owner, clock)
  await connection.authenticate(TOKEN, '', '0', known())
  for (let beat = 0; beat < 5; beat++) {
    clock.advance(10_500)
    connection.tick()
    await connection.bind(
      { labels: { beat: String(beat) }, forwardsTo: '', target: { kind: 'unix', path: '/' } },
      known()
    )
  }
  t.same(ended, [])
  t.equal(server.tunnelIds().length, 5)
  connection.close()
  t.equal(ended.length, 1)
})

t.test('a handshake that breaks off is tried again, by an agent that never was connected, too', async (t) => {
  const server = await AgentServer.start(t)
  let refused = 0
  const door = createTcpServer((socket) => {
    socket.on('error', nothing)
    refused++
    if (refused === 1) socket.destroy()
    else if (refused === 2) socket.resetAndDestroy()
    else if (refused === 3) socket.once('data', () => socket.end())
    else {
      const onward = connect(server.port, '127.0.0.1')
      pipeline(socket, onward, nothing)
      pipeline(onward, socket, nothing)
    }
  })
  door.listen(0, '127.0.0.1')
  await once(door, 'listening')
  t.teardown(() => door.close())
  const why: string[] = []
  const { port } = door.address() as AddressInfo
  const agent = new Agent({
    server: { host: '127.0.0.1', port, ca: server.ca },
    token: TOKEN,
    tunnels: [{ labels: { app: 'web' }, forwardsTo: '', target: { kind: 'unix', path: '/' } }],
    version: '0',
    clock: systemClock,
    random: Math.random,
    wait: async () => undefined,
    report: (event) => {
      if (event.kind === 'waiting') why.push(event.why)
    }
  })
  const running = agent.run()
  await Promise.race([server.until(() => server.tunnelIds().length === 1), running])
  t.equal(why.length, 3)
  t.match(why[2], /did not finish the TLS handshake: ECONNRESET/)
  agent.stop()
  await running
})

t.test('agents beyond the limit of those that have not authenticated come back until they are in', async (t) => {
  const server = await AgentServer.start(t, {
    limits: { unauthenticatedPerAddress: 3 },
    async authenticate() {
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
      return { credential: 'cr_1', account: 'tests', rules: new BindRules([]) }
    }
  })
  const waits: number[] = []
  const agents = Array.from({ length: 60 }, (_, index) => {
    const agent = new Agent({
      server: { host: '127.0.0.1', port: server.port, ca: server.ca },
      token: TOKEN,
      tunnels: [{ labels: { index: String(index) }, forwardsTo: '', target: { kind: 'unix', path: '/' } }],
      version: '0',
      clock: systemClock,
      random: Math.random,
      wait: async (milliseconds) => {
        waits.push(milliseconds)
        await new Promise((resolve) => setTimeout(resolve, milliseconds / 100))
      },
      report: nothing
    })
    return { agent, running: agent.run() }
  })
  const all = Promise.all(agents.map(({ running }) => running))
  await Promise.race([server.until(() => server.tunnelIds().length === agents.length), all])
  t.equal(server.tunnelIds().length, agents.length)
  t.ok(waits.length > 0, 'some had to wait')
  for (const { agent } of agents) agent.stop()
  await all
})

t.test('a storm of a hundred agents that come back is absorbed', async (t) => {
  const server = await AgentServer.start(t)
  const waits: number[] = []
  const agents = Array.from({ length: 100 }, (_, index) => {
    const agent = new Agent({
      server: { host: '127.0.0.1', port: server.port, ca: server.ca },
      token: TOKEN,
      tunnels: [{ labels: { app: 'web', index: String(index) }, forwardsTo: '', target: { kind: 'unix', path: '/' } }],
      version: '0',
      clock: systemClock,
      random: Math.random,
      wait: async (milliseconds) => {
        waits.push(milliseconds)
      },
      report: nothing
    })
    return { agent, running: agent.run() }
  })
  await server.until(() => server.tunnelIds().length === 100)
  const before = new Set(server.tunnelIds())
  server.cut()
  await server.until(() => server.tunnelIds().length === 0)
  await server.until(() => server.tunnelIds().length === 100)
  t.same(new Set(server.tunnelIds()), before, 'all have their ids again')
  t.ok(new Set(waits).size > 90, 'they do not come at once')
  for (const { agent, running } of agents) {
    agent.stop()
    await running
  }
})
