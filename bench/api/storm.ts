import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { residentMegabytes } from '../process.js'
import { table } from '../table.js'
import { Client } from './client.js'
import { percentile } from './percentile.js'
import { answering, populate, type Site } from './populate.js'
import { startProduct } from './product.js'
import type { Seen, TrafficData } from './traffic.js'

/** A host of which nothing is written. */
export const STEADY = 'steady.bench.test'
/** Long enough to know how the traffic fares without any write. */
const CALM = 5_000
const WARM_UP = 2_000

export interface StormOptions {
  readonly writes: number
  readonly writers: number
  readonly resources: number
  readonly traffic: Pick<TrafficData, 'rate' | 'connections'>
}

/** As many writes as the API takes while traffic runs: what the writes reach, and what the traffic notices. */
export async function storm({ writes, writers, resources, traffic }: StormOptions): Promise<void> {
  const { rate, connections } = traffic
  console.log(`\n${writes} writes by ${writers} writers at ${resources} resources, ${rate} requests/s meanwhile`)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const sites = await populate(join(folder, 'sluice.db'), { resources, routesPerEdge: 1 })
  const product = await startProduct(folder)
  const clients = Array.from({ length: writers }, () => new Client(product.api))
  const visitor = new Client(product.traffic)
  const upstream = new Worker(new URL('./upstream.js', import.meta.url))
  const [upstreamPort] = (await once(upstream, 'message')) as [number]
  await steadySite(clients[0] as Client, upstreamPort)

  // Each writer has sites of its own, so that none overtakes another.
  const shares = clients.map((_, n) => sites.filter((_, m) => m % writers === n))
  const all = (count: number) =>
    Promise.all(clients.map((client, n) => write(client, visitor, shares[n] ?? [], Math.ceil(count / writers), n)))
  await all(WARM_UP)
  const workerData: TrafficData = { port: product.traffic, host: STEADY, ...traffic }
  const worker = new Worker(new URL('./traffic.js', import.meta.url), { workerData })
  const seen = async (message: string) => {
    const answered = once(worker, 'message')
    worker.postMessage(message)
    return ((await answered) as [Seen])[0]
  }
  await sleep(1_000)
  await seen('warm')
  await sleep(CALM)
  const calm = await seen('calm')
  const heapBefore = await product.heap()
  const residentBefore = residentMegabytes(product.pid)
  await seen('collected')

  const begun = performance.now()
  const each = await all(writes)
  const seconds = (performance.now() - begun) / 1_000
  const stormy = await seen('storm')
  const heapAfter = await product.heap()
  const residentAfter = residentMegabytes(product.pid)
  const downloaded = once(upstream, 'message')
  upstream.postMessage('end')
  const [expected] = (await downloaded) as [number]
  const last = await seen('end')
  await Promise.all([upstream.terminate(), product.stop()])
  for (const client of [...clients, visitor]) client.close()
  await rm(folder, { recursive: true, force: true })

  const answers = each.flatMap(({ answers }) => answers)
  const stale = each.reduce((sum, { stale }) => sum + stale, 0)
  const percent = (before: number, after: number) => `${(((after - before) / before) * 100).toFixed(1)} %`
  table(
    ['traffic', 'requests', 'p50 ms', 'p99 ms', 'longest ms'],
    (
      [
        ['calm', calm],
        ['storm', stormy]
      ] as const
    ).map(([name, of]) => [name, String(of.requests), of.p50.toFixed(2), of.p99.toFixed(2), of.longest.toFixed(1)])
  )
  table(
    ['writes/s', 'answer p50 ms', 'p99', 'stale', 'failed', 'dropped', 'echoes', 'download', 'heap', 'RSS'],
    [
      [
        (answers.length / seconds).toFixed(0),
        percentile(answers, 0.5).toFixed(2),
        percentile(answers, 0.99).toFixed(2),
        String(stale),
        String(last.failed),
        String(last.dropped),
        String(last.echoes),
        last.downloaded === expected ? 'whole' : `${last.downloaded} of ${expected}`,
        percent(heapBefore, heapAfter),
        percent(residentBefore, residentAfter)
      ]
    ]
  )
  console.log(`${connections} connections, one WebSocket and one download stayed open through all writes`)
}

/** Makes the site that traffic goes to. */
export async function steadySite(client: Client, upstream: number): Promise<void> {
  const backend = await client.must(201, 'POST', '/backends/static', { address: `127.0.0.1:${upstream}` })
  const edge = await client.must(201, 'POST', '/edges/https', { hostports: [`${STEADY}:443`] })
  const route = { match: '/', backend: { backend_id: backend.json.id } }
  await client.must(201, 'POST', `/edges/https/${edge.json.id}/routes`, route)
}

/** Writes and asks traffic at once: `stale` counts answers of an older configuration. Milliseconds of each write. */
async function write(client: Client, visitor: Client, sites: readonly Site[], count: number, name: number) {
  const answers: number[] = []
  let stale = 0
  for (let n = 0; n < count; n++) {
    const site = sites[n % sites.length] as Site
    const marker = `write ${n} by ${name}`
    const begun = performance.now()
    await client.must(200, 'PATCH', site.path, { traffic_policy: { value: answering(marker) } })
    answers.push(performance.now() - begun)
    const { text } = await visitor.ask('GET', '/', undefined, { host: site.host })
    if (text !== marker) stale++
  }
  return { answers, stale }
}
