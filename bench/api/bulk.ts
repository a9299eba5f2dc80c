import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type PostgresServer, startOwnPostgres } from '../../test/store/postgres-server.js'
import { cpuSeconds } from '../process.js'
import { KEY } from './account.js'
import { Client } from './client.js'
import { answering } from './populate.js'
import { listening } from './product.js'

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url))
const PLAIN = fileURLToPath(new URL('./plain-server.js', import.meta.url))
const LOOP_DELAY = new URL('./loop-delay.js', import.meta.url).href
/** Milliseconds between the requests of the traffic that runs beside. */
const BESIDE = 10
/** Milliseconds of what is measured before, to compare with. */
const CALM = 10_000
const LONGEST = 300_000

export interface Bulk {
  /** Edges and routes together. */
  readonly records: number
  /** The program: another build than this one, to compare. */
  readonly main?: string
}

/**
 * An import into PostgreSQL beside a process that serves: how long it takes, what the loop of that process and its clients
 * notice, and how long a process takes to start with the records.
 */
export async function bulk({ records, main = MAIN }: Bulk): Promise<void> {
  const ends: (() => Promise<unknown>)[] = []
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bulk-'))
  try {
    const server = await startOwnPostgres({ teardown: (end) => ends.push(end) })
    await measure({ records, main }, server, folder, ends)
  } finally {
    for (const end of ends.reverse()) await end()
    await rm(folder, { recursive: true, force: true })
  }
}

async function measure(
  { records, main }: Required<Bulk>,
  server: PostgresServer,
  folder: string,
  ends: (() => Promise<unknown>)[]
): Promise<void> {
  const environment = { SLUICE_STORE: await server.database(), SLUICE_DATA: folder }
  const first = await started(main, folder, environment)
  ends.push(first.stop)
  const plain = await plainServer()
  ends.push(plain.stop)
  const file = join(folder, 'account.json')
  await writeFile(file, JSON.stringify(document(records)))
  await sleep(1000)
  const calm = await watched(first, plain, () => sleep(CALM))
  console.log(`${records} records, calm: ${told(calm)}`)
  const during = await watched(first, plain, async () => {
    const begun = performance.now()
    const peak = await imported(main, file, folder, environment)
    const written = performance.now() - begun
    await until(async () => (await first.api.ask('GET', '/edges/https?limit=1')).json?.https_edges?.length === 1)
    await until(async () => (await first.answers(records / 2 - 1)) === 200)
    const serves = performance.now() - begun
    console.log(
      `  imported in ${seconds(written)}, serves after ${seconds(serves)}, peak ${Math.round(peak / 1024)} MB`
    )
  })
  console.log(`  beside: ${told(during)}`)
  const begun = performance.now()
  const list = await first.api.must(200, 'GET', '/edges/https?limit=100')
  console.log(
    `  a page of 100 of ${records / 2} edges: ${Math.round(performance.now() - begun)} ms, ${list.text.length} bytes`
  )
  // The copy of what serves now is still being written beside traffic.
  await until(async () => (await cpuShare(first.pid)) < 0.1)
  const second = await started(main, folder, environment)
  ends.push(second.stop)
  console.log(`  start with them: ${seconds(second.took)}, ${seconds(cpuSeconds(second.pid) * 1000)} of the processor`)
}

interface Watched {
  /** The status of a request for the host of an edge. */
  answers(edge: number): Promise<number>
  /** Milliseconds, since the call before. */
  longestDelay(): Promise<number>
  stop(): Promise<void>
}

interface Started extends Watched {
  readonly pid: number
  readonly api: Client
  readonly took: number
}

async function started(main: string, folder: string, environment: Record<string, string>): Promise<Started> {
  const begun = performance.now()
  const words = ['--import', LOOP_DELAY, main, 'start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
  const child = spawn(process.execPath, words, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, ...environment, SLUICE_API_KEY: KEY, SLUICE_ACCESS_LOG: 'off' }
  })
  const { traffic, api } = await listening(child, printTrouble)
  const took = performance.now() - begun
  return { pid: child.pid as number, api: new Client(api), took, ...watchable(child, traffic) }
}

/** A process that answers at once and takes no part: what it notices is the machine's. */
async function plainServer(): Promise<Watched> {
  const child = spawn(process.execPath, ['--import', LOOP_DELAY, PLAIN], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc']
  })
  const [port] = (await once(child.stdout as Readable, 'data')) as [Buffer]
  return watchable(child, Number(port))
}

function watchable(child: ChildProcess, port: number): Watched {
  const client = new Client(port)
  return {
    answers: async (edge) => (await client.ask('GET', '/', undefined, { host: hostOf(edge) })).status,
    async longestDelay() {
      const answered = once(child, 'message')
      child.send('delay')
      return ((await answered) as [number])[0]
    },
    async stop() {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    }
  }
}

