import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { get } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { asker } from '../../../api/asking.js'
import { SluiceProcess } from '../../../cli/process.js'
import { until } from '../../../helpers/until.js'
import { answerOf, body } from '../agent-suite.js'
import { sdkAgent } from '../sdk-agent.js'
import { Upstream } from '../upstream.js'

const KEY = 'a-key-for-tests-0123456789'
const HOSTS = { ours: 'ours.example.com', sdk: 'sdk.example.com' }

// An exit before the last test must not look like success.
t.plan(1)

t.test('agents come back to a process that was killed, with their tunnels', async (t) => {
  const data = t.testdir()
  const [traffic, api, agents] = [await freePort(), await freePort(), await freePort()]
  const start = async () => {
    const words = ['start', '--listen', `127.0.0.1:${traffic}`, '--api', `127.0.0.1:${api}`]
    const process = new SluiceProcess(t, [...words, '--agents', `127.0.0.1:${agents}`, '--data', data], {
      cwd: data,
      env: { SLUICE_API_KEY: KEY, SLUICE_LIMITER_BUDGET: '64MiB' }
    })
    await process.logged('listening')
    return process
  }
  const first = await start()
  const ask = asker('127.0.0.1', api)
  const create = async (path: string, record: object) => {
    const answer = await ask(path, { method: 'POST', body: record, key: KEY })
    if (answer.status !== 201) throw new Error(`POST ${path} gave ${answer.status}: ${answer.text}`)
    return answer.json
  }
  const { token } = await create('/credentials', {})
  for (const [app, host] of Object.entries(HOSTS)) {
    const backend = await create('/backends/tunnel_group', { labels: { app } })
    const edge = await create('/edges/https', { hostports: [`${host}:443`] })
    await create(`/edges/https/${edge.id}/routes`, { match: '/', backend: { backend_id: backend.id } })
  }
  const upstream = await Upstream.start(t)
  const ca = join(data, 'agents', 'ca.pem')
  const forward = `http://127.0.0.1:${upstream.port}`
  const words = ['agent', '--server', `127.0.0.1:${agents}`, '--ca', ca, '--label', 'app=ours', '--forward', forward]
  const ours = new SluiceProcess(t, words, { cwd: data, env: { SLUICE_TOKEN: token } })
  await ours.told('app=ours ->')
  const held = await holdingRelay(t, agents)
  const place = { port: held, address: `localhost:${held}`, ca: await readFile(ca, 'utf8') }
  const sdk = await sdkAgent.start(place, token, { labels: { app: 'sdk' }, target: upstream.port })
  // Its session may have gone before it.
  t.teardown(() => void sdk.close().catch(() => undefined))
  for (const host of Object.values(HOSTS)) t.equal(await visit(traffic, host), '200 hello from /')
  const tunnels = async () => (await ask('/tunnels', { key: KEY })).json.tunnels as { readonly id: string }[]
  const before = (await tunnels()).map(({ id }) => id).sort()

  first.child.kill('SIGKILL')
  await first.ended()
  await start()
  for (const host of Object.values(HOSTS)) await until(async () => (await visit(traffic, host)) === '200 hello from /')
  t.same((await tunnels()).map(({ id }) => id).sort(), before, 'they have the ids that they had')

  const wrong = new SluiceProcess(t, words, { cwd: data, env: { SLUICE_TOKEN: 'nonsense' } })
  const { code, err } = await wrong.ended()
  t.equal(code, 1)
  t.match(err, /not that of a tunnel credential/)
  ours.child.kill('SIGTERM')
  t.equal((await ours.ended()).code, 0)
})

// Threads of the SDK outlive their sessions and would hold the process.
t.teardown(() => process.exit())

async function visit(port: number, host: string): Promise<string> {
  const answer = await answerOf(get({ host: '127.0.0.1', port, headers: { host }, agent: false }))
  return `${answer.statusCode} ${await body(answer)}`
}

/**
 * A balancer that keeps connections waiting while nobody listens on `to`: the SDK stays away for two minutes when a port
 * refuses it.
 */
async function holdingRelay(t: Test, to: number): Promise<number> {
  const open = new Set<Socket>()
  const join = async (socket: Socket): Promise<void> => {
    while (!socket.destroyed) {
      const further = connect({ host: '127.0.0.1', port: to })
      const connected = await once(further, 'connect').catch(() => undefined)
      if (connected === undefined) {
        await wait(50)
        continue
      }
      further.on('error', () => socket.destroy()).on('close', () => socket.destroy())
      socket.on('close', () => further.destroy())
      socket.pipe(further).pipe(socket)
      return
    }
  }
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => socket.destroy())
    void join(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  return (server.address() as { port: number }).port
}

async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
