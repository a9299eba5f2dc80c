import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Agent } from '../../../../src/capabilities/tunnel/client/agent.js'
import { systemClock } from '../../../../src/lib/clock.js'
import { visit } from '../../../helpers/account.js'
import { ourAgent } from '../our-agent.js'
import { RawAgent } from '../raw-agent.js'
import { Upstream } from '../upstream.js'
import { startProduct } from './product.js'

const COUNT = process.env.SLUICE_TEST_LONG === '1' ? 1_000 : 100
const HOST = 'app.example.com'

/** Carries connections to a port until they are cut, all at once, as when a network fails. */
async function startRelay(t: Test, port: number) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const onward = connect({ port, host: '127.0.0.1' })
    for (const [one, other] of [
      [socket, onward],
      [onward, socket]
    ] as const) {
      sockets.add(one)
      one.on('error', () => one.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  })
  server.listen({ port: 0, host: '127.0.0.1', backlog: 2 * COUNT })
  await once(server, 'listening')
  const cut = () => {
    for (const socket of [...sockets]) socket.resetAndDestroy()
  }
  t.teardown(() => {
    server.close()
    cut()
  })
  return { port: (server.address() as { port: number }).port, cut }
}

t.test(`${COUNT} agents that come back at once keep nobody else from working`, async (t) => {
  const product = await startProduct(t)
  const { sluice, agents } = product
  const { token } = await product.credential()
  await product.site(HOST, { app: 'web' })
  const upstream = await Upstream.start(t)
  const steady = await ourAgent.start(agents, token, { labels: { app: 'web' }, target: upstream.port })
  t.teardown(() => steady.close())
  const relay = await startRelay(t, agents.port)

  const ids: string[][] = Array.from({ length: COUNT }, () => [])
  const pauses: number[] = []
  let changed: () => void = () => undefined
  const storm = ids.map((bound, number) => {
    return new Agent({
      server: { host: '127.0.0.1', port: relay.port, ca: agents.ca },
      token,
      tunnels: [
        { labels: { number: String(number) }, forwardsTo: '', target: { kind: 'tcp', host: '127.0.0.1', port: 9 } }
      ],
      version: '0',
      clock: systemClock,
      random: Math.random,
      wait: (milliseconds, signal) => wait(milliseconds, undefined, { signal }).catch(() => undefined),
      report(event) {
        if (event.kind === 'waiting') pauses.push(event.milliseconds)
        if (event.kind !== 'bound') return
        bound.push(event.id)
        changed()
      }
    })
  })
  const until = async (done: () => boolean): Promise<void> => {
    while (!done()) {
      await new Promise<void>((resolve) => {
        changed = resolve
      })
    }
  }
  const running = storm.map((agent) => agent.run())
  t.teardown(async () => {
    for (const agent of storm) agent.stop()
    await Promise.all(running)
  })
  await until(() => ids.every(({ length }) => length > 0))

  const statuses: number[] = []
  let over = false
  const visits = (async () => {
    while (!over) statuses.push((await visit(sluice, HOST)).status)
  })()
  pauses.length = 0
  relay.cut()
  await until(() => ids.every(({ length }) => length > 1))
  over = true
  await visits
  t.ok(
    statuses.every((status) => status === 200),
    `${statuses.length} visits in the meantime`
  )
  t.ok(pauses.length >= COUNT && pauses.every((pause) => pause >= 250), 'nobody comes back at once')
  t.ok(Math.max(...pauses) - Math.min(...pauses) > 150, 'nor all at one time')
  t.ok(
    ids.every(([first, ...rest]) => rest.every((id) => id === first)),
    'each has the tunnel that it had'
  )
})

t.test(`${COUNT} agents without jitter, all in one moment, get in at their first attempt`, async (t) => {
  const { agents, credential, until } = await startProduct(t)
  const { token } = await credential()
  const all = await Promise.all(Array.from({ length: COUNT }, () => RawAgent.session(agents, token)))
  t.teardown(() => {
    for (const { socket } of all) socket.destroy()
  })
  t.notOk(all.some(({ closed }) => closed))
  for (const { socket } of all) socket.destroy()
  await until('/tunnel_sessions', (json) => (json.tunnel_sessions as unknown[]).length === 0)
})

t.test(
  'a thousand agents in one moment, many more than may shake hands at a time, get in at their first attempt',
  async (t) => {
    const options = { LIMITS_HANDSHAKES: '10', TIMEOUTS_HEADERS: '2s' }
    const { agents, credential, until } = await startProduct(t, { options })
    const { token } = await credential()
    // Whoever says nothing takes the place of a handshake until its time is over.
    for (let n = 0; n < 10; n++) {
      const silent = connect({ port: agents.port, host: '127.0.0.1' }).on('error', () => undefined)
      t.teardown(() => silent.destroy())
      await once(silent, 'connect')
    }
    const before = performance.now()
    const all = await Promise.all(Array.from({ length: 1000 }, () => RawAgent.session(agents, token)))
    t.teardown(() => {
      for (const { socket } of all) socket.destroy()
    })
    const took = performance.now() - before
    t.ok(took > 1000 && took < 15_000, `${Math.round(took)} ms: before any of them would have given up`)
    t.notOk(all.some(({ closed }) => closed))
    for (const { socket } of all) socket.destroy()
    await until('/tunnel_sessions', (json) => (json.tunnel_sessions as unknown[]).length === 0)
  }
)
