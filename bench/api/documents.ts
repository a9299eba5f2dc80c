import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { cpuSeconds } from '../process.js'
import { KEY } from './account.js'
import { Client } from './client.js'
import { percentile } from './percentile.js'
import { listening } from './product.js'

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url))
/** Milliseconds from one request of the traffic beside to the next, and from one new connection to the next. */
const BESIDE = 2
const CONNECTING = 20
/** Longest time until a saved file serves, in milliseconds. */
const LONGEST = 60_000

/** Parameters of the run. */
export interface Documents {
  /** Sizes of site files, in sites. */
  readonly sites: readonly number[]
  /** Sizes of policies, in rules. */
  readonly rules: readonly number[]
  /** How often each change is made. */
  readonly times: number
  /** Another build of the product. */
  readonly main?: string
  /** Threads that carry traffic; 0: none. */
  readonly workers: number
}

/**
 * Measures changes of large documents beside traffic: a site file with one changed policy, and the `PUT` of a policy with many
 * rules. A client asks another route all the time; its longest request shows for how long the change holds up the others.
 */
export async function documents({ sites, rules, times, main = MAIN, workers }: Documents): Promise<void> {
  for (const size of sites) await changedSite(size, times, main, workers)
  for (const size of rules) await writtenPolicy(size, times, main, workers)
}

const host = (site: number) => `site-${site}.documents.test`

/** A site file in which every site has a backend and a policy of its own with `marker` as the answer of the last site. */
function siteFile(sites: number, marker: string): string {
  const lines = ['backends:', '  web:', '    servers: [http://127.0.0.1:9]', 'sites:']
  for (let site = 0; site < sites; site++) {
    const body = site === sites - 1 ? marker : `site ${site}`
    lines.push(
      `  ${host(site)}:`,
      '    backend: web',
      '    policy:',
      '      on_http_request:',
      '        - name: no crawlers',
      '          expressions:',
      `            - "req.headers['user-agent'][0].contains('crawler ${site}')"`,
      '          actions:',
      '            - type: deny',
      '        - name: answer',
      '          actions:',
      '            - type: custom-response',
      '              config:',
      '                status_code: 200',
      `                body: ${body}`
    )
  }
  return `${lines.join('\n')}\n`
}

/** A policy of so many rules, the last of which answers `marker`. */
function policy(rules: number, marker: string): string {
  const lines = ['on_http_request:']
  for (let rule = 1; rule < rules; rule++) {
    lines.push(
      `  - name: rule ${rule}`,
      '    expressions:',
      `      - "req.url.path.startsWith('/section/${rule}/')"`,
      `      - "req.method == 'POST' || req.headers['x-rule'][0] == '${rule}'"`,
      '    actions:',
      '      - type: add-headers',
      '        config:',
      '          headers:',
      `            x-section: section ${rule}`
    )
  }
  lines.push('  - actions:', '      - type: custom-response', `        config: { status_code: 200, body: ${marker} }`)
  return `${lines.join('\n')}\n`
}

