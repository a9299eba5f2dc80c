import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { startProduct } from '../capabilities/tunnel/agents/product.js'
import { startShared, visitTls } from '../capabilities/tunnel/agents/shared.js'
import { RawAgent } from '../capabilities/tunnel/raw-agent.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'

const GET = 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n'

interface Client {
  readonly socket: Socket
  readonly over: boolean
  readonly text: string
}

/** An open connection from `from`: what came, and whether it has ended. */
async function open(t: Test, port: number, from = '127.0.0.1', first = ''): Promise<Client> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: from })
  const client = { socket, over: false, text: '' }
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  socket.once('close', () => {
    client.over = true
  })
  await once(socket, 'connect')
  socket.on('data', (chunk: Buffer) => {
    client.text += String(chunk)
  })
  if (first !== '') socket.write(first)
  return client
}

async function metric(sluice: RunningSluice, listener: string, limit: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${sluice.apiPort}/metrics`, {
    headers: { authorization: `Bearer ${sluice.apiKey}`, connection: 'close' }
  })
  const line = (await answer.text())
    .split('\n')
    .find((one) => one.startsWith(`sluice_connections_refused_total{listener="${listener}",limit="${limit}"}`))
  return Number(line?.split(' ')[1] ?? 0)
}

const LIMITS = { LIMITS_CONNECTIONS_PER_ADDRESS: '3' }
const refusals = (sluice: RunningSluice) => sluice.log.filter(({ limit }) => limit !== undefined)

t.test('one address has its share of the connections of a listener', async (t) => {
  const sluice = await startSluice(t, { options: LIMITS })
  const mine = []
  for (let i = 0; i < 3; i++) mine.push(await open(t, sluice.port))
  const fourth = await open(t, sluice.port)
  const fifth = await open(t, sluice.port)
  await until(async () => fourth.over && fifth.over)
  t.notOk(mine.some(({ over }) => over))
  const neighbour = await open(t, sluice.port, '127.0.0.2', GET)
  await until(async () => neighbour.text.startsWith('HTTP/1.1 404 '))
  await until(async () => (await metric(sluice, 'default', 'address-connections')) === 2)
  t.match(refusals(sluice), [{ listener: 'default', limit: 'limits.connections_per_address', client: '127.0.0.1' }])
  t.equal(refusals(sluice).length, 1, 'one line')
  mine[0]?.socket.destroy()
  await until(async () => {
    const again = await open(t, sluice.port, '127.0.0.1', GET)
    await until(async () => again.text !== '')
    return again.text.startsWith('HTTP/1.1 404 ')
  })
})

t.test('behind a trusted proxy the address in the PROXY header counts, and that of the proxy never', async (t) => {
  const port = await freePort()
  const sluice = await startSluice(t, {
    options: { ...LIMITS, TRUSTED_PROXIES: '127.0.0.1/32', LISTENERS: `http://127.0.0.1:${port}?proxy_protocol=on` }
  })
  const direct: Client[] = []
  for (let i = 0; i < 6; i++) direct.push(await open(t, sluice.port, '127.0.0.1', GET))
  await until(async () => direct.every(({ text }) => text.startsWith('HTTP/1.1 404 ')))
  const by = (client: string) => `PROXY TCP4 ${client} 127.0.0.1 4000 80\r\n${GET}`
  const proxied: Client[] = []
  for (let i = 0; i < 3; i++) proxied.push(await open(t, port, '127.0.0.1', by('192.0.2.1')))
  await until(async () => proxied.every(({ text }) => text.startsWith('HTTP/1.1 404 ')))
  const fourth = await open(t, port, '127.0.0.1', by('192.0.2.1'))
  await until(async () => fourth.over)
  t.match(fourth.text, /^HTTP\/1.1 503 /)
  const other = await open(t, port, '127.0.0.1', by('192.0.2.2'))
  await until(async () => other.text.startsWith('HTTP/1.1 404 '))
  t.match(refusals(sluice), [{ limit: 'limits.connections_per_address', client: '192.0.2.1' }])
})

t.test('one address has its share of the handshakes', async (t) => {
  const port = await freePort()
  const sluice = await startSluice(t, {
    options: { LIMITS_HANDSHAKES_PER_ADDRESS: '2', LISTENERS: `https://127.0.0.1:${port}` }
  })
  const mute = [await open(t, port, '127.0.0.2'), await open(t, port, '127.0.0.2')]
  const third = await open(t, port, '127.0.0.2')
  await until(async () => third.over)
  t.notOk(mute.some(({ over }) => over))
  t.equal((await visitTls(port, 'localhost')).status, 404, 'others shake hands')
  t.match(refusals(sluice), [{ limit: 'limits.handshakes_per_address', client: '127.0.0.2' }])
})

t.test('the listener of the API has the limit too', async (t) => {
  const sluice = await startSluice(t, { options: LIMITS })
  const mine = []
  for (let i = 0; i < 3; i++) mine.push(await open(t, sluice.apiPort, '127.0.0.2'))
  const fourth = await open(t, sluice.apiPort, '127.0.0.2')
  await until(async () => fourth.over)
  t.notOk(mine.some(({ over }) => over))
  await until(async () => (await metric(sluice, 'api', 'address-connections')) === 1)
})

t.test('agents: connections of one address have a limit, handshakes beyond it wait and hold nobody up', async (t) => {
  const { agents, credential, sluice } = await startProduct(t, {
    options: { LIMITS_CONNECTIONS_PER_ADDRESS: '4', LIMITS_HANDSHAKES_PER_ADDRESS: '2' }
  })
  const { token } = await credential()
  const mute = []
  for (let i = 0; i < 4; i++) mute.push(await open(t, agents.port, '127.0.0.2'))
  const fifth = await open(t, agents.port, '127.0.0.2')
  await until(async () => fifth.over)
  t.notOk(mute.some(({ over }) => over))
  const agent = await RawAgent.session(agents, token)
  t.teardown(() => agent.socket.destroy())
  t.match(refusals(sluice), [{ listener: 'agents', limit: 'limits.connections_per_address', client: '127.0.0.2' }])
})

t.test('on a port that agents share with visitors, both are connections of their address', async (t) => {
  const { agents, port, token, sluice } = await startShared(t, { options: LIMITS })
  const crowd: RawAgent[] = []
  for (let i = 0; i < 3; i++) crowd.push(await RawAgent.session(agents, token))
  t.teardown(() => {
    for (const { socket } of crowd) socket.destroy()
  })
  await t.rejects(visitTls(port, 'localhost'))
  t.match(refusals(sluice), [{ limit: 'limits.connections_per_address', client: '127.0.0.1' }])
  crowd[0]?.socket.destroy()
  await until(
    async () =>
      await visitTls(port, 'localhost').then(
        () => true,
        () => false
      )
  )
})
