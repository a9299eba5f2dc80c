import { once } from 'node:events'
import { createServer, get } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { asker } from '../../api/asking.js'
import { create, site } from '../../helpers/account.js'
import { startHeldUpstream } from '../../helpers/held-upstream.js'
import { type RunningSluice, type SluiceSetup, startSluice, THREADS_SERVE } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { Receiver } from '../traces/receiver.js'

/** Every test here gives sockets to other threads. */
const options = THREADS_SERVE ? {} : { skip: 'Node older than 24 gives no socket to another thread' }

interface Client {
  readonly socket: Socket
  text: string
}

/** Connections, which go to the two threads in turn. */
async function clients(t: Test, { port }: RunningSluice, count: number): Promise<Client[]> {
  const open: Client[] = []
  for (let i = 0; i < count; i++) {
    const socket = connect({ host: '127.0.0.1', port })
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined)
    const client: Client = { socket, text: '' }
    socket.on('data', (chunk: Buffer) => {
      client.text += String(chunk)
    })
    await once(socket, 'connect')
    open.push(client)
  }
  return open
}

const statuses = ({ text }: Client) => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))

/** Asks and answers the status. */
async function ask(client: Client, host = 'a.test'): Promise<number> {
  const before = statuses(client).length
  client.socket.write(`GET /a HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  await until(async () => statuses(client).length > before)
  return statuses(client).at(-1) as number
}

/** Starts the product with the threads that carry its traffic. */
async function start(t: Test, setup: SluiceSetup) {
  const workers: Worker[] = []
  const begun = (worker: Worker): void => {
    worker.on('message', (message: { readonly kind?: unknown }) => {
      if (message.kind === 'serving' && !workers.includes(worker)) workers.push(worker)
    })
    worker.once('exit', () => void workers.splice(workers.indexOf(worker), 1))
  }
  process.on('worker', begun)
  t.teardown(() => void process.off('worker', begun))
  const sluice = await startSluice(t, { ...setup, threads: 2 })
  return { sluice, workers }
}

t.test('a breaker counts what all threads see, and one of them probes', options, async (t) => {
  const upstream = await startHeldUpstream(t)
  const { sluice, workers } = await start(t, { upstream: { port: 9 } })
  const backend = await create(sluice, '/backends/static', { address: upstream.url.slice('http://'.length) })
  const circuit_breaker = {
    tripped_duration: 1,
    rolling_window: 60,
    volume_threshold: 6,
    error_threshold_percentage: 1
  }
  await site(sluice, 'a.test', { backend: { backend_id: backend.id }, circuit_breaker })
  const four = await clients(t, sluice, 4)
  const fails = async (client: Client) => {
    const [asked, before] = [ask(client), upstream.waiting.length]
    await until(async () => upstream.waiting.length > before || statuses(client).at(-1) === 503)
    upstream.waiting.at(-1)?.writeHead(500).end()
    return await asked
  }
  // Three failures in each thread: neither alone would open it.
  const seen = []
  for (let i = 0; i < 6; i++) seen.push(await fails(four[i % 2] as Client))
  t.same(seen, [500, 500, 500, 500, 500, 500])
  for (const client of four) t.equal(await ask(client), 503)
  const asked = upstream.waiting.length
  t.equal(asked, 6)

  // Once the pause is over all ask at once, and one gets through.
  await until(async () => {
    for (const client of four) client.socket.write('GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n')
    const wanted = four.map((client) => statuses(client).length)
    await until(async () => {
      const more = four.filter((client, place) => statuses(client).length > (wanted[place] as number)).length
      return more === 4 || (more === 3 && upstream.waiting.length > asked)
    })
    return upstream.waiting.length > asked
  })
  t.equal(upstream.waiting.length, asked + 1)

  // A thread that ends takes its probe along, and another thread probes after the next pause.
  await Promise.all([...workers].map((worker) => worker.terminate()))
  await until(async () => workers.length === 2)
  const [again] = await clients(t, sluice, 1)
  await until(async () => {
    again?.socket.write('GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n')
    const before = statuses(again as Client).length
    await until(async () => statuses(again as Client).length > before || upstream.waiting.length > asked + 1)
    return upstream.waiting.length > asked + 1
  })
})

t.test('a budget of retries is one for all threads', options, async (t) => {
  let asked = 0
  const broken = createServer((_, response) => {
    asked++
    response.writeHead(502).end()
  }).listen(0, '127.0.0.1')
  await once(broken, 'listening')
  t.teardown(() => {
    broken.closeAllConnections()
    broken.close()
  })
  const { sluice } = await start(t, { upstream: { port: 9 } })
  const address = `127.0.0.1:${(broken.address() as AddressInfo).port}`
  const backend = await create(sluice, '/backends/static', {
    address,
    retries: { on: ['502'], attempts: 2, share: 1 }
  })
  await site(sluice, 'a.test', { backend: { backend_id: backend.id } })
  const four = await clients(t, sluice, 4)
  for (let i = 0; i < 30; i++) t.equal(await ask(four[i % 4] as Client), 502)
  // Ten, and one for each hundred requests, in whichever threads.
  t.equal(asked, 40)
})

t.test(
  'the threads together give a server no more than max_connections, and report it together',
  options,
  async (t) => {
    let [active, peak] = [0, 0]
    const held: (() => void)[] = []
    const slow = createServer((_request, response) => {
      peak = Math.max(peak, ++active)
      held.push(() => {
        active--
        response.end('ok')
      })
    }).listen(0, '127.0.0.1')
    await once(slow, 'listening')
    t.teardown(() => {
      slow.closeAllConnections()
      slow.close()
    })
    const { sluice } = await start(t, { upstream: { port: 9 } })
    const backend = await create(sluice, '/backends/static', {
      address: `127.0.0.1:${(slow.address() as AddressInfo).port}`,
      max_connections: 4
    })
    await site(sluice, 'a.test', { backend: { backend_id: backend.id } })
    const answers = (await clients(t, sluice, 12)).map((client) => ask(client))
    const account = asker('127.0.0.1', sluice.apiPort)
    const metric = async (name: string) => {
      const { text } = await account('/metrics', { key: sluice.apiKey })
      return Number(new RegExp(`^${name}\\{backend="http://${backend.address}".*\\} (\\d+)$`, 'm').exec(text)?.[1])
    }
    await until(
      async () => (await metric('sluice_upstream_active')) === 4 && (await metric('sluice_upstream_waiting')) === 8
    )
    let over = false
    const answered = Promise.all(answers).finally(() => {
      over = true
    })
    await until(async () => {
      held.shift()?.()
      return over
    })
    t.same(await answered, Array(12).fill(200))
    t.equal(peak, 4)
  }
)

t.test('spans come from every thread', options, async (t) => {
  const receiver = await Receiver.start(t)
  const { sluice } = await start(t, {
    upstream: { port: 9 },
    policy: 'on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "ok" } }] }]\n',
    options: { OTLP_ENDPOINT: receiver.url, OTLP_DELAY: '10ms', TRACES_SAMPLER: 'always_on' }
  })
  for (const client of await clients(t, sluice, 6)) t.equal(await ask(client), 200)
  t.equal((await receiver.received(6)).length, 6)
})

t.test(
  'exchanges of every thread are recorded, followed and explained, also by one that begins later',
  options,
  async (t) => {
    const { sluice, workers } = await start(t, {
      upstream: { port: 9 },
      policy: 'on_http_request: [{ name: all, actions: [{ type: custom-response, config: { status_code: 200 } }] }]\n',
      options: { RECORDER_WHERE: 'res.status_code == 200' }
    })
    const account = asker('127.0.0.1', sluice.apiPort)
    const call = async (path: string, method = 'GET') => (await account(path, { method, key: sluice.apiKey })).json
    const stream = get({
      port: sluice.apiPort,
      host: '127.0.0.1',
      path: '/exchanges/stream?explain=true&rate=100',
      headers: { authorization: `Bearer ${sluice.apiKey}`, 'ngrok-version': '2' }
    })
    t.teardown(() => stream.destroy())
    let followed = ''
    stream.on('response', (response) => response.on('data', (chunk: Buffer) => (followed += String(chunk))))
    stream.on('error', () => undefined)
    await until(() => followed.includes('following'))
    const explained = () => followed.match(/"rule":"all"/g)?.length ?? 0
    const seen = () => followed.match(/^event: exchange$/gm)?.length ?? 0
    for (const client of await clients(t, sluice, 4)) t.equal(await ask(client), 200)
    await until(() => seen() === 4)
    t.ok(explained() >= 4, 'those of both threads are explained')
    await until(async () => (await call('/exchanges')).exchanges.length === 4)

    const { header, value } = await call('/explain/keys', 'POST')
    await Promise.all([...workers].map((worker) => worker.terminate()))
    await until(async () => workers.length === 2)
    for (const client of await clients(t, sluice, 2)) t.equal(await ask(client), 200)
    await until(() => seen() === 6)
    stream.destroy()
    await until(async () => (await call('/exchanges')).recorder.followers === 0)
    await call('/exchanges', 'DELETE')
    const [one, two] = (await clients(t, sluice, 2)) as [Client, Client]
    t.equal(await ask(one), 200)
    two.socket.write(`GET /keyed HTTP/1.1\r\nHost: a.test\r\n${header}: ${value}\r\n\r\n`)
    await until(() => two.text.includes('\r\n\r\n'))
    const [, id] = /^Sluice-Exchange: (\S+)\r$/im.exec(two.text) ?? []
    t.type(id, 'string', 'a thread that began after the key was made knows it')
    await until(async () => (await call('/exchanges')).exchanges.length === 2)
    t.match(await call(`/exchanges/${id}`), { explained: true, url: /keyed$/ })
    const shown = (await call('/exchanges')).exchanges as { readonly explained: boolean }[]
    t.same(shown.map((one) => one.explained).sort(), [false, true], 'the other one was recorded without an explanation')
  }
)

t.test('a thread whose memory is exhausted ends, and the process goes on', options, async (t) => {
  const { sluice, workers } = await start(t, {
    options: { WORKER_HEAP: '64MiB' },
    upstream: { port: 9 },
    policy: 'on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "ok" } }] }]\n'
  })
  const four = await clients(t, sluice, 4)
  for (const client of four) t.equal(await ask(client), 200)
  const [one] = workers
  const ended = new Promise((resolve) => one?.once('exit', resolve))
  // More than its heap may have.
  const large = new Map(Array.from({ length: 16 }, (_, i) => [`host /${i}`, `${i}`.repeat(2 ** 23)]))
  for (let i = 0; i < 2; i++) one?.postMessage({ kind: 'challenges', answers: large })
  await ended
  await until(async () => four.filter(({ socket }) => socket.closed).length === 2)
  for (const client of four) if (!client.socket.closed) t.equal(await ask(client), 200)
  await until(async () => workers.length === 2)
  const [fresh] = await clients(t, sluice, 1)
  t.equal(await ask(fresh as Client), 200)
  t.match(await sluice.line(({ msg }) => /has ended; another one takes its place/.test(String(msg))), { level: 40 })
})
