import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import type { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { account, create, site } from '../../helpers/account.js'
import { startHeldUpstream } from '../../helpers/held-upstream.js'
import { type RunningSluice, type SluiceSetup, startSluice, THREADS_SERVE } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { freePort } from '../../proxy/free-port.js'
import { folder } from '../../store/opened.js'

/** Every test here gives sockets to other threads. */
const options = THREADS_SERVE ? {} : { skip: 'Node older than 24 gives no socket to another thread' }
const GET = 'GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n'
const OK = 'on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "ok" } }] }]\n'

interface Client {
  readonly socket: Socket
  over: boolean
  text: string
}

async function open(t: Test, port: number, first = ''): Promise<Client> {
  const socket = connect({ host: '127.0.0.1', port })
  const client: Client = { socket, over: false, text: '' }
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

const answers = ({ text }: Client) => text.split('HTTP/1.1 200').length - 1

/** Asks on the connection and waits for the answer. */
async function ask(client: Client): Promise<void> {
  const before = answers(client)
  client.socket.write(GET)
  await until(async () => answers(client) > before || client.over)
  if (answers(client) === before) throw new Error(`no answer: ${client.text}`)
}

interface Threads {
  readonly sluice: RunningSluice
  /** Those that carry traffic and have not ended, oldest first. */
  readonly workers: readonly Worker[]
}

async function start(t: Test, setup: SluiceSetup = {}): Promise<Threads> {
  const workers: Worker[] = []
  const begun = (worker: Worker): void => {
    // Only those that carry traffic say what they serve.
    worker.on('message', (message: { readonly kind?: unknown }) => {
      if (message.kind === 'serving' && !workers.includes(worker)) workers.push(worker)
    })
    worker.once('exit', () => {
      const place = workers.indexOf(worker)
      if (place !== -1) workers.splice(place, 1)
    })
  }
  process.on('worker', begun)
  t.teardown(() => void process.off('worker', begun))
  // Nothing is forwarded where the policy answers.
  const sluice = await startSluice(t, { policy: OK, upstream: { port: 9 }, ...setup, threads: 2 })
  return { sluice, workers }
}

async function metric(sluice: RunningSluice, name: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${sluice.apiPort}/metrics`, {
    headers: { authorization: `Bearer ${sluice.apiKey}`, connection: 'close' }
  })
  const lines = (await answer.text()).split('\n').filter((line) => line.startsWith(name) && !line.startsWith('#'))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

t.test('connections go to the thread with the fewest, and a killed thread costs its own alone', options, async (t) => {
  const { sluice, workers } = await start(t)
  const clients: Client[] = []
  for (let i = 0; i < 8; i++) clients.push(await open(t, sluice.port))
  await Promise.all(clients.map(ask))
  t.equal(await metric(sluice, 'sluice_requests_total'), 8)
  t.equal(await metric(sluice, 'sluice_connections '), 8)
  t.equal(await metric(sluice, 'sluice_request_duration_seconds_count'), 8)
  const [first] = workers
  await first?.terminate()
  await until(async () => clients.filter(({ over }) => over).length === 4)
  const left = clients.filter(({ over }) => !over)
  await Promise.all(left.map(ask))
  t.equal(await metric(sluice, 'sluice_requests_total'), 12)
  t.equal(await metric(sluice, 'sluice_connections '), 4)
  await until(async () => workers.length === 2)
  for (let i = 0; i < 4; i++) await ask(await open(t, sluice.port))
  t.equal(await metric(sluice, 'sluice_connections '), 8)
  const applied = await sluice.reload(OK.replace('"ok"', '"changed"'))
  t.ok(applied.ok)
  const after = []
  for (let i = 0; i < 4; i++) after.push(await open(t, sluice.port))
  await Promise.all(after.map(ask))
  t.ok(after.every(({ text }) => text.endsWith('changed')))
})

t.test(
  'threads that are killed under load are replaced, and what was accepted meanwhile is served',
  options,
  async (t) => {
    const { sluice, workers } = await start(t)
    let [over, served, kills] = [false, 0, 0]
    let dying = false
    const broken: string[] = []
    const load = Array.from({ length: 6 }, async () => {
      while (!over) {
        // What is given to a thread while it dies breaks with it.
        const [before, given] = [kills, dying]
        const client = await open(t, sluice.port)
        try {
          for (let i = 0; i < 5; i++) await ask(client)
          served++
        } catch (error) {
          if (!given && kills === before) broken.push(String(error))
        }
        client.socket.destroy()
      }
    })
    for (let round = 0; round < 3; round++) {
      const before = served
      await until(async () => served > before + 20 && workers.length === 2)
      kills++
      dying = true
      await workers[round % 2]?.terminate()
      dying = false
    }
    const before = served
    await until(async () => served > before + 20)
    over = true
    await Promise.all(load)
    t.same(broken, [], 'only connections of a thread that was killed break')
    await until(async () => (await metric(sluice, 'sluice_connections ')) === 0)
  }
)

t.test('a thread that throws answers what it has, and another one takes its place', options, async (t) => {
  const upstream = await startHeldUpstream(t)
  const { sluice, workers } = await start(t, {
    policy: 'on_http_request: []',
    upstream: { port: Number(new URL(upstream.url).port) },
    options: { TIMEOUTS_DRAIN: '20s' }
  })
  const both = [await open(t, sluice.port, GET), await open(t, sluice.port, GET)]
  await until(async () => upstream.waiting.length === 2)
  const [failing] = workers
  const ended = once(failing as Worker, 'exit')
  // It has no kind, so that reading it throws in the thread.
  failing?.postMessage(null)
  await until(async () => workers.length === 3)
  const fresh = await open(t, sluice.port, GET)
  await until(async () => upstream.waiting.length === 3)
  for (const response of upstream.waiting) response.end('ok')
  await until(async () => [...both, fresh].every((client) => answers(client) === 1))
  t.same(await ended, [1])
  t.equal(workers.length, 2)
  t.equal(both.filter(({ text }) => /connection: close/i.test(text)).length, 1)
  t.match(await sluice.line(({ msg }) => /another one takes its place/.test(String(msg))), { level: 50 })
})

t.test('a limit of connections holds for all threads together', options, async (t) => {
  const port = await freePort()
  const { sluice } = await start(t, {
    options: {
      LIMITS_CONNECTIONS: '5',
      LIMITS_CONNECTIONS_PER_ADDRESS: '3',
      TRUSTED_PROXIES: '127.0.0.1/32',
      LISTENERS: `http://127.0.0.1:${port}?proxy_protocol=on`
    }
  })
  // The proxy itself is exempt from the limit of an address.
  const mine: Client[] = []
  for (let i = 0; i < 5; i++) mine.push(await open(t, sluice.port))
  await Promise.all(mine.map(ask))
  const sixth = await open(t, sluice.port, GET)
  await until(async () => sixth.over)
  t.match(sixth.text, /^HTTP\/1.1 503 /)
  mine[0]?.socket.destroy()
  await until(async () => {
    const again = await open(t, sluice.port, GET)
    await until(async () => again.text !== '' || again.over)
    again.socket.destroy()
    return answers(again) === 1
  })
  const by = (client: string) => `PROXY TCP4 ${client} 127.0.0.1 4000 80\r\n${GET}`
  const proxied: Client[] = []
  for (let i = 0; i < 3; i++) proxied.push(await open(t, port, by('192.0.2.1')))
  await until(async () => proxied.every((client) => answers(client) === 1))
  const fourth = await open(t, port, by('192.0.2.1'))
  await until(async () => fourth.over)
  t.match(fourth.text, /^HTTP\/1.1 503 /)
  const other = await open(t, port, by('192.0.2.2'))
  await until(async () => answers(other) === 1)
  const refused = sluice.log.filter(({ limit }) => limit === 'limits.connections_per_address')
  t.match(refused, [{ client: '192.0.2.1' }])
})

