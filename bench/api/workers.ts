import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { table } from '../table.js'
import { Client } from './client.js'
import { percentile } from './percentile.js'
import { answering, populate, type Site } from './populate.js'
import { type Product, startProduct } from './product.js'
import { STEADY, steadySite } from './storm.js'
import type { TrafficData } from './traffic.js'

const WARM_UP = 200
/** Connections that look whether a write serves: more than threads, so that each thread has some. */
const VISITORS = 4

interface WorkersOptions {
  /** Threads that carry traffic in one of the two; the other has none. */
  readonly threads: number
  readonly writes: number
  readonly resources: number
  readonly traffic: Pick<TrafficData, 'rate' | 'connections'>
}

interface Written {
  readonly product: Product
  readonly client: Client
  readonly visitors: readonly Client[]
  readonly sites: readonly Site[]
}

/**
 * How much later a write is answered where several threads have to serve it: the same writes in turns to a process without threads and to
 * one with them, first without traffic and then beside it. Needs Node 24.
 */
export async function workers({ threads, writes, resources, traffic }: WorkersOptions): Promise<void> {
  console.log(
    `\n${writes} writes of a route's policy in turns, ${resources} resources, ${traffic.rate} requests/s to each; milliseconds`
  )
  const folders = await Promise.all([0, 1].map(() => mkdtemp(join(tmpdir(), 'sluice-bench-'))))
  const [alone, several] = (await Promise.all(
    folders.map((folder, place) => begin(folder, resources, place === 0 ? 0 : threads))
  )) as [Written, Written]
  const upstream = new Worker(new URL('./upstream.js', import.meta.url))
  const [port] = (await once(upstream, 'message')) as [number]
  for (const { client } of [alone, several]) await steadySite(client, port)

  await inTurns(alone, several, WARM_UP)
  const calm = await inTurns(alone, several, writes)
  const running = [alone, several].map(({ product }) => {
    const workerData: TrafficData = { port: product.traffic, host: STEADY, ...traffic }
    return new Worker(new URL('./traffic.js', import.meta.url), { workerData })
  })
  await inTurns(alone, several, WARM_UP)
  const busy = await inTurns(alone, several, writes)
  await Promise.all([...running, upstream].map((worker) => worker.terminate()))
  for (const { client, visitors, product } of [alone, several]) {
    for (const one of [client, ...visitors]) one.close()
    await product.stop()
  }
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })))

  const head = ['', 'one thread p50', 'p99', `${threads} threads p50`, 'p99', 'later by p50', 'stale']
  const rows = Object.entries({ 'no traffic': calm, traffic: busy }).map(([name, { one, other, stale }]) => {
    const later = other.map((time, place) => time - (one[place] as number))
    const figures = [one, other].flatMap((times) => [percentile(times, 0.5), percentile(times, 0.99)])
    return [name, ...[...figures, percentile(later, 0.5)].map((value) => value.toFixed(2)), String(stale)]
  })
  table(head, rows)
}

async function begin(folder: string, resources: number, threads: number): Promise<Written> {
  const sites = await populate(join(folder, 'sluice.db'), { resources, routesPerEdge: 1 })
  const product = await startProduct(folder, threads === 0 ? {} : { SLUICE_WORKERS: String(threads) })
  const visitors = Array.from({ length: VISITORS }, () => new Client(product.traffic))
  return { product, client: new Client(product.api), visitors, sites }
}

/** Milliseconds of each write; `stale`: answers of traffic after it that were of an older configuration. */
async function inTurns(one: Written, other: Written, writes: number) {
  const times = { one: [] as number[], other: [] as number[], stale: 0 }
  for (let n = 0; n < writes; n++)
    for (const [name, to] of [['one', one] as const, ['other', other] as const]) {
      const site = to.sites[n % to.sites.length] as Site
      const marker = `write ${n} ${name}`
      const begun = performance.now()
      await to.client.must(200, 'PATCH', site.path, { traffic_policy: { value: answering(marker) } })
      times[name].push(performance.now() - begun)
      const seen = await Promise.all(
        to.visitors.map((visitor) => visitor.ask('GET', '/', undefined, { host: site.host }))
      )
      times.stale += seen.filter(({ text }) => text !== marker).length
    }
  return times
}
