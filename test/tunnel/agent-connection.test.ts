import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:tls'
import t from 'tap'
import { systemClock } from '../../src/lib/clock.js'
import { Agent } from '../../src/tunnel/agent/agent.js'
import { AgentConnection } from '../../src/tunnel/agent/agent-connection.js'
import { ManualClock } from '../helpers/clock.js'
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
