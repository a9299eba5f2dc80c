import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { asker } from '../api/asking.js'
import { type PostgresServer, startOwnPostgres } from '../store/postgres-server.js'
import { SluiceProcess } from './process.js'

const KEY = 'a-key-of-the-administrator'
const SEAL = Buffer.alloc(32, 'k').toString('base64')
const LONG = process.env.SLUICE_TEST_LONG === '1'
const WINDOW = 60_000

/** Has a thread of its own: what the clients in this one do must not delay its stamps. */
const UPSTREAM = `
const { createServer } = require('node:http')
const { parentPort } = require('node:worker_threads')
const stamps = new Map()
const server = createServer((received, response) => {
  const at = performance.now()
  const of = stamps.get(received.url)
  if (of === undefined) stamps.set(received.url, [at])
  else of.push(at)
  response.end('ok')
})
server.keepAliveTimeout = 0
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
parentPort.on('message', (url) => parentPort.postMessage(stamps.get(url) ?? []))
`

interface Upstream {
  readonly port: number
  /** When each request for a path came: monotonic milliseconds. */
  stamps(path: string): Promise<readonly number[]>
}

/** A server that remembers when each request came. */
async function stampingUpstream(t: Test): Promise<Upstream> {
  const worker = new Worker(UPSTREAM, { eval: true })
  t.teardown(async () => void (await worker.terminate()))
  const answer = async <T>() => ((await once(worker, 'message')) as [T])[0]
  const port = await answer<number>()
  return {
    port,
    stamps: async (path) => {
      worker.postMessage(path)
      return await answer<number[]>()
    }
  }
}

interface Cluster {
  readonly server: PostgresServer
  readonly store: string
  readonly upstream: Upstream
  start(): Promise<Member>
}

interface Member {
  readonly process: SluiceProcess
  readonly port: number
  readonly api: ReturnType<typeof asker>
}

const limit = (config: string) =>
  `on_http_request: [{ actions: [{ type: rate-limit, config: { name: all, algorithm: sliding_window, rate: 60s, bucket_key: [req.url.path], ${config} } }] }]\n`

async function cluster(t: Test, config: string): Promise<Cluster> {
  const server = await startOwnPostgres(t)
  const store = await server.database()
  const upstream = await stampingUpstream(t)
  const cwd = t.testdir({ 'policy.yaml': limit(config) })
  let names = 0
  const start = async (): Promise<Member> => {
    const process = new SluiceProcess(t, ['start', '--no-cache', '--data', `data${++names}`], {
      cwd,
      env: {
        SLUICE_API_KEY: KEY,
        SLUICE_SEAL_KEY: SEAL,
        SLUICE_STORE: store,
        SLUICE_LISTEN: '127.0.0.1:0',
        SLUICE_API_LISTEN: '127.0.0.1:0',
        SLUICE_UPSTREAM: `http://127.0.0.1:${upstream.port}`,
        SLUICE_POLICY: 'policy.yaml',
        SLUICE_LIMITER_BUDGET: '64MiB',
        SLUICE_LIMITER_SCOPE: 'cluster',
        SLUICE_TIMEOUTS_DRAIN: '1s'
      }
    })
    const { traffic, api } = (await process.logged('listening')) as { traffic: string; api: string }
    const { hostname, port } = new URL(api)
    return { process, port: Number(new URL(traffic).port), api: asker(hostname, Number(port)) }
  }
  return { server, store, upstream, start }
}

/** Status of one request; 0: the process did not answer. */
function ask(agent: Agent, port: number, path: string): Promise<{ status: number; retryAfter: number }> {
  return new Promise((resolve) => {
    const sent = request({ agent, port, path, host: '127.0.0.1' }, (answer) => {
      answer.resume()
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, retryAfter: Number(answer.headers['retry-after'] ?? 0) })
      )
    })
    sent.setTimeout(20_000, () => sent.destroy())
    sent.on('error', () => resolve({ status: 0, retryAfter: 0 }))
    sent.end()
  })
}

/** Asks each process so many times a second, together, until the returned function is called; that answers the statuses. */
function load(
  t: Test,
  ports: () => readonly number[],
  perSecond: number,
  path: string
): () => Promise<Map<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: 200 })
  const counts = new Map<number, number>()
  const pending = new Set<Promise<void>>()
  const begun = performance.now()
  let sent = 0
  const timer = setInterval(() => {
    for (const due = ((performance.now() - begun) * perSecond) / 1_000; sent < due; sent++) {
      const all = ports()
      const asked: Promise<void> = ask(agent, all[sent % all.length] as number, path).then(({ status }) => {
        counts.set(status, (counts.get(status) ?? 0) + 1)
        pending.delete(asked)
      })
      pending.add(asked)
    }
  }, 5)
  const stop = async () => {
    clearInterval(timer)
    await Promise.all(pending)
    agent.destroy()
    return counts
  }
  t.teardown(() => clearInterval(timer))
  return stop
}

/** Most that came within one window. */
function most(stamps: readonly number[]): number {
  let [first, worst] = [0, 0]
  for (const [i, at] of stamps.entries()) {
    while ((stamps[first] as number) <= at - WINDOW) first++
    worst = Math.max(worst, i - first + 1)
  }
  return worst
}

