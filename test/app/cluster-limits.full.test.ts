import t, { type Test } from 'tap'
import { type RunningSluice, startSluice, THREADS_SERVE } from '../helpers/sluice.js'
import { startOwnPostgres } from '../store/postgres-server.js'

const POLICY = `on_http_request:
  - actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: 10, rate: 60s, bucket_key: [req.url.path], scope: cluster }
      - type: custom-response
        config: { status_code: 200, body: "ok" }
`

/** Asks each process in turn, each time on a connection of its own. */
async function statuses(all: readonly RunningSluice[], path: string, count: number): Promise<number[]> {
  const found: number[] = []
  for (let i = 0; i < count; i++) {
    const { port } = all[i % all.length] as RunningSluice
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
    await answer.text()
    found.push(answer.status)
  }
  return found
}

const tally = (found: readonly number[]) => [200, 429].map((status) => found.filter((one) => one === status).length)

async function api(sluice: RunningSluice, path: string, method = 'GET') {
  const answer = await fetch(`http://127.0.0.1:${sluice.apiPort}${path}`, {
    method,
    headers: { authorization: `Bearer ${sluice.apiKey}`, 'service-version': '2', connection: 'close' }
  })
  return await answer.text()
}

async function metric(sluice: RunningSluice, name: string): Promise<number> {
  const line = (await api(sluice, '/metrics')).split('\n').find((one) => one.startsWith(`${name} `))
  return Number(line?.split(' ')[1])
}

async function together(t: Test, threads: number): Promise<void> {
  const server = await startOwnPostgres(t)
  const options = { STORE: await server.database() }
  const start = () => startSluice(t, { policy: POLICY, upstream: { port: 9 }, threads, options })
  const all = [await start(), await start()]
  t.same(tally(await statuses(all, '/a', 24)), [10, 14])
  const [first, second] = all as [RunningSluice, RunningSluice]
  const { limits } = JSON.parse(await api(first, '/limits')) as { limits: { id: string }[] }
  const bucket = `/limits/${limits[0]?.id}/buckets?key=/a`
  for (const sluice of all) t.match(JSON.parse(await api(sluice, bucket)), { used: 10, remaining: 0 })
  t.match(JSON.parse(await api(second, bucket, 'DELETE')), { used: 0, remaining: 10 })
  t.same(tally(await statuses(all, '/a', 14)), [10, 4])
  t.ok((await metric(first, 'sluice_limit_ledger_granted')) >= 10)
  t.equal(await metric(first, 'sluice_limit_ledger_refused_alone'), 0)

  await second.stop()
  const third = await start()
  t.same(tally(await statuses([third], '/a', 3)), [0, 3], 'nothing is lost over a restart')
  await server.stop()
  const [passed, refused] = tally(await statuses([third], '/b', 3))
  t.same([passed, refused], [0, 3], 'without the store each limit does as it says')
  t.ok((await metric(third, 'sluice_limit_ledger_refused_alone')) >= 3)
  const away = JSON.parse(await api(third, bucket))
  t.match(away, { error_code: 'ERR_SLUICE_UNAVAILABLE', status_code: 503 })
  await server.start()
}

t.test('processes on one store count together', (t) => together(t, 0))

const THREADS = THREADS_SERVE ? {} : { skip: 'Node older than 24 gives no socket to another thread' }
t.test('so do threads that carry their traffic', THREADS, (t) => together(t, 2))