async function changedSite(size: number, times: number, main: string, workers: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-documents-'))
  try {
    const file = join(folder, 'sites.yaml')
    await writeFile(file, siteFile(size, 'before'))
    const running = await started(main, folder, { SLUICE_SITE_FILE: file }, workers)
    console.log(`${size} sites: start ${seconds(running.took)}, ${seconds(running.cpu() * 1000)} of CPU`)
    await sleep(1_500)
    const all: Change[] = []
    for (let time = 0; time < times; time++) {
      const marker = `change-${time}`
      const change = async () => {
        await writeFile(file, siteFile(size, marker))
        return async () => (await running.ask(host(size - 1))).text === marker
      }
      all.push(await watched(running, host(0), change))
      await sleep(300)
    }
    console.log(`  one site changed, ${times} times: ${told(all)}`)
    await running.stop()
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function writtenPolicy(size: number, times: number, main: string, workers: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-documents-'))
  try {
    const running = await started(main, folder, {}, workers)
    const route = async (name: string) => {
      const edge = (await running.api.must(201, 'POST', '/edges/https', { hostports: [`${name}:443`] })).json.id
      const body = { match: '/', match_type: 'path_prefix', traffic_policy: { value: policy(1, name) } }
      return `/edges/https/${edge}/routes/${(await running.api.must(201, 'POST', `/edges/https/${edge}/routes`, body)).json.id}`
    }
    await route('other.documents.test')
    const path = await route('written.documents.test')
    const all: Change[] = []
    for (let time = 0; time < times; time++) {
      const marker = `change-${time}`
      const change = async () => {
        await running.api.must(200, 'PUT', `${path}/traffic_policy`, { value: policy(size, marker) })
        return async () => (await running.ask('written.documents.test')).text === marker
      }
      all.push(await watched(running, 'other.documents.test', change))
    }
    console.log(`PUT of a policy of ${size} rules, ${times} times: ${told(all)}`)
    await running.stop()
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

interface Measured {
  readonly api: Client
  /** Milliseconds until it listened. */
  readonly took: number
  ask(host: string): Promise<{ readonly text: string }>
  /** As `ask`, on a connection of its own. */
  connect(host: string): Promise<unknown>
  /** Seconds of CPU since its start. */
  cpu(): number
  stop(): Promise<void>
}

async function started(
  main: string,
  folder: string,
  environment: Record<string, string>,
  workers: number
): Promise<Measured> {
  const begun = performance.now()
  const words = [main, 'start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
  const threads = workers === 0 ? {} : { SLUICE_WORKERS: String(workers) }
  const child = spawn(process.execPath, words, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      ...environment,
      ...threads,
      SLUICE_DATA: folder,
      SLUICE_API_KEY: KEY,
      SLUICE_ACCESS_LOG: 'off'
    }
  })
  const { traffic, api } = await listening(child, (line) => {
    if (/"level":(40|50|60)/.test(line)) console.log(`  ${line.slice(0, 300)}`)
  })
  const took = performance.now() - begun
  const [visitor, operator] = [new Client(traffic), new Client(api)]
  return {
    api: operator,
    took,
    ask: (name) => visitor.ask('GET', '/', undefined, { host: name }),
    connect: async (name) => {
      const client = new Client(traffic)
      await client.ask('GET', '/', undefined, { host: name })
      client.close()
    },
    cpu: () => cpuSeconds(child.pid as number),
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', () => resolve())
        visitor.close()
        operator.close()
        child.kill('SIGTERM')
      })
  }
}

interface Change {
  /** Milliseconds from the save, or from the request, until the change serves. */
  readonly serves: number
  /** Milliseconds of the longest request of another route meanwhile, and of the longest one with a connection of its own. */
  readonly longest: number
  readonly connection: number
  /** Seconds of CPU of the process beyond those of its traffic. */
  readonly cpu: number
}

/** Makes a change and asks the route of `other` all the time until the change serves. */
async function watched(
  running: Measured,
  other: string,
  change: () => Promise<() => Promise<boolean>>
): Promise<Change> {
  const calm = await traffic(running, other, async () => await sleep(300))
  let serves = 0
  const during = await traffic(running, other, async () => {
    const begun = performance.now()
    const serving = await change()
    while (!(await serving())) {
      if (performance.now() - begun > LONGEST) throw new Error('the change does not serve')
      await sleep(BESIDE)
    }
    serves = performance.now() - begun
    // What follows the change belongs to it.
    await sleep(200)
  })
  const share = calm.cpu / calm.requests
  const { longest, connection } = during
  return { serves, longest, connection, cpu: Math.max(0, during.cpu - share * during.requests) }
}

async function traffic(running: Measured, other: string, run: () => Promise<void>) {
  let asks = true
  const begun = running.cpu()
  const asking = async (ask: (host: string) => Promise<unknown>, pause: number) => {
    const took: number[] = []
    while (asks) {
      const at = performance.now()
      await ask(other)
      took.push(performance.now() - at)
      await sleep(pause)
    }
    return took
  }
  const both = Promise.all([asking(running.ask, BESIDE), asking(running.connect, CONNECTING)])
  await run()
  asks = false
  const [took, connected] = await both
  const requests = took.length + connected.length
  return { longest: percentile(took, 1), connection: percentile(connected, 1), requests, cpu: running.cpu() - begun }
}

function told(all: readonly Change[]): string {
  const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
  const of = (key: keyof Change) => all.map((change) => change[key])
  return (
    `serves after ${Math.round(median(of('serves')))} ms (longest ${Math.round(percentile(of('serves'), 1))}), ` +
    `longest request of another route ${median(of('longest')).toFixed(1)} ms (longest ${percentile(of('longest'), 1).toFixed(1)}), ` +
    `with a new connection ${median(of('connection')).toFixed(1)} ms (longest ${percentile(of('connection'), 1).toFixed(1)}), ` +
    `CPU ${Math.round(median(of('cpu')) * 1000)} ms`
  )
}

const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`