/** What a limiter that knows everything would have admitted of requests that come evenly. */
function ideal(capacity: number, perSecond: number, seconds: number): number {
  const admitted: number[] = []
  let first = 0
  for (let i = 0; i < perSecond * seconds; i++) {
    const at = (i * 1_000) / perSecond
    while (first < admitted.length && (admitted[first] as number) <= at - WINDOW) first++
    if (admitted.length - first < capacity) admitted.push(at)
  }
  return admitted.length
}

t.test('three processes admit together what one would, and each knows of it', async (t) => {
  const { start, upstream } = await cluster(t, 'capacity: 1000')
  const members = [await start(), await start(), await start()]
  const stop = load(t, () => members.map(({ port }) => port), 200, '/hot')
  await sleep(8_000)
  const counts = await stop()
  t.comment(JSON.stringify([...counts]))
  const passed = (await upstream.stamps('/hot')).length
  t.ok(passed <= 1_000 && passed >= 990, `${passed} have passed`)

  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  for (const { port } of members) {
    const { status, retryAfter } = await ask(agent, port, '/hot')
    t.equal(status, 429)
    t.ok(retryAfter > 40 && retryAfter <= 61, String(retryAfter))
  }
  const [a, b] = members as [Member, Member]
  const { limits } = (await a.api('/limits', { key: KEY })).json
  t.match(limits, [{ name: 'all', scope: 'cluster', capacity: 1_000 }])
  const bucket = `/limits/${limits[0].id}/buckets?key=${encodeURIComponent('/hot')}`
  for (const { api } of members) {
    const { json } = await api(bucket, { key: KEY })
    t.match(json, { used: 1_000, remaining: 0 }, 'all that was granted is spent')
    t.ok(json.retry_after_seconds > 40, JSON.stringify(json))
  }
  /** A process that gets no turn for longer than a lease loses what it had in stock. */
  const few = ({ used, remaining }: { used: number; remaining: number }, least: number) =>
    t.ok(used >= least && used <= least + 40 && remaining <= 1_000 - least, `${used} are used, ${remaining} remain`)
  t.match((await a.api(bucket, { key: KEY, method: 'DELETE' })).json, { used: 0, remaining: 1_000 })
  for (const { port } of members)
    t.equal((await ask(agent, port, '/hot')).status, 200, 'the client may go on everywhere')
  few((await b.api(bucket, { key: KEY })).json, 3)

  for (const [i, { port }] of [...members, ...members].entries())
    t.equal((await ask(agent, port, '/cold')).status, 200, `request ${i}`)
  a.process.child.kill('SIGTERM')
  t.equal((await a.process.ended()).code, 0)
  const again = await start()
  const cold = `/limits/${limits[0].id}/buckets?key=${encodeURIComponent('/cold')}`
  few((await again.api(cold, { key: KEY })).json, 6)
})

t.test('faults admit no more', { timeout: LONG ? 400_000 : 120_000 }, async (t) => {
  const capacity = 1_000
  const { server, start, upstream } = await cluster(t, `capacity: ${capacity}, on_store_loss: local`)
  let members = [await start(), await start(), await start()]
  const rate = LONG ? 25 : 60
  const stop = load(t, () => members.map(({ port }) => port), rate, '/hot')
  await sleep(3_000)
  const [killed, paused] = members as [Member, Member]
  killed.process.child.kill('SIGKILL')
  members = members.slice(1)
  await sleep(2_000)
  members = [await start(), ...members]
  paused.process.child.kill('SIGSTOP')
  await sleep(LONG ? 10_000 : 4_000)
  paused.process.child.kill('SIGCONT')
  await sleep(1_000)
  await server.crash()
  await sleep(4_000)
  await server.start()
  await sleep(LONG ? 180_000 : 6_000)
  const counts = await stop()
  const stamps = await upstream.stamps('/hot')
  t.comment(JSON.stringify({ counts: [...counts], admitted: stamps.length, most: most(stamps) }))
  t.ok(most(stamps) <= capacity, `${most(stamps)} in one window`)
  t.ok(stamps.length > (LONG ? 3_000 : 500), `${stamps.length} were admitted`)
})

t.test(
  'over several windows the use is that of an ideal limiter',
  { skip: LONG ? false : 'takes minutes', timeout: 400_000 },
  async (t) => {
    const [capacity, perSecond, seconds] = [1_000, 25, 200]
    const { start, upstream } = await cluster(t, `capacity: ${capacity}`)
    const members = [await start(), await start(), await start()]
    const stop = load(t, () => members.map(({ port }) => port), perSecond, '/hot')
    await sleep(seconds * 1_000)
    await stop()
    const stamps = await upstream.stamps('/hot')
    const best = ideal(capacity, perSecond, seconds)
    t.comment(JSON.stringify({ admitted: stamps.length, ideal: best, most: most(stamps) }))
    t.ok(most(stamps) <= capacity)
    t.ok(stamps.length >= best * 0.99, `${stamps.length} of ${best}`)
  }
)