function printTrouble(line: string): void {
  if (/"level":(40|50|60)/.test(line)) console.log(`  ${line.slice(0, 300)}`)
}

/** Runs the command; resolves with the most memory that it had, in kilobytes. */
async function imported(main: string, file: string, folder: string, environment: Record<string, string>) {
  const child = spawn(process.execPath, [main, 'import', file, '--yes'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...environment }
  })
  let peak = 0
  const exited = once(child, 'exit')
  const looking = setInterval(async () => {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '')
    peak = Math.max(peak, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0))
  }, 200)
  const [code] = (await exited) as [number | null]
  clearInterval(looking)
  if (code !== 0) console.log(`  the import ended with ${code}`)
  return peak
}

interface Beside {
  /** Milliseconds. */
  readonly longestDelay: number
  readonly requests: readonly number[]
  readonly writes: readonly number[]
  /** What a process that takes no part notices at the same time. */
  readonly plain: { readonly longestDelay: number; readonly requests: readonly number[] }
  readonly refused: ReadonlyMap<string, number>
}

/** What clients of traffic and of the API notice while `run` runs. */
async function watched(process: Started, plain: Watched, run: () => Promise<unknown>): Promise<Beside> {
  await Promise.all([process.longestDelay(), plain.longestDelay()])
  let running = true
  const requests: number[] = []
  const plainRequests: number[] = []
  const writes: number[] = []
  const refused = new Map<string, number>()
  const traffic = async (of: Watched, taken: number[]) => {
    while (running) {
      const begun = performance.now()
      await of.answers(0).catch(() => 0)
      taken.push(performance.now() - begun)
      await sleep(BESIDE)
    }
  }
  const writing = async () => {
    while (running) {
      const begun = performance.now()
      const { status, json } = await process.api.ask('POST', '/ip_policies', { description: 'beside' })
      writes.push(performance.now() - begun)
      if (status !== 201) {
        const why = `${status} ${json?.error_code} ${json?.msg}`
        refused.set(why, (refused.get(why) ?? 0) + 1)
      }
      await sleep(200)
    }
  }
  const all = [traffic(process, requests), traffic(plain, plainRequests), writing()]
  await run()
  running = false
  await Promise.all(all)
  const ofPlain = { longestDelay: await plain.longestDelay(), requests: plainRequests }
  return { longestDelay: await process.longestDelay(), requests, writes, plain: ofPlain, refused }
}

function told({ longestDelay, requests, writes, plain, refused }: Beside): string {
  const at = (list: readonly number[], share: number) =>
    Math.round([...list].sort((a, b) => a - b)[Math.floor((list.length - 1) * share)] ?? 0)
  const why = [...refused].map(([text, count]) => `\n    ${count} × ${text}`).join('')
  return (
    `longest delay of the loop ${Math.round(longestDelay)} ms; ${requests.length} requests, p50 ${at(requests, 0.5)} p99 ` +
    `${at(requests, 0.99)} longest ${at(requests, 1)} ms; ${writes.length} writes, p50 ${at(writes, 0.5)} longest ${at(writes, 1)} ms; ` +
    `a process that takes no part: loop ${Math.round(plain.longestDelay)} ms, p99 ${at(plain.requests, 0.99)} longest ${at(plain.requests, 1)} ms${why}`
  )
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + LONGEST
  while (!(await holds().catch(() => false))) {
    if (performance.now() > end) throw new Error('it did not come to that')
    await sleep(20)
  }
}

/** The share of a processor that a process takes. */
async function cpuShare(pid: number): Promise<number> {
  const before = cpuSeconds(pid)
  await sleep(1000)
  return cpuSeconds(pid) - before
}

const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`
const hostOf = (edge: number) => `host-${edge}.bulk.test`

/** An account of edges with one route each; every tenth has a policy of its own. */
function document(records: number): object {
  const id = (prefix: string, n: number) => `${prefix}_${String(n).padStart(27, '0')}`
  const edges: object[] = []
  const routes: object[] = []
  for (let n = 0; n < records / 2; n++) {
    const edge = id('edghts', n)
    edges.push({ id: edge, fields: { hostports: [`${hostOf(n)}:443`] } })
    const value = n % 10 === 0 || n === records / 2 - 1 ? answering(String(n)) : undefined
    const policy = value === undefined ? {} : { traffic_policy: { value } }
    routes.push({ id: id('edghtsrt', n), fields: { edge_id: edge, match: '/', match_type: 'path_prefix', ...policy } })
  }
  return {
    format: 'sluice-account/1',
    version: '',
    users: [],
    records: { https_edge: edges, https_edge_route: routes }
  }
}