t.test('a ticket of one thread resumes in the other', options, async (t) => {
  const port = await freePort()
  const { sluice } = await start(t, { options: { LISTENERS: `https://127.0.0.1:${port}` } })
  t.equal(sluice.log.length > 0, true)
  const shake = async (session?: Buffer) => {
    const about = { host: '127.0.0.1', port, servername: 'localhost', rejectUnauthorized: false }
    const socket = connectTls({ ...about, ...(session === undefined ? {} : { session }) })
    t.teardown(() => socket.destroy())
    const [ticket] = session === undefined ? await once(socket, 'session') : [session]
    if (session !== undefined) await once(socket, 'secureConnect')
    return { ticket: ticket as Buffer, reused: socket.isSessionReused() }
  }
  const { ticket, reused } = await shake()
  t.equal(reused, false)
  // The connections stay open, so that both threads have some.
  for (let i = 0; i < 4; i++) t.equal((await shake(ticket)).reused, true)
})

t.test('a stop lets all threads answer what they have', options, async (t) => {
  const upstream = await startHeldUpstream(t)
  const { sluice } = await start(t, {
    policy: 'on_http_request: []',
    upstream: { port: Number(new URL(upstream.url).port) },
    options: { TIMEOUTS_DRAIN: '20s' }
  })
  const both = [await open(t, sluice.port, GET), await open(t, sluice.port, GET)]
  await until(async () => upstream.waiting.length === 2)
  const stopped = sluice.stop()
  for (const response of upstream.waiting) response.end('ok')
  t.same(await stopped, { ended: 2, cut: 0 })
  t.ok(both.every((client) => answers(client) === 1 && client.text.endsWith('ok')))
})

