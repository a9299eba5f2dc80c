import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import type { Worker } from 'node:worker_threads'
import t from 'tap'
import { account, visit } from '../../../helpers/account.js'
import { THREADS_SERVE } from '../../../helpers/sluice.js'
import { until } from '../../../helpers/until.js'
import { answerOf } from '../agent-suite.js'
import { sdkAgent } from '../sdk-agent.js'
import { hashOf, Upstream } from '../upstream.js'
import { startProduct } from './product.js'

const options = THREADS_SERVE ? {} : { skip: 'Node older than 24 gives no socket to another thread' }
const HOST = 'app.example.com'
const LABELS = { app: 'web' }

// An exit before the last test must not look like success.
t.plan(2)

t.test('SDK: visitors in other threads than the agent', options, async (t) => {
  const workers: Worker[] = []
  const begun = (worker: Worker): void => {
    worker.on('message', (message: { readonly kind?: unknown }) => {
      if (message.kind === 'serving' && !workers.includes(worker)) workers.push(worker)
    })
    worker.once('exit', () => void workers.splice(workers.indexOf(worker), 1))
  }
  process.on('worker', begun)
  t.teardown(() => void process.off('worker', begun))
  const product = await startProduct(t, { threads: 2 })
  const { sluice, agents } = product
  const { token } = await product.credential()
  const upstream = await Upstream.start(t)
  await product.site(HOST, LABELS)
  const agent = await sdkAgent.start(agents, token, { labels: LABELS, target: upstream.port })
  const at = (path: string) => ({ host: '127.0.0.1', port: sluice.port, path, headers: { host: HOST }, agent: false })

  // Each connection goes to the thread with fewer, so both have some.
  const many = await Promise.all(
    Array.from({ length: 40 }, (_, index) => visit(sluice, HOST, { path: `/gather?count=40&id=${index}` }))
  )
  t.same(
    many.map(({ body }) => body),
    many.map((_, index) => `gathered ${index}`)
  )
  const { workers: shown } = (await account(sluice)('/processes')).json.processes[0]
  t.ok(
    shown.every(({ requests }: { requests: number }) => requests >= 10),
    JSON.stringify(shown)
  )
  const hash = createHash('sha256')
  for await (const chunk of await answerOf(get(at('/bytes?count=3000003')))) hash.update(chunk as Buffer)
  t.equal(hash.digest('hex'), hashOf(3_000_003), 'a long answer is whole')

  const open = await Promise.all([1, 2].map(async () => await answerOf(get(at('/endless')))))
  const broken = (answer: IncomingMessage) => new Promise((resolve) => answer.once('close', resolve))
  for (const answer of open) answer.on('error', () => undefined)
  await Promise.all(open.map((answer) => once(answer, 'data')))
  const ends = open.map(broken)
  // A thread that is killed takes its visitors along; the agent learns of it, and others do not.
  const aborted = once(upstream, 'aborted')
  await workers[0]?.terminate()
  await aborted
  await Promise.race(ends)
  t.equal(open.filter((answer) => answer.destroyed).length, 1)
  await until(async () => workers.length === 2)
  t.equal((await visit(sluice, HOST, { path: '/again' })).body, 'hello from /again')

  // What breaks at the agent does not look whole here.
  await agent.close()
  await Promise.all(ends)
  t.ok(open.every((answer) => !answer.complete))
  await product.until('/tunnels', (json) => (json.tunnels as unknown[]).length === 0)
  await until(async () => (await visit(sluice, HOST)).headers['sluice-error-code'] === 'NO_TUNNEL')
})

t.test('what one thread finds out of a tunnel all know', options, async (t) => {
  const product = await startProduct(t, { threads: 2 })
  const { sluice, agents } = product
  const { token } = await product.credential()
  await product.site(HOST, LABELS)
  let breaks = 0
  const breaking = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      breaks++
      socket.destroy()
    })
  }).listen(0, '127.0.0.1')
  await once(breaking, 'listening')
  t.teardown(() => breaking.close())
  const upstream = await Upstream.start(t)
  const broken = { labels: LABELS, target: (breaking.address() as AddressInfo).port }
  const failing = await sdkAgent.start(agents, token, broken)
  const working = await sdkAgent.start(agents, token, { labels: LABELS, target: upstream.port })
  await product.until('/tunnels', (json) => (json.tunnels as unknown[]).length === 2)

  // One client of each thread.
  const visitor = async () => {
    const socket = connect({ host: '127.0.0.1', port: sluice.port })
    t.teardown(() => socket.destroy())
    let text = ''
    socket.on('data', (chunk: Buffer) => {
      text += String(chunk)
    })
    await once(socket, 'connect')
    const answers = () => text.split('HTTP/1.1 ').length - 1
    return async () => {
      const before = answers()
      socket.write(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)
      await until(() => answers() > before)
    }
  }
  const [one, other] = [await visitor(), await visitor()]
  await until(async () => {
    const before = breaks
    const down = sluice.log.length
    await until(async () => {
      await one()
      return sluice.log.slice(down).some(({ msg }) => /an upstream is down/.test(String(msg)))
    })
    t.ok(breaks - before <= 3, 'the tunnel is avoided as soon as it is found down')
    const [found, since] = [breaks, performance.now()]
    // The news and this request may cross.
    await other()
    const crossed = breaks
    t.ok(crossed - found <= 1)
    for (let i = 0; i < 8; i++) await other()
    // After a second the tunnel is tried again.
    if (performance.now() - since > 900) return false
    t.equal(breaks, crossed, 'the other thread avoids it too')
    return true
  })
  const down = sluice.log.filter(({ msg }) => /an upstream is down/.test(String(msg)))
  t.equal(new Set(down.map(({ upstream: name }) => name)).size, 1)
  t.match(down[0], { by: 'traffic', upstream: `tunnel ${failing.id}` })
  await Promise.all([failing.close(), working.close()])
})

// Its threads outlive their sessions and would hold the process.
t.teardown(() => process.exit())
