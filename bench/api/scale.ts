import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { residentMegabytes } from '../process.js'
import { table } from '../table.js'
import { Client } from './client.js'
import { percentile } from './percentile.js'
import { answering, populate, type Shape, type Site } from './populate.js'
import { startProduct } from './product.js'

const TIMED_ACCOUNT = fileURLToPath(new URL('./timed-account.js', import.meta.url))
const WARM_UP = 100

interface Sample {
  /** Milliseconds from the request to its answer, as the client sees it. */
  readonly answer: number
  /** Of the control plane, the store included. */
  readonly control: number
  /** Of the store: the statements of the work, the history, the commit. */
  readonly store: number
  /** The longest turn of the loop meanwhile. */
  readonly longest: number
}

/** What a write costs, and how long a start takes, with so many resources. */
export async function scale(shapes: readonly Shape[], writes: number): Promise<void> {
  console.log(`\none write at a time, ${writes} writes of a route's policy; milliseconds`)
  const rows: string[][] = []
  for (const shape of shapes) {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
    try {
      const path = join(folder, 'sluice.db')
      const sites = await populate(path, shape)
      const { samples, opened } = await timedWrites(path, sites, writes)
      const started = await startUp(folder, sites[sites.length - 1] as Site)
      const of = (part: (sample: Sample) => number) => {
        const values = samples.map(part)
        return [percentile(values, 0.5), percentile(values, 0.99)].map((value) => value.toFixed(2))
      }
      rows.push([
        `${shape.resources} (${shape.routesPerEdge} a host)`,
        ...of(({ answer }) => answer),
        ...of(({ store }) => store),
        ...of(({ control, store }) => control - store),
        ...of(({ longest }) => longest),
        (opened / 1_000).toFixed(2),
        (started.milliseconds / 1_000).toFixed(2),
        started.memory.toFixed(0)
      ])
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
  const pair = (name: string) => [`${name} p50`, 'p99']
  table(
    [
      'resources',
      ...pair('answer'),
      ...pair('store'),
      ...pair('beyond'),
      ...pair('stall'),
      'load s',
      'start s',
      'RSS MB'
    ],
    rows
  )
}

async function timedWrites(path: string, sites: readonly Site[], writes: number) {
  const child = spawn(process.execPath, [TIMED_ACCOUNT, path], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const { port, opened } = await line<{ port: number; opened: number }>(lines)
  const client = new Client(port)
  const samples: Sample[] = []
  for (let n = -WARM_UP; n < writes; n++) {
    const { path } = sites[Math.floor(Math.random() * sites.length)] as Site
    await report(child, lines)
    const begun = performance.now()
    await client.must(200, 'PATCH', path, { traffic_policy: { value: answering(`write ${n}`) } })
    const answer = performance.now() - begun
    const measured = await report(child, lines)
    if (n >= 0) samples.push({ answer, ...measured })
  }
  client.close()
  child.stdin.end()
  await once(child, 'exit')
  return { samples, opened }
}

async function report(child: ChildProcess, lines: AsyncIterator<string>): Promise<Omit<Sample, 'answer'>> {
  child.stdin?.write('\n')
  return await line(lines)
}

async function line<T>(lines: AsyncIterator<string>): Promise<T> {
  const { value, done } = await lines.next()
  if (done === true) throw new Error('the measured process ended early')
  return JSON.parse(value) as T
}

/** From the start of the process to the first request served by the last record. */
async function startUp(folder: string, site: Site): Promise<{ milliseconds: number; memory: number }> {
  const begun = performance.now()
  const product = await startProduct(folder)
  const client = new Client(product.traffic)
  const { status } = await client.ask('GET', '/', undefined, { host: site.host })
  const milliseconds = performance.now() - begun
  client.close()
  if (status !== 200) throw new Error(`${site.host} answered ${status}`)
  const memory = residentMegabytes(product.pid)
  await product.stop()
  return { milliseconds, memory }
}