t.test('each exchange has its line in the log, those of one connection in order', options, async (t) => {
  const { sluice } = await start(t)
  const clients: Client[] = []
  for (let i = 0; i < 6; i++) clients.push(await open(t, sluice.port))
  for (const client of clients) {
    for (let i = 0; i < 20; i++) client.socket.write(`GET /${i} HTTP/1.1\r\nHost: a.test\r\n\r\n`)
  }
  await until(async () => clients.every((client) => answers(client) === 20))
  const lines = () => sluice.log.filter(({ msg }) => msg === 'exchange')
  await until(async () => lines().length === 120)
  for (let connection = 1; connection <= 6; connection++) {
    const paths = lines().filter((line) => line.connection === connection)
    t.same(
      paths.map(({ path }) => path),
      Array.from({ length: 20 }, (_, i) => `/${i}`)
    )
  }
})

t.test('a delivery of a webhook counts once, whichever threads it comes to', options, async (t) => {
  const key = Buffer.alloc(24, 'k')
  const secret = `whsec_${key.toString('base64')}`
  const policy = `on_http_request:
  - actions: [{ type: verify-webhook, config: { provider: svix, secret: "${secret}" } }]
  - actions: [{ type: custom-response, config: { status_code: 200, body: taken } }]
`
  const { sluice } = await start(t, { policy })
  const deliver = async (id: string, clients: readonly Client[]) => {
    const at = Math.floor(Date.now() / 1_000)
    const mac = createHmac('sha256', key).update(`${id}.${at}.{}`).digest('base64')
    const head = `svix-id: ${id}\r\nsvix-timestamp: ${at}\r\nsvix-signature: v1,${mac}`
    const before = clients.map(({ text }) => text.length)
    for (const { socket } of clients)
      socket.write(`POST / HTTP/1.1\r\nHost: a.test\r\n${head}\r\nContent-Length: 2\r\n\r\n{}`)
    await until(async () => clients.every(({ text }, place) => text.slice(before[place]).includes('\r\n\r\n')))
    return clients.filter(({ text }, place) => text.slice(before[place]).startsWith('HTTP/1.1 200')).length
  }
  const clients: Client[] = []
  for (let i = 0; i < 6; i++) clients.push(await open(t, sluice.port))
  for (let i = 0; i < 10; i++) t.equal(await deliver(`attempt-${i}`, clients), 1)
})

