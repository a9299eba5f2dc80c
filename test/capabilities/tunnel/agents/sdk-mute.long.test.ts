import { connect, createServer, type Socket } from 'node:net'
import { SessionBuilder } from '@ngrok/ngrok'
import t from 'tap'
import { account } from '../../../helpers/account.js'
import { until } from '../../../helpers/until.js'
import { startProduct } from './product.js'

/** Heartbeats of the agent, in seconds: it gives a connection up that has not answered for both together. */
const INTERVAL = 1
const TOLERANCE = 2

// An exit before the last test must not look like success.
t.plan(1)
t.test('SDK: a connection that falls silent is given up by both sides, and the agent comes back', async (t) => {
  const product = await startProduct(t)
  const { token } = await product.credential()
  const ask = account(product.sluice)
  let silent = false
  let accepted = 0
  const held: Socket[] = []
  const relay = createServer((socket) => {
    accepted++
    const through = connect(product.agents.port, '127.0.0.1')
    held.push(socket, through)
    for (const [from, to] of [
      [socket, through],
      [through, socket]
    ] as const) {
      from.pipe(to)
      from.on('error', () => to.destroy())
    }
    if (silent) hold()
  })
  /** As a network that loses every packet: nothing comes through, neither bytes nor ends, until it is open again. */
  const hold = () => {
    for (const socket of held) socket.pause()
  }
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    relay.close()
    for (const socket of held) socket.destroy()
  })
  const { port } = relay.address() as { port: number }
  const session = await new SessionBuilder()
    .authtoken(token)
    .serverAddr(`localhost:${port}`)
    .caCert(Buffer.from(product.agents.ca))
    .heartbeatInterval(INTERVAL)
    .heartbeatTolerance(TOLERANCE)
    .connect()
  const listener = await session.httpEndpoint().domain('app.example.com').listen()
  void listener.forward('http://127.0.0.1:9').catch(() => undefined)
  const sessions = async () => (await ask('/tunnel_sessions')).json.tunnel_sessions as { id: string }[]
  const tunnels = async () => (await ask('/tunnels')).json.tunnels as object[]
  t.equal((await sessions()).length, 1)
  silent = true
  hold()
  await until(async () => (await sessions()).length === 0)
  t.equal((await tunnels()).length, 0, 'the server gives it up after interval and tolerance')
  await until(async () => accepted > 1)
  silent = false
  for (const socket of held) socket.resume()
  await until(async () => (await tunnels()).length === 1)
  t.equal((await sessions()).length, 1)
  await session.close()
})

// Threads of the SDK outlive its sessions and would hold the process.
t.teardown(() => process.exit())