t.test('what one thread finds out of a server all know, and the log says it once', options, async (t) => {
  const [port, second] = [await freePort(), await startHeldUpstream(t)]
  const { sluice } = await start(t, {})
  const call = account(sluice)
  const first = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  const other = await create(sluice, '/backends/static', { address: second.url.slice('http://'.length) })
  const group = await create(sluice, '/backends/failover', { backends: [first.id, other.id] })
  await site(sluice, 'a.test', { backend: { backend_id: group.id } })
  const clients: Client[] = []
  for (let i = 0; i < 4; i++) clients.push(await open(t, sluice.port))
  // One after the other, so that the threads learn of the outage between two of them.
  for (const [place, client] of clients.entries()) {
    client.socket.write(GET)
    await until(async () => second.waiting.length > place)
    second.waiting[place]?.end('ok')
    await until(async () => answers(client) === 1)
  }
  const down = () => sluice.log.filter(({ msg }) => /an upstream is down/.test(String(msg)))
  await until(async () => down().length > 0)
  t.match(down(), [{ by: 'traffic', upstream: `http://127.0.0.1:${port}` }])
  t.equal(down().length, 1)
  t.match((await call(`/backends/static/${first.id}`)).text, /"status":"down"/)
})

const LIMITED = `on_http_request:
  - actions:
      - type: rate-limit
        config: { name: each, algorithm: sliding_window, capacity: 20, rate: 60s, bucket_key: ["req.headers['x-key'][0]"] }
      - type: custom-response
        config: { status_code: 200, body: ok }
`

t.test('a limit admits as many in all threads together, and people see one number', options, async (t) => {
  const { sluice, workers } = await start(t, { policy: LIMITED })
  const call = account(sluice)
  const clients: Client[] = []
  for (let i = 0; i < 4; i++) clients.push(await open(t, sluice.port))
  const count = (status: number) =>
    clients.reduce((sum, { text }) => sum + text.split(`HTTP/1.1 ${status}`).length - 1, 0)
  const send = (client: Client, key: string, times: number) =>
    client.socket.write(`GET / HTTP/1.1\r\nHost: a.test\r\nX-Key: ${key}\r\n\r\n`.repeat(times))
  for (const client of clients) send(client, 'a', 15)
  await until(async () => count(200) + count(429) === 60)
  t.equal(count(200), 20)
  const [limit] = (await call('/limits')).json.limits
  t.match(limit, { name: 'each', admitted: 20, refused: 40, buckets: 1, recent: { admitted: 20, refused: 40 } })
  const [top] = (await call(`/limits/${limit.id}/top`)).json.keys
  t.match(top, { key: ['a'], refused: 40, refused_at_least: 40 })
  t.match((await call(`/limits/${limit.id}/buckets?key=a`)).json, { used: 20, remaining: 0 })
  t.equal(
    (await call(`/limits/${limit.id}`)).json.series.steps.reduce(
      (sum: number, step: { admitted: number }) => sum + step.admitted,
      0
    ),
    20
  )

  // One of the threads ends: its admissions count on, and so does what it has counted.
  await workers[0]?.terminate()
  await until(async () => workers.length === 2 && clients.some(({ over }) => over))
  const fresh = await open(t, sluice.port)
  clients.push(fresh)
  send(fresh, 'a', 3)
  await until(async () => fresh.text.split('HTTP/1.1 429').length === 4)
  t.match((await call('/limits')).json.limits, [{ admitted: 20, refused: 43, buckets: 1 }])

  t.equal((await call(`/limits/${limit.id}/buckets?key=a`, { method: 'DELETE' })).status, 200)
  send(fresh, 'a', 3)
  await until(async () => answers(fresh) === 3)
  t.match((await call('/limits')).json.limits, [{ admitted: 23, refused: 43, buckets: 1 }])
})

t.test('threads are shown with what they have', options, async (t) => {
  const { sluice, workers } = await start(t)
  const call = account(sluice)
  const clients: Client[] = []
  for (let i = 0; i < 4; i++) clients.push(await open(t, sluice.port))
  for (const client of clients) await ask(client)
  const shown = async () => (await call('/processes')).json.processes[0].workers
  t.match(await shown(), [
    {
      worker: 1,
      state: 'serving',
      connections: 2,
      requests: 2,
      memory: { heap_used: Number },
      event_loop_delay_ms: { p99: Number }
    },
    { worker: 2, state: 'serving', connections: 2, requests: 2 }
  ])
  t.equal(await metric(sluice, 'sluice_worker_requests_total{worker="1"}'), 2)
  t.equal(await metric(sluice, 'sluice_worker_connections'), 4)
  t.equal(await metric(sluice, 'sluice_worker_exits_total'), 0)
  await workers[0]?.terminate()
  await until(async () => (await metric(sluice, 'sluice_worker_exits_total')) === 1)
  await until(async () => (await shown()).filter(({ state }: { state: string }) => state === 'serving').length === 2)
})

t.test(
  'a thread that is busy delays no scrape, and what it has counted stays when it is killed',
  options,
  async (t) => {
    const { sluice, workers } = await start(t)
    const clients: Client[] = []
    for (let i = 0; i < 4; i++) clients.push(await open(t, sluice.port))
    for (const client of clients) await ask(client)
    const [busy] = workers as [Worker]
    let answered = false
    busy.on('message', ({ kind, answers: to }: { kind?: unknown; answers?: { serial: number } }) => {
      if (kind === 'counted' && to?.serial === -1) answered = true
    })
    // To read them takes it seconds.
    const large = new Map(Array.from({ length: 200_000 }, (_, i) => [`host /${i}`, `${i}`]))
    for (let i = 0; i < 20; i++) busy.postMessage({ kind: 'challenges', answers: large })
    busy.postMessage({ kind: 'count', serial: -1, limits: false })
    t.equal(await metric(sluice, 'sluice_requests_total'), 4)
    t.equal(answered, false)
    const ended = once(busy, 'exit')
    void busy.terminate()
    await ended
    await until(async () => (await metric(sluice, 'sluice_connections ')) === 2)
    t.equal(await metric(sluice, 'sluice_requests_total'), 4)
  }
)

t.test('what threads send to servers is counted of the server', options, async (t) => {
  const upstream = await startHeldUpstream(t)
  const { sluice, workers } = await start(t, {
    policy: 'on_http_request: []',
    upstream: { port: Number(new URL(upstream.url).port) }
  })
  const clients: Client[] = []
  for (let i = 0; i < 4; i++) clients.push(await open(t, sluice.port, GET))
  await until(async () => upstream.waiting.length === 4)
  const tries = 'sluice_upstream_tries_total'
  t.equal(await metric(sluice, 'sluice_upstream_active'), 4)
  t.equal(await metric(sluice, tries), 4)
  for (const response of upstream.waiting) response.end('ok')
  await until(async () => clients.every((client) => answers(client) === 1))
  t.equal(await metric(sluice, 'sluice_upstream_active'), 0)
  await workers[0]?.terminate()
  await until(async () => workers.length === 2)
  t.equal(await metric(sluice, tries), 4, 'also of a thread that has ended')
})

t.test('the access log of threads has every form and place', options, async (t) => {
  const path = join(await folder(t), 'access.log')
  const { sluice } = await start(t, { options: { ACCESS_LOG_FORMAT: 'combined', ACCESS_LOG_FILE: path } })
  const clients: Client[] = []
  for (let i = 0; i < 4; i++) clients.push(await open(t, sluice.port))
  for (const client of clients) await ask(client)
  const lines = async () => (await readFile(path, 'utf8')).split('\n').slice(0, -1)
  await until(async () => (await lines()).length === 4)
  for (const line of await lines()) t.match(line, /^127\.0\.0\.1 - - \[.*\] "GET \/a HTTP\/1\.1" 200 /)
})

t.test('an option that does not go with threads is refused with its name', async (t) => {
  const port = await freePort()
  const shared = { AGENTS: `127.0.0.1:${port}`, LISTENERS: `https://127.0.0.1:${port}` }
  await t.rejects(startSluice(t, { threads: 2, options: shared }), { code: 'WORKERS', message: /^agents: / })
})
